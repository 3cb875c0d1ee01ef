"""What a round says of a cell whose results come from the endpoints harness, and of a cell's compliance tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.desired.checks import check
from reconciler.desired.compile import compile_desired, find_gaps
from reconciler.desired.compliance import select_tests
from reconciler.desired.state import Desired, Pins
from reconciler.errors import Problem, SpecError
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.declared import Declared
from tests.unit.desired.test_inputs import HERE, compiled, declare
from tests.unit.spec import writing
from tests.unit.spec.writing import load_texts

SPEC_ANSWER_LENGTHS = writing.give_head("""\
  systems: {box: {category: datacenter, status: available}}
  benchmarks:
    digits:
      as: llama3.1-8b
      engine: {backend: openai}
      run: {options: {url: "http://127.0.0.1:8000", model: llama, BOUND}}
  divisions: {DIVISION: {box: {digits: {Offline: {target_qps: 1}}}}}
""")


def judge(
    bound: str,
    division: str,
    *,
    round_name: str = "v6.1",
    benchmark: str = "llama3.1-8b",
    spec: str = SPEC_ANSWER_LENGTHS,
) -> None:
    text = spec.replace("BOUND", bound).replace("DIVISION", division)
    text = text.replace("v6.1", round_name).replace("llama3.1-8b", benchmark)
    check(writing.declare(text), load_ruleset(round_name))


@pytest.mark.parametrize(
    ("bound", "division"),
    [("max_new_tokens: 128", "closed"), ("max_new_tokens: 0", "closed"), ("max_new_tokens: 16", "open")],
)
def test_the_rounds_own_and_those_of_the_open_division_are_taken(bound: str, division: str) -> None:
    judge(bound, division)


@pytest.mark.parametrize(
    ("round_name", "benchmark", "bound", "ruled"),
    [
        ("v5.0", "gptj-99.9", "max_new_tokens: 64", "128"),
        ("v5.0", "gptj-99", "min_new_tokens: 1", "30"),
        ("v4.1", "mixtral-8x7b", "max_new_tokens: 512", "1024"),
        ("v5.0", "mixtral-8x7b", "min_new_tokens: 1", "2"),
        ("v6.1", "whisper", "max_new_tokens: 100", "200"),
    ],
)
def test_lengths_are_those_of_the_round(round_name: str, benchmark: str, bound: str, ruled: str) -> None:
    found = writing.catch_problems(judge, bound, "closed", round_name=round_name, benchmark=benchmark)
    said = f"{bound.replace(':', ' is')}; round {round_name} requires {ruled}"
    assert said in [problem.message for problem in found]
    judge(f"{bound.partition(':')[0]}: {ruled}", "closed", round_name=round_name, benchmark=benchmark)


@pytest.mark.parametrize("backend", ["openai", "vllm"])
def test_queries_share_nothing_in_the_closed_division(backend: str) -> None:
    asked = "BOUND" if backend == "openai" else 'url: "http://127.0.0.1:8000", model: llama, BOUND'
    text = SPEC_ANSWER_LENGTHS.replace("openai", backend)
    text = text if backend == "openai" else text.replace(asked, "BOUND")
    for division, bound in (("open", "true"), ("closed", "false")):
        judge(f"prefix_caching: {bound}", division, spec=text)
    (problem,) = writing.catch_problems(judge, "prefix_caching: true", "closed", spec=text)
    said = "prefix_caching shares computation between queries, which the closed division forbids"
    assert problem.message == said


IMAGES = writing.give_head("""\
  systems: {box: {category: edge, status: available}}
  benchmarks: {sdxl: {engine: {backend: diffusers, options: {BOUND}}}}
  divisions: {DIVISION: {box: {sdxl: {Offline: {target_qps: 1}}}}}
""")


def test_fewer_steps_are_refused_in_the_closed_division_alone() -> None:
    found = writing.catch_problems(judge, "steps: 4", "closed", spec=IMAGES)
    assert "steps is 4; the closed division requires the benchmark's own" in [problem.message for problem in found]
    judge("steps: 4", "open", spec=IMAGES)
    judge("steps: 0", "closed", spec=IMAGES)


SPEC_EARLIER = writing.give_head("""\
  systems: {box: {category: edge, status: available}}
  benchmarks:
    photos: {as: NAME, code: resnet50, dataset: {path: data}, model: {path: m.onnx}, engine: {backend: onnxruntime}}
  divisions: {DIVISION: {box: {photos: {Offline: {target_qps: 54}}}}}
