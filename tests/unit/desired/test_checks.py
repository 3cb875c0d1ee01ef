"""What a cell may not declare in a round, unless it is a rehearsal."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.desired.checks import check, check_reading, find_problems
from reconciler.errors import Problem, SpecError
from reconciler.resource.inputs import Value
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.declared import Declared, Reading
from tests.unit.desired.test_inputs import HERE, RULES, declare


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
        declared = declare(scenario, **{setting: value})
        (cell,) = declared.cells
        box = declared.systems[cell.cell.system]
        both = replace(box, settings={**box.settings, "system.category": Value("datacenter,edge")})
        cell = replace(cell, cell=replace(cell.cell, division="closed"))
        return replace(declared, cells=(cell,), systems={box.name: both})

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
    declared = declare(scenario, **changes)
    (cell,) = declared.cells
    placed = replace(declared, cells=(replace(cell, cell=replace(cell.cell, division=division)),))
    assert any("no effect" in each.message for each in find_problems(placed, RULES)) is refused


def test_runs_made_elsewhere_have_issued_their_queries() -> None:
    declared = declare("Offline", min_query_count=100, engine__backend="external")
    (cell,) = declared.cells
    closed = replace(declared, cells=(replace(cell, cell=replace(cell.cell, division="closed")),))
    assert [each for each in find_problems(closed, RULES) if "min_query_count" in each.message] == []


def test_weights_are_discarded_in_the_open_division_alone() -> None:
    declared = declare("Offline", model__settings__sparsity="2:4")
    check(declared, RULES)
    (cell,) = declared.cells
    closed = replace(cell, cell=replace(cell.cell, division="closed"))
    with pytest.raises(SpecError, match="the closed division does not allow weights to be discarded"):
        check(replace(declared, cells=(closed,)), RULES)


def test_a_benchmark_whose_name_has_another_one_now_is_for_the_open_division() -> None:
    declared = declare("Offline", benchmark__official="3d-unet-99", benchmark__code="unet3d_brats")
    check(declared, RULES)
    (cell,) = declared.cells
    closed = replace(cell, cell=replace(cell.cell, division="closed"))
    with pytest.raises(SpecError, match=r"in round v6\.1 3d-unet-99 is another benchmark"):
        check(replace(declared, cells=(closed,)), RULES)


def test_store_through_which_attempts_travel_is_a_declared_one() -> None:
    declared = declare("Offline")
    (cell,) = declared.cells
    system = declared.systems[cell.cell.system]
    queued = {**system.settings, "executor.slurm": Value(True), "executor.slurm.store": Value("lab")}
    apart = replace(declared, systems={cell.cell.system: replace(system, settings=queued)})
    with pytest.raises(SpecError, match="no store 'lab' is declared"):
        check(apart, RULES)
    check(replace(apart, settings={"stores": Value({"lab": {"url": "s3://acme/objects", "options": {}}})}), RULES)


def test_the_steps_of_a_system_are_jobs_of_one_queue() -> None:
    declared = declare("Offline")
    (cell,) = declared.cells
    system = declared.systems[cell.cell.system]
    queued = {**system.settings, "executor.slurm": Value(True), "executor.ray": Value(True)}
    with pytest.raises(SpecError, match=r"a system uses one queue, not .* and .*"):
        check(replace(declared, systems={cell.cell.system: replace(system, settings=queued)}), RULES)
    one = {name: value for name, value in queued.items() if name != "executor.ray"}
    check(replace(declared, systems={cell.cell.system: replace(system, settings=one)}), RULES)


def test_results_of_the_endpoints_harness_are_for_the_rounds_that_take_them() -> None:
    declared = declare("Offline", harness__command=["run"], harness__results="endpoints", harness__model_name="net")
    earlier = load_ruleset("v5.1")
    for ruleset, known in ((earlier, "no benchmark in round v5.1"), (RULES, ", ".join(RULES.endpoints.benchmarks))):
        with pytest.raises(SpecError, match="does not accept results of the endpoints harness") as caught:
            check(declared, ruleset)
        assert f"remove `results: endpoints`; it supports {known}" in [each.fix for each in caught.value.problems]


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
