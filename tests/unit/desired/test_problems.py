"""What the round or this program cannot take of a spec, what a cell may not declare, and what a submission lacks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from reconciler.desired.checks import check, check_reading, find_problems
from reconciler.desired.compile import find_gaps
from reconciler.desired.requirements import find_missing_cells, list_needed_pins, list_notes
from reconciler.errors import Problem, SpecError
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import Cell
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.declared import Declared, DeclaredSystem, Reading
from tests.unit.desired.test_inputs import HERE, RULES, declare, move_to
from tests.unit.spec import writing

ROUND = "v6.1"
SPEC = writing.give_head("""\
  # nothing of an optional part
  systems:
    box: {category: edge, status: available}
  benchmarks:
    net:
      as: resnet
      code: resnet50
      model: {path: m.onnx}
      engine: {backend: onnxruntime}
    chat:
      as: llama3.1-8b-edge
      harness: {command: [run, "{run_dir}", "{user_conf}"], score: {command: [s, "{accuracy_log}"]}, code: .}
  divisions:
    closed: {box: {net: {SingleStream: {}, Offline: {target_qps: 9}}}}
""")
NET, CHAT = "net: {SingleStream: {}, Offline: {target_qps: 9}}", "chat: {Offline: {target_qps: 1}}"
BOX, ENGINE = "status: available}", "engine: {backend: onnxruntime}"
COMMAND = 'harness: {command: [run, "{run_dir}", "{user_conf}"], score: {command: [s, "{accuracy_log}"]}, code: .}'
RESNET = "as: resnet\n"
# Edits of SPEC, and the line, column and field below ``spec`` of each problem that they make.
CASES: dict[str, tuple[list[tuple[str, str]], str]] = {
    "nothing but a description": ([], "9:5 systems.box.description"),
    "a rehearsal": ([("submitter: ACME", "submitter: ACME\n  rehearsal: true")], ""),
    "an unknown benchmark": ([(RESNET, "as: resnext\n")],
        "12:11 divisions.closed.box.net.SingleStream; 13:13 benchmarks.net"),
    "a benchmark like no other": ([(RESNET, "as: zzz\n")],
        "12:11 divisions.closed.box.net.SingleStream; 13:13 benchmarks.net"),
    "a benchmark of an earlier round": ([(RESNET, "as: retinanet\n")],
        "12:11 divisions.closed.box.net.SingleStream; 13:13 benchmarks.net"),
    "a benchmark of an earlier round in open": ([(RESNET, "as: retinanet\n"), ("closed:", "open:")], ""),
    "a scenario that is not allowed": ([(NET, "net: {Server: {target_qps: 9}}")],
        "20:26 divisions.closed.box.net.Server"),
    "a category that is not allowed": ([("category: edge", "category: datacenter")],
        "20:26 divisions.closed.box.net.SingleStream; 20:44 divisions.closed.box.net.Offline"),
    "a scenario that is not allowed, in open": ([(NET, "net: {Server: {target_qps: 9}}"), ("closed:", "open:")], ""),
    "one benchmark twice in open": ([
        ("as: llama3.1-8b-edge", "as: resnet"),
        (NET, f"{NET}, {CHAT}"),
        ("closed:", "open:"),
    ],
        "18:26 benchmarks.chat"),
    "a duration too short": ([("target_qps: 9", "target_qps: 9, min_duration: 10 s")],
        "20:83 divisions.closed.box.net.Offline"),
    "a duration too short in a rehearsal": ([
        ("target_qps: 9", "target_qps: 9, min_duration: 10 s"),
        ("submitter: ACME", "submitter: ACME\n  rehearsal: true"),
    ],
        ""),
    "half a millisecond of Server": ([
        (NET, "chat: {Server: {target_qps: 1, target_latency: 1.5 us}}"),
        ("closed", "open"),
    ],
        "20:65 divisions.open.box.chat.Server; 18:26 benchmarks.chat"),
    "a test that is none": ([("target_qps: 9", "target_qps: 9, compliance: [TEST02]")],
        "20:81 divisions.closed.box.net.Offline"),
    "a test of other benchmarks": ([("target_qps: 9", "target_qps: 9, compliance: [TEST01, TEST06, TEST09]")],
        "20:81 divisions.closed.box.net.Offline; 20:81 divisions.closed.box.net.Offline"),
    "a dataset for a test that compares runs": ([
        ("target_qps: 9", "target_qps: 9, compliance: {TEST01: {dataset: {path: other}}}"),
    ],
        "20:107 divisions.closed.box.net.Offline"),
    "inferred from nowhere": ([(NET, "net: {SingleStream: {}, Offline: {infer_from: MultiStream}}")],
        "20:66 divisions.closed.box.net.Offline"),
    "inferred from what is inferred": ([
        (NET, "net: {SingleStream: {}, Offline: {infer_from: MultiStream}, MultiStream: {infer_from: SingleStream}}"),
    ],
        "20:66 divisions.closed.box.net.Offline"),
    "inferred as the round allows": ([(NET, "net: {SingleStream: {}, Offline: {infer_from: SingleStream}}")], ""),
    "inferred as no round allows": ([(NET, "net: {Offline: {target_qps: 9}, SingleStream: {infer_from: Offline}}")],
        "20:79 divisions.closed.box.net.SingleStream"),
    "inferred from another benchmark": ([(NET, f"{NET}, chat: {{Offline: {{infer_from: net}}}}")],
        "20:100 divisions.closed.box.chat.Offline; 6:14 documents"),
    "weights that are discarded": ([("model: {path: m.onnx}", 'model: {path: m.onnx, settings: {sparsity: "2:4"}}')],
        "14:50 divisions.closed.box.net.SingleStream"),
    "fewer samples than closed results need": ([(ENGINE, f"{ENGINE}\n      dataset: {{settings: {{count: 100}}}}")],
        "16:35 benchmarks.net.dataset.settings.count"),
    "fewer samples of a benchmark of ones own": ([
        ("code: resnet50", "code: tests/passes/benchmarks/tiny.py"),
        (ENGINE, f"{ENGINE}\n      dataset: {{settings: {{count: 1024}}}}"),
    ],
        "16:35 benchmarks.net.dataset.settings.count; 12:11 benchmarks.net"),
    "a count of ones own that is no number": ([
        ("code: resnet50", "code: tests/passes/benchmarks/tiny.py"),
        (ENGINE, f"{ENGINE}\n      dataset: {{settings: {{count: few}}}}"),
    ],
        "12:11 benchmarks.net"),
    "fewer samples in open": ([
        (ENGINE, f"{ENGINE}\n      dataset: {{settings: {{count: 100}}}}"),
        ("closed:", "open:"),
    ],
        "16:35 benchmarks.net.dataset.settings.count"),
    "samples that are not published": ([
        ("code: resnet50", "code: bert"),
        (RESNET, "as: bert-99\n"),
        (ENGINE, f"{ENGINE}\n      dataset: {{settings: {{unpublished: true}}}}"),
    ],
        "16:41 benchmarks.net.dataset.settings.unpublished"),
    "no target": ([(NET, "net: {Offline: {}, SingleStream: {}}")], "20:26 divisions.closed.box.net.Offline"),
    "no target, in a file of the command": ([
        (COMMAND, COMMAND.replace("code: .", "code: ., user_conf: harvested")),
        (NET, "chat: {Offline: {}}"),
    ],
        "18:26 benchmarks.chat; 6:14 documents"),
    "a command without code": ([(COMMAND, COMMAND.replace(", code: .", "")), (NET, CHAT)],
        "18:26 benchmarks.chat; 18:26 benchmarks.chat.harness; 6:14 documents"),
    "runs that are made elsewhere": ([
        ("code: resnet50", "code: external"),
        (NET, "net: {Offline: {}, SingleStream: {}}"),
    ],
        "13:13 benchmarks.net; 6:14 documents"),
    "a command in the closed division, without a calibration document": ([(NET, CHAT)],
        "18:26 benchmarks.chat; 6:14 documents"),
    "a command in the open division": ([(NET, CHAT), ("closed:", "open:")], "18:26 benchmarks.chat"),
    "an idle accelerator": ([(BOX, "status: available, hardware: {accelerator: NVIDIA H100, count: 1}}")],
        "15:25 benchmarks.net"),
    "no accelerator": ([(ENGINE, "engine: {backend: tensorrt}")], "15:25 benchmarks.net"),
    "another maker's accelerator": ([
        (ENGINE, "engine: {backend: tensorrt}"),
        (BOX, "status: available, hardware: {accelerator: AMD Instinct MI300X, count: 1}}"),
    ],
        "15:25 benchmarks.net"),
    "a number of accelerators of its own": ([
        (BOX, 'status: available, hardware: {accelerator: AMD, count: 2}, description: {accelerators_per_node: "4"}}'),
    ],
        "9:5 systems.box.description; 9:123 systems.box.description.accelerators_per_node; 15:25 benchmarks.net"),
    "a number of nodes of its own": ([
        (BOX, 'status: available, hardware: {accelerator: AMD, nodes: 2}, description: {number_of_nodes: "4"}}'),
    ],
        "9:5 systems.box.description; 9:117 systems.box.description.number_of_nodes; 15:25 benchmarks.net"),
    "fields of a description that are written and empty": ([
        (BOX, 'status: available, description: {cooling: not declared, framework: ""}}'),
    ],
        "9:69 systems.box.description.cooling; 9:94 systems.box.description.framework; 9:5 systems.box.description"),
    "an unknown field of a description": ([
        (BOX, "status: available, description: {coolinq: air, cooling: air}}"),
    ],
        "9:60 systems.box.description; 9:5 systems.box.description"),
    "a benchmark of ones own in closed": ([("code: resnet50", "code: digits")], "13:13 benchmarks.net"),
    "a benchmark of ones own in open": ([("code: resnet50", "code: digits"), ("closed:", "open:")],
        "13:13 benchmarks.net"),
    "a scenario that is not allowed in a datacenter": ([
        ("as: llama3.1-8b-edge", "as: llama3.1-8b"),
        ("category: edge", "category: datacenter"),
        (NET, "chat: {SingleStream: {}}"),
    ],
        "20:27 divisions.closed.box.chat.SingleStream; 18:26 benchmarks.chat; 6:14 documents"),
    "weights that are discarded, in open": ([
        ("model: {path: m.onnx}", 'model: {path: m.onnx, settings: {sparsity: "2:4"}}'), ("closed:", "open:"),
    ], ""),
}  # fmt: skip


def find(text: str) -> list[Problem]:
    """What is wrong with the spec, or else what it lacks."""
    try:
        declared = writing.declare(text)
    except SpecError as error:
        pytest.fail(f"it is not read: {error}")
    ruleset = load_ruleset(ROUND)
    return [*find_problems(declared, ruleset), *find_gaps(declared, ruleset)]


def check_places(spec: str, edits: list[tuple[str, str]], places: str, known: Sequence[Problem] = ()) -> None:
    """Check that the edits of ``spec`` make problems at ``places``, and no others but those that are ``known``."""
    for old, new in edits:
        assert old in spec
        spec = spec.replace(old, new)
    found = [p for p in find(spec) if p not in known]
    assert "; ".join(f"{p.line}:{p.column} {p.path.removeprefix('spec.')}" for p in found) == places
    assert all(p.message and p.fix for p in found)


@pytest.mark.parametrize("name", CASES)
def test_a_problem_of_a_spec_has_its_place(name: str) -> None:
    check_places(SPEC, *CASES[name], known=[] if name == next(iter(CASES)) else find(SPEC))


def entering(division: str, category: str, official: str, *scenarios: str) -> Declared:
    first = declare(benchmark__official=official)
    cells = tuple(replace(first.cells[0], cell=Cell(division, "box", "mine", scenario)) for scenario in scenarios)
    system = DeclaredSystem(
        "box", {"system.category": Value(category, HERE), "system.status": Value("available", HERE)}, {}
    )
    return replace(first, cells=cells, systems={"box": system})


def test_a_benchmark_that_the_round_does_not_have_demands_no_scenario() -> None:
    assert find_missing_cells(entering("closed", "edge", "of-my-own", "Offline"), RULES) == ()


def test_each_system_and_benchmark_has_scenarios_of_its_own() -> None:
    one = entering("closed", "edge", "resnet", "Offline", "SingleStream")
    bert = entering("closed", "edge", "bert-99", "Offline").cells[0]
    other = replace(bert, cell=Cell("closed", "box", "other", "Offline"))
    away = replace(one.cells[0], cell=Cell("closed", "rack", "mine", "MultiStream"))
    both = replace(one, cells=(*one.cells, other, away), systems={**one.systems, "rack": one.systems["box"]})
    assert sorted(find_missing_cells(both, load_ruleset("v5.0"))) == [
        "closed/box/mine/MultiStream",
        "closed/box/other/SingleStream",
        "closed/rack/mine/Offline",
        "closed/rack/mine/SingleStream",
    ]


def test_entries_of_one_benchmark_that_share_its_folder_are_complete_together() -> None:
    one = entering("closed", "edge", "resnet", "Offline", "SingleStream")
    other = replace(one.cells[0], cell=Cell("closed", "box", "other", "MultiStream"))
    assert find_missing_cells(replace(one, cells=(*one.cells, other)), load_ruleset("v5.0")) == ()
    absent = replace(one, cells=(one.cells[0], other))
    assert find_missing_cells(absent, load_ruleset("v5.0")) == ("closed/box/mine/SingleStream",)


def needed(**changes: object) -> tuple[str, ...]:
    return list_needed_pins(declare(**changes), RULES)


def test_what_the_spec_pins_is_not_asked_of_the_world() -> None:
    assert needed() == ()
    assert len(needed(engine__version=None)) == 1
    assert needed(engine__version=None, engine__backend="null") == ()
    assert len(needed(model__path="/lab/net.onnx", dataset__path="/lab/images")) == 2
    digests = {"model__sha256": "0" * 64, "dataset__sha256": "1" * 64}
    assert needed(model__path="/lab/net.onnx", dataset__path="/lab/images", **digests) == ()


def test_variables_that_are_not_set_are_reported_with_the_place_that_names_them() -> None:
    declared = replace(declare(), unset={"DATA": Origin("specs/a.yaml", 7), "MODELS": Origin("specs/b.yaml", 9)})
    assert list_notes(declare(), RULES) == ()
    assert list_notes(declared, RULES) == tuple(
        f"{place}: the environment variable {name} is not set; paths below it count as missing "
        f"(export {name}=/path/to/it)"
        for place, name in (("specs/a.yaml:7", "DATA"), ("specs/b.yaml:9", "MODELS"))
    )


@pytest.mark.parametrize(
    ("scenario", "setting", "value", "message"),
    [
        ("Offline", "min_duration", 599_999, "min_duration is 599.999 s; round v6.1 requires at least 600 s"),
        ("Offline", "performance_sample_count", 1023, "is 1023 samples; round v6.1 requires at least 1024 samples"),
        ("Server", "target_latency", 16_000_000, "is 16 ms; round v6.1 requires at most 15 ms"),
    ],
)
def test_what_no_checker_accepts_is_refused(scenario: str, setting: str, value: int, message: str) -> None:
    declared = declare(scenario, **{setting: value})
    with pytest.raises(SpecError) as caught:
        check(declared, RULES)
    assert message in str(caught.value)
    check(replace(declared, rehearsal=Value(True)), RULES)
    check(declare(scenario), RULES)


@pytest.mark.parametrize(
    ("round_name", "scenario", "setting", "refused", "taken"),
    [
        ("v6.1", "Offline", "min_query_count", 24_575, 24_576),
        ("v5.1", "Offline", "min_query_count", 100, 24_576),
        ("v1.0", "SingleStream", "min_query_count", 1023, 1024),
        ("v1.0", "Server", "min_query_count", 270_335, 270_336),
        ("v6.1", "Server", "max_duration", 599_999, 0),
        ("v6.1", "Server", "accuracy_sample_count", 49_999, 50_000),
        ("v6.1", "Server", "accuracy_sample_count", 50_001, 0),
    ],
)
def test_closed_results_need_what_the_checkers_of_their_round_read(
    round_name: str, scenario: str, setting: str, refused: int, taken: int
) -> None:
    def closed(value: int) -> Declared:
        declared = move_to("closed", declare(scenario, **{setting: value}))
        box = declared.systems["box"]
        both = replace(box, settings={**box.settings, "system.category": Value("datacenter,edge")})
        return replace(declared, systems={"box": both})

    rules = load_ruleset(round_name)
    (found,) = [each for each in find_problems(closed(refused), rules) if each.message.startswith(setting)]
    assert (found.file, found.line) == (HERE.file, HERE.line)
    assert setting in found.fix
    assert find_problems(replace(closed(refused), rehearsal=Value(True)), rules) == []
    assert not [each for each in find_problems(closed(taken), rules) if setting in each.message]


@pytest.mark.parametrize(("round_name", "refused"), [("v6.1", True), ("v5.1", False)])
def test_open_results_need_every_sample_where_the_rounds_checker_counts_them(round_name: str, refused: bool) -> None:
    found = find_problems(declare("Offline", accuracy_sample_count=1024), load_ruleset(round_name))
    assert ["accuracy_sample_count" in each.message for each in found] == [True] * refused


@pytest.mark.parametrize(
    ("round_name", "scenario", "most", "more", "refused"),
    [
        ("v6.1", "Server", 99, {}, True),
        ("v6.1", "Interactive", 99, {}, True),
        ("v6.1", "SingleStream", 99, {}, True),
        ("v6.1", "MultiStream", 661, {}, True),
        ("v6.1", "MultiStream", 662, {}, False),
        ("v6.1", "Server", 0, {}, False),
        ("v6.1", "Server", 50, {"min_query_count": 50}, False),
        ("v6.1", "Server", 99, {"engine__backend": "external"}, False),
        ("v6.1", "Offline", 1, {}, False),
        ("v1.0", "Server", 270_335, {}, True),
        ("v1.0", "Server", 270_336, {}, False),
    ],
)
@pytest.mark.parametrize("rehearsal", [False, True])
def test_most_queries_are_no_fewer_than_the_rounds_fewest(
    round_name: str, scenario: str, most: int, more: dict[str, object], refused: bool, rehearsal: bool
) -> None:
    declared = declare(scenario, max_query_count=most, **more)
    found = find_problems(replace(declared, rehearsal=Value(rehearsal)), load_ruleset(round_name))
    wrong = [each for each in found if each.message.startswith("max_query_count")]
    assert [(each.file, each.line) for each in wrong] == [(HERE.file, HERE.line)] * refused


@pytest.mark.parametrize(
    ("division", "scenario", "more", "refused"),
    [
        ("closed", "Server", {}, True),
        ("closed", "Interactive", {}, True),
        ("closed", "Offline", {}, False),
        ("open", "Server", {}, False),
        ("closed", "Server", {"benchmark__official": "resnet"}, False),
        ("closed", "Server", {"engine__backend": "external"}, False),
        ("closed", "Server", {"target_latency": None}, False),
    ],
)
def test_a_latency_of_answers_is_refused_where_that_of_tokens_counts(
    division: str, scenario: str, more: dict[str, object], refused: bool
) -> None:
    changes = {"target_latency": 10**7, "benchmark__official": "llama3.1-8b", **more}
    found = find_problems(move_to(division, declare(scenario, **changes)), RULES)
    assert any("no effect" in each.message for each in found) is refused


def test_runs_made_elsewhere_have_issued_their_queries() -> None:
    closed = move_to("closed", declare("Offline", min_query_count=100, engine__backend="external"))
    assert [each for each in find_problems(closed, RULES) if "min_query_count" in each.message] == []


def test_a_benchmark_whose_name_has_another_one_now_is_for_the_open_division() -> None:
    declared = declare("Offline", benchmark__official="3d-unet-99", benchmark__code="unet3d_brats")
    check(declared, RULES)
    with pytest.raises(SpecError, match=r"in round v6\.1 3d-unet-99 is another benchmark"):
        check(move_to("closed", declared), RULES)


@pytest.mark.parametrize(
    ("wrong", "silent"),
    [
        ("spec.systems.box", True),
        ("spec.systems.box.category", True),
        ("spec.systems.box2", False),
        ("spec.systems", False),
        ("spec.benchmarks.digits.engine", True),
        ("spec.benchmarks.digits", True),
        ("spec.benchmarks.digits2", False),
        ("spec.defaults", True),
        ("spec.divisions.open.box.digits.Offline", True),
        ("spec.divisions.open.crate.digits", False),
        ("spec.stores", False),
    ],
)
def test_nothing_is_said_of_a_cell_that_hangs_on_what_was_refused(wrong: str, silent: bool) -> None:
    declared = declare("Offline", min_duration=599_999)
    assert len(find_problems(declared, RULES)) == 1
    assert (find_problems(declared, RULES, [wrong]) == []) is silent


@pytest.mark.parametrize(
    ("declared", "path"),
    [(None, "spec.round"), (None, "spec.systems"), (declare("Offline"), "spec.round")],
    ids=["nothing", "nothing of a round", "another round"],
)
def test_a_spec_of_no_round_reports_what_the_reading_found(declared: Declared | None, path: str) -> None:
    found = Problem("a.yaml", 5, 10, path, "there is no round v9", "choose one")
    with pytest.raises(SpecError) as caught:
        check_reading(Reading(declared, (found,)), lambda _: pytest.fail("no rules are asked for"))
    assert list(caught.value.problems) == [found]