""")


def compile_entered(folder: Path, division: str, name: str) -> Desired:
    declared = load_texts(folder, main=SPEC_EARLIER.replace("DIVISION", division).replace("NAME", name))
    ruleset = load_ruleset("v6.1")
    check(declared, ruleset)
    return compile_desired(declared, ruleset, Pins())[0]


@pytest.mark.parametrize(("name", "samples"), [("retinanet", 64), ("ssd-large", 64), ("rnnt", 2513)])
def test_open_runs_it_with_its_own_counts_and_the_rounds_seeds(tmp_path: Path, name: str, samples: int) -> None:
    desired = compile_entered(tmp_path, "open", name)
    run = desired.detail(Address.parse("Run:open/box/photos/Offline/performance")).collect_values()
    assert run["performance_sample_count"] == samples
    assert run["qsl_rng_seed"] == load_ruleset("v6.1").seeds()["qsl_rng_seed"]
    (note,) = desired.notes
    assert note.startswith(f"open/photos: round v6.1 has no {name};")


def test_a_benchmark_of_the_round_needs_no_word(tmp_path: Path) -> None:
    assert compile_entered(tmp_path, "open", "resnet").notes == ()


@pytest.mark.parametrize(
    ("division", "name", "message", "fix"),
    [
        ("closed", "retinanet", "round v6.1 no longer has benchmark 'retinanet'", "move it to the open division"),
        ("closed", "ssd-large", "round v6.1 no longer has benchmark 'ssd-large'", "move it to the open division"),
        ("open", "retinanett", "round v6.1 has no benchmark 'retinanett'", "did you mean retinanet?"),
    ],
)
def test_closed_and_unknown_names_are_refused(tmp_path: Path, division: str, name: str, message: str, fix: str) -> None:
    (problem,) = writing.catch_problems(compile_entered, tmp_path, division, name)
    assert problem.message == message
    assert problem.fix.startswith(fix)


TWICE = SPEC_EARLIER.replace(
    "  divisions:",
    "    resnet50: {dataset: {path: data}, model: {path: m.onnx}, engine: {backend: onnxruntime}}\n  divisions:",
).replace("{photos: {Offline: {target_qps: 54}}}", "{photos: {Offline: {}}, resnet50: {Offline: {}}}")


def test_two_benchmarks_of_closed_may_not_be_entered_as_one(tmp_path: Path) -> None:
    text = TWICE.replace("NAME", "resnet")
    check(load_texts(tmp_path, main=text.replace("DIVISION", "open")), load_ruleset("v6.1"))
    closed = load_texts(tmp_path, main=text.replace("DIVISION", "closed"))
    (problem,) = writing.catch_problems(check, closed, load_ruleset("v6.1"))
    assert problem.message == "closed/box/resnet50/Offline and closed/box/photos/Offline are both submitted as resnet"
    assert "open division" in problem.fix


ASKED_AT = Origin("specs/a.yaml", 31, 9)
ROUND = load_ruleset("v5.0")


def asking(test: str, official: str = "resnet", division: str = "open") -> Declared:
    declared = declare("Offline", benchmark__official=official)
    cell = declared.cells[0]
    settings = {**cell.settings, f"compliance.{test}": Value(True, ASKED_AT)} if test else cell.settings
    named = replace(cell, cell=Cell(division, "box", "digits", "Offline"), settings=settings)
    return replace(declared, cells=(named,), rehearsal=Value(True, HERE))


def problems(declared: Declared) -> tuple[Problem, ...]:
    try:
        check(declared, ROUND)
    except SpecError as error:
        return tuple(error.problems)
    return ()


def names(declared: Declared, official: str = "resnet") -> list[str]:
    return [rules.name for rules in select_tests(declared.cells[0], ROUND.find_benchmark(official), ROUND)]


def test_the_closed_division_has_the_rounds_tests_and_the_open_one_those_asked_for() -> None:
    assert names(asking("", division="closed")) == ["TEST01", "TEST04"]
    assert names(asking("TEST04", division="closed")) == ["TEST01", "TEST04"]
    assert names(asking("")) == []
    assert names(asking("TEST04")) == ["TEST04"]
    assert names(asking("TEST99")) == []


def test_a_test_is_made_from_what_the_run_is_with_its_own_settings_in_place_of_the_runs() -> None:
    desired = compiled(asking("TEST01"))
    (cell,) = asking("TEST01").cells
    inputs = [item.name for item in desired.detail(Address(Kind.COMPLIANCE_TEST, f"{cell.cell}/TEST01")).inputs]
    own = {name.removeprefix("audit.") for name in inputs if name.startswith("audit.")}
    assert {"mode", "min_duration"} & own == {"mode"}
    assert {"scenario", "mode", "min_duration", "test"} <= {*inputs}
    assert own & {*inputs} == {"mode"}


@pytest.mark.parametrize(
    ("settings", "attempts", "verdicts"),
    [
        ({}, 1, 2),
        ({"attempts": 3}, 3, 6),
        ({"compliance.TEST01.attempts": 2}, 2, 3),
        ({"compliance.TEST01.attempts": 2, "attempts": 3}, 2, 5),
        ({"compliance.TEST04.attempts": 2}, 1, 2),
    ],
    ids=str,
)
def test_a_verdict_is_of_each_attempt_and_the_run(settings: dict[str, int], attempts: int, verdicts: int) -> None:
    declared = asking("TEST01")
    (cell,) = declared.cells
    added = {**cell.settings, **{name: Value(value, HERE) for name, value in settings.items()}}
    found = {
        resource.address: resource.attempts
        for resource in compiled(replace(declared, cells=(replace(cell, settings=added),))).resources
    }
    name = f"{cell.cell}/TEST01"
    assert found[Address(Kind.COMPLIANCE_TEST, name)] == attempts
    assert found[Address(Kind.VERDICT, name)] == verdicts
    assert found[Address(Kind.RUN, f"{cell.cell}/performance")] == settings.get("attempts", 1)


def commanded(**changes: object) -> Declared:
    """A cell of a command that is entered as ``official``, asked for both tests that compare first elements."""
    official = str(changes.pop("official", "resnet"))
    declared = asking("TEST01", official)
    (cell,) = declared.cells
    words = {"harness.command": ("run", "{run_dir}", "{user_conf}"), "harness.code": ".", **changes}
    settings = {name: value for name, value in cell.settings.items() if not name.startswith("engine.")}
    settings |= {name.replace("__", "."): Value(value, ASKED_AT) for name, value in words.items()}
    return replace(declared, cells=(replace(cell, settings=settings),))


def list_types(declared: Declared) -> list[object]:
    """The type in the verdict's key; [] where it is the default of the official script."""
    (cell,) = declared.cells
    detail = compiled(declared).detail(Address(Kind.VERDICT, f"{cell.cell}/TEST01"))
    return [item.value for item in detail.inputs if item.name == "dtype"]


IMAGENET = ("python", "tools/accuracy-imagenet.py", "{accuracy_log}")


@pytest.mark.parametrize(
    ("changes", "types"),
    [
        ({}, ["any"]),
        ({"harness__score__command": ("score",)}, ["any"]),
        ({"harness__score__command": ("score", "--dtype", "int64")}, ["int64"]),
        ({"harness__score__command": ("score", "--output_dtype=float16")}, ["any"]),
        ({"harness__score__command": ("bash", "-c", "exec score --dtype 'float' x")}, ["float32"]),
        ({"harness__score__command": ("score", "--output_dtype=uint8")}, []),
        ({"harness__score__command": IMAGENET}, ["float32"]),
        ({"harness__score__command": ("sh", "-c", "python 'a/accuracy-imagenet.py' x")}, ["float32"]),
        ({"harness__score__command": ("python", "my-accuracy-imagenet.py")}, ["any"]),
        ({"harness__score__command": (*IMAGENET, "--dtype=int32")}, ["int32"]),
        ({"harness__score__command": IMAGENET, "compliance__TEST01__dtype": "int64"}, ["int64"]),
        ({"benchmark__code": "resnet50"}, ["int32"]),
        ({"official": "retinanet", "harness__score__command": ("score",)}, ["float32"]),
    ],
    ids=str,
)
def test_answers_of_a_command_are_compared_as_scored(changes: dict[str, object], types: list[object]) -> None:
    declared = commanded(**changes)
    assert list_types(declared) == types
    asked = [gap.path for gap in find_gaps(declared, ROUND) if gap.path.endswith(".compliance")]
    assert bool(asked) is (types == ["any"])
