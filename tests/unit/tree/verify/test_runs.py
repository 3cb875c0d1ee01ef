"""A detail log against itself and the runs of a cell against each other, on logs of a few lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.tree.reading.view import CellView
from reconciler.verify.contradiction import ViewRule
from reconciler.verify.runs import (
    RUN_CONTRADICTIONS,
    list_own_runs,
    list_runs,
    verify_consistency,
    verify_datasets,
    verify_dates,
    verify_duration,
    verify_foreign,
    verify_names,
    verify_nodes,
    verify_percentile,
    verify_readable,
    verify_seeds,
    verify_validity,
    verify_versions,
)
from tests.unit.tree.small_cells import DETAIL, RUN, SUMMARY, VALID, Line, log, rules, say, small_cell

FOLDERS = {"performance": RUN, "accuracy": "accuracy", "TEST01": f"TEST01/{RUN}", "TEST04": f"TEST04/{RUN}"}
Check = ViewRule[CellView]


def cell(
    root: Path, files: Mapping[str, str] | None = None, /, benchmark: Any = "", **runs: tuple[Line, ...]
) -> CellView:
    """Each run's lines stand from the first on."""
    logs = {f"{FOLDERS[name]}/{DETAIL}": log(*lines) for name, lines in runs.items()}
    return small_cell(root, {**logs, **(files or {})}, benchmark=benchmark)


def tell(check: Check, view: CellView) -> list[str]:
    """``.../name`` is the detail log of a run."""
    found = []
    for line in say(check(view)):
        for name, folder in FOLDERS.items():
            line = line.replace(f"./{folder}/{DETAIL}", name)
        found.append(line)
    return found


def test_runs_are_listed_with_those_that_can_be_read(tmp_path: Path) -> None:
    full = cell(tmp_path / "a", TEST04=(("a", 1),), TEST01=(("a", 1),), accuracy=(("a", 1),), performance=(("a", 1),))
    assert [run.name for run in list_runs(full)] == ["performance", "accuracy", "TEST01", "TEST04"]
    broken = cell(tmp_path / "b", {f"{RUN}/{DETAIL}": "no log"}, accuracy=(("a", 1),))
    assert [run.name for run in list_runs(broken)] == ["accuracy"]


def lasting(seconds: str, met: object = True, least: object = 600_000) -> tuple[Line, ...]:
    """A run of so many seconds after ten, which LoadGen says kept its minimum duration."""
    said: list[Line] = [
        ("effective_min_duration_ms", least),
        ("result_min_duration_met", met),
        ("power_begin", "01-02-2026 10:00:00.000"),
        ("power_end", f"01-02-2026 10:{seconds}"),
    ]
    return tuple((key, value) for key, value in said if value is not None)


@pytest.mark.parametrize(
    ("lines", "lasted"),
    [
        pytest.param(lasting("10:00.000"), "", id="as long"),
        pytest.param(lasting("09:59.000"), "", id="a second shorter"),
        pytest.param(lasting("09:58.900"), "598.9", id="more than a second shorter"),
        pytest.param(lasting("00:01.000"), "1", id="a moment"),
        pytest.param(lasting("00:01.000", met=False), "", id="not met"),
        pytest.param(lasting("00:01.000", met="true"), "", id="met in words"),
        pytest.param(lasting("00:01.000", met=None), "", id="not said"),
        pytest.param(lasting("00:01.000", least=None), "", id="no minimum"),
        pytest.param(lasting("00:01.000")[:-1], "", id="no end"),
        pytest.param((*lasting("00:01.000")[:2], ("power_end", "01-02-2026 10:00:01.000")), "", id="no begin"),
    ],
)
def test_a_minimum_duration_that_was_met_has_passed(tmp_path: Path, lines: tuple[Line, ...], lasted: str) -> None:
    said = (
        f"1: a minimum duration of 600 s that was met; wanted {lasted} s between power_begin and power_end; "
        "beside NAME:4; because: a log that was edited, put together from two, or written by a LoadGen that was changed"
    )
    for name in FOLDERS:
        found = tell(verify_duration, cell(tmp_path / name, **{name: lines}))
        assert found == ([f"note {name}:{said.replace('NAME', name)}"] if lasted else [])


@pytest.mark.parametrize(("release", "denied"), [("2.1", 0), ("4.0", 1)])
def test_a_run_of_both_modes_has_the_clock_of_its_accuracy_part_first(
    tmp_path: Path, release: str, denied: int
) -> None:
    """As LoadGen offered it before release 4."""
    lines: tuple[Line, ...] = (
        *(("loadgen_version", f"{release} @ 0123456789"), ("effective_test_mode", "SubmissionRun")),
        *(("effective_min_duration_ms", 600_000), ("result_min_duration_met", True)),
        *(("power_begin", "01-02-2026 10:00:00.000"), ("power_end", "01-02-2026 10:00:02.000")),
        *(("power_begin", "01-02-2026 10:00:03.000"), ("power_end", "01-02-2026 10:11:00.000")),
    )
    assert len(list(verify_duration(cell(tmp_path, accuracy=lines, performance=lines)))) == 2 * denied


@pytest.mark.parametrize("scenario", ["Server", "MultiStream"])
def test_a_least_latency_below_0_is_asked_about_once(tmp_path: Path, scenario: str) -> None:
    """The clock that LoadGen takes latencies from is one that the machine sets."""
    of_queries: tuple[Line, ...] = (("result_min_query_latency_ns", -7),) if scenario == "MultiStream" else ()
    lines: tuple[Line, ...] = (
        *(PERFORMANCE, ("loadgen_version", "2.1 @ 0123456789"), ("effective_scenario", scenario)),
        *(*of_queries, ("result_min_latency_ns", -7), ("result_max_latency_ns", -9), VALID),
    )
    found = tell(verify_consistency, cell(tmp_path, performance=lines))
    key = "result_min_query_latency_ns" if of_queries else "result_min_latency_ns"
    assert found[0] == (
        f"note performance:4: {key} -7; wanted a latency of at least 0; because: was the machine's clock, from which "
        "LoadGen takes latencies, set back during the run?; mechanism: clock-set-back"
    )
    assert not [line for line in found[1:] if "_min_" in line.partition(";")[0]]
    assert any("result_max_latency_ns -9" in line for line in found[1:])


def test_a_test_that_the_round_does_not_have_is_compared_with_nothing(tmp_path: Path) -> None:
    """TEST04-A and TEST04-B of v2.0, say, left beside TEST04 in v2.1: a question, once for each result."""
    old: tuple[Line, ...] = (
        *(("loadgen_version", "2.0 @ 0123456789"), ("effective_qsl_rng_seed", 7), ("sut_name", "old")),
        ("power_begin", "02-01-2022 10:00:00.000"),
    )
    new: tuple[Line, ...] = (
        *(("loadgen_version", "2.1 @ 9876543210"), ("effective_qsl_rng_seed", 8), ("sut_name", "new")),
        ("power_begin", "07-01-2022 10:00:00.000"),
    )
    files = {f"{RUN}/{DETAIL}": log(*new)}
    for test, lines in (("TEST01", new), ("TEST04", new), ("TEST04-A", old), ("TEST04-B", old)):
        files[f"{test}/{RUN}/{DETAIL}"] = log(*lines)
    view = small_cell(tmp_path, files, round_name="v2.1")
    assert [run.name for run in list_own_runs(view)] == ["performance", "TEST01", "TEST04"]
    checks = (verify_seeds, verify_versions, verify_dates, verify_names)
    assert not [line for check in checks for line in say(check(view))]
    assert say(verify_foreign(view)) == [
        f"./TEST04-A/{RUN}/{DETAIL}: TEST04-A and TEST04-B, which v2.1 does not have; wanted the tests of the round; "
        "because: left there from an earlier round"
    ]
    of_its_round = small_cell(tmp_path, files, round_name="v1.0")
    assert {line.partition(": ")[2] for line in say(verify_foreign(of_its_round))} == {
        "TEST04, which v1.0 does not have; wanted the tests of the round; because: left there from an earlier round"
    }
    assert len([line for check in checks for line in say(check(of_its_round))]) == 2 * len(checks)
    unknown = small_cell(tmp_path, files, round_name="v2.1", benchmark=None)
    assert not list(verify_foreign(unknown))
    assert len(list(verify_seeds(unknown))) == 2


CONDITIONS = ("result_perf_constraints_met", "result_min_duration_met", "result_min_queries_met", "early_stopping_met")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_valid_run_has_met_its_conditions(tmp_path: Path, condition: str) -> None:
    met = [(key, key != condition) for key in CONDITIONS]
    said = f"{condition} false in the same log; beside TEST01:{CONDITIONS.index(condition) + 1}; {EDITED}"
    found = tell(verify_validity, cell(tmp_path / "a", TEST01=(*met, VALID)))
    assert found == [f"TEST01:5: VALID; wanted {said}"]
    for number, lines in enumerate(
        (
            (*met, ("result_validity", "INVALID")),
            tuple(met),
            (*((key, True) for key in CONDITIONS), VALID),
            (VALID,),
            ((condition, "false"), VALID),
        )
    ):
        assert not list(verify_validity(cell(tmp_path / str(number), performance=lines)))


def test_the_first_condition_that_is_not_met_is_named(tmp_path: Path) -> None:
    lines = (*((key, False) for key in reversed(CONDITIONS)), VALID)
    (found,) = tell(verify_validity, cell(tmp_path, performance=lines))
    assert found.startswith("performance:5: VALID; wanted result_perf_constraints_met false in the same log; beside")


EDITED = "because: a log that was edited, put together from two, or written by a LoadGen that was changed"


PERFORMANCE: Line = ("effective_test_mode", "PerformanceOnly")


def test_what_a_log_denies_of_itself_is_told_once(tmp_path: Path) -> None:
    lines: tuple[Line, ...] = (
        PERFORMANCE,
        ("effective_min_duration_ms", 600_000),
        ("result_min_duration_met", True),
        ("early_stopping_met", False),
        ("num_errors", 3),
        ("requested_min_query_count", 5),
        ("effective_min_query_count", 7),
        ("power_begin", "01-02-2026 10:00:00.000"),
        ("power_end", "01-02-2026 10:00:01.000"),
        VALID,
    )
    view = cell(tmp_path, TEST04=lines)
    found = tell(verify_consistency, view)
    assert f"TEST04:5: num_errors 3; wanted the log has 0 ERROR lines; {EDITED}" in found
    assert len([line for line in found if "result_validity" in line or "result_min_duration_met" in line]) == 0
    assert all(line.startswith("TEST04:") and line.endswith(f"; {EDITED}") for line in found)
    assert len(tell(verify_validity, view)) == len(tell(verify_duration, view)) == 1
    queries: tuple[Line, ...] = (PERFORMANCE, *lines[5:7], ("result_validity", "INVALID"))
    asked = tell(verify_consistency, cell(tmp_path / "other", performance=(*queries, ("early_stopping_met", True))))
    assert f"performance:4: result_validity INVALID; wanted every condition is met; {EDITED}" in asked


def test_what_denies_a_verdict_is_named_at_its_line(tmp_path: Path) -> None:
    found = tell(
        verify_consistency, cell(tmp_path, performance=(PERFORMANCE, ("result_invalid_reason", "short"), VALID))
    )
    said = "wanted result_invalid_reason is short; beside performance:2"
    assert f"performance:3: result_validity VALID; {said}; {EDITED}" in found


def test_a_performance_run_is_not_issued_as_a_test_asks(tmp_path: Path) -> None:
    lines: tuple[Line, ...] = (("a", 1), ("effective_performance_issue_same", True))
    said = "performance_issue_same True; wanted 0, as in every performance run that is not a compliance test"
    cause = "because: the run of a compliance test, or settings of the SUT's own; mechanism: audited-run"
    for name, expected in (("performance", [f"performance:2: {said}; {cause}"]), ("TEST04", []), ("accuracy", [])):
        assert tell(verify_consistency, cell(tmp_path / name, **{name: lines})) == expected
    audit: Line = ("warning", "Found Audit Config file (audit.config). Overriding TestSettings from it.")
    (audited,) = tell(verify_consistency, cell(tmp_path / "audited", performance=(*lines, audit)))
    assert audited == f"performance:2: {said}; {cause}"


def test_a_count_beyond_the_library_is_asked_about(tmp_path: Path) -> None:
    lines: tuple[Line, ...] = (PERFORMANCE, (TOTAL, 10), ("effective_performance_sample_count", 20), VALID)
    found = [line for line in tell(verify_consistency, cell(tmp_path / "a", TEST04=lines)) if "library" in line]
    assert found == [
        "warning TEST04:3: effective_performance_sample_count 20; wanted the library has 10 samples; beside TEST04:2; "
        "because: a count that was set higher, or a library that tells LoadGen less than it has; "
        "mechanism: small-library"
    ]
    for number, value in enumerate(("true", "TRUE", True)):
        rehearsed = {"measurements.json": json.dumps({"rehearsal": value})}
        assert not [
            line
            for line in say(verify_consistency(cell(tmp_path / str(number), rehearsed, TEST04=lines)))
            if "warn" in line
        ]


def test_a_test_over_a_set_of_its_own_has_the_count_that_loadgen_has_built_in(tmp_path: Path) -> None:
    lines: tuple[Line, ...] = (PERFORMANCE, (TOTAL, 10), ("effective_performance_sample_count", 20), VALID)
    for built_in, run, told in ((20, "TEST04", 0), (20, "performance", 1), (30, "TEST04", 1)):
        asked = rules(values={"performance_sample_count": built_in})
        view = cell(tmp_path / f"{run}{built_in}", benchmark=asked, **{run: lines})
        assert len([line for line in tell(verify_consistency, view) if "library" in line]) == told


SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
ROUND = load_ruleset("v6.1").seeds()


def seeded(*values: int | None) -> tuple[Line, ...]:
    return tuple((f"effective_{name}", value) for name, value in zip(SEEDS, values, strict=True) if value is not None)


def test_all_runs_have_the_seeds_of_one_round(tmp_path: Path) -> None:
    old_name = next(name for name in reversed(list_rounds()) if load_ruleset(name).seeds() != ROUND)
    old = load_ruleset(old_name).seeds()
    cases: list[tuple[tuple[int | None, ...], str, str]] = [
        ((1, 2, 3), "", ""),
        ((1, 5, 6), "2: sample_index_rng_seed 5; wanted 2", "seeds of no known round"),
        ((1, 2, None), ": schedule_rng_seed nothing; wanted 3", "seeds of no known round"),
        ((0, 2, 3), "1: qsl_rng_seed 0; wanted 1", "seeds of no known round"),
        ((0, 0, 0), "1: qsl_rng_seed 0; wanted 1", "no seeds were given to LoadGen, whose own are 0: "),
        (tuple(old[name] for name in SEEDS), f"1: qsl_rng_seed {old[SEEDS[0]]}; wanted 1", f"the seeds of {old_name}"),
    ]
    for number, (seeds, said, cause) in enumerate(cases):
        view = cell(tmp_path / str(number), performance=(("a", 1), *seeded(1, 2, 3)), accuracy=seeded(*seeds))
        found = tell(verify_seeds, view)
        line = SEEDS.index(said.split()[1]) + 2 if said else 0
        wanted = f"accuracy{':' if said[:1] != ':' else ''}{said}, the seed of the performance run; "
        wanted += f"beside performance:{line}; because: {cause}"
        assert [each[: len(wanted)] for each in found] == ([wanted] if said else []), seeds
        assert all(each[len(wanted) :] in ("", "the configuration of the round did not apply") for each in found)
    assert not list(verify_seeds(cell(tmp_path / "none", accuracy=seeded(1, 5, 6), TEST01=seeded(1, 2, 3))))


def test_seeds_of_another_test_of_the_result_are_named(tmp_path: Path) -> None:
    settings = {name: SimpleNamespace(value=value) for name, value in zip(SEEDS, (7, 8, 9), strict=True)}
    asked = rules(tests={"TEST01": SimpleNamespace(settings={}), "TEST04": SimpleNamespace(settings=settings)})
    for seeds, named in (((7, 8, 9), True), ((7, 8, 1), False)):
        runs = {"performance": seeded(1, 2, 3), "TEST01": seeded(*seeds), "TEST04": seeded(7, 8, 9)}
        (found,) = tell(verify_seeds, cell(tmp_path / str(named), benchmark=asked, **runs))
        assert ("TEST04" in found) is named, found


def test_a_test_may_set_a_seed_of_its_own(tmp_path: Path) -> None:
    runs = {"performance": seeded(1, 2, 3), "TEST01": seeded(1, 2, 9)}
    assert len(list(verify_seeds(cell(tmp_path, **runs)))) == 1  # type: ignore[arg-type]
    test = load_ruleset("v6.1").benchmark("resnet")
    assert test is not None
    own = cell(
        tmp_path, benchmark=rules(test=lambda name, _: type("T", (), {"settings": {"schedule_rng_seed": VALUE}}))
    )
    assert not list(verify_seeds(own))


VALUE = type("Value", (), {"value": 9})


def test_all_runs_are_of_one_loadgen(tmp_path: Path) -> None:
    one, other = ("loadgen_version", "5.1 @ 0123456789"), ("loadgen_version", "6.0 @ 9876543210")
    view = cell(tmp_path / "a", performance=(("a", 1), one), accuracy=(other,), TEST01=(one,), TEST04=(("a", 1),))
    version = view.performance.log.version if view.performance else ""
    assert tell(verify_versions, view) == [
        f"accuracy:1: LoadGen {view.accuracy.log.version if view.accuracy else ''}; wanted {version}, as in the "
        "performance run; beside performance:2",
        f"TEST04: LoadGen nothing; wanted {version}, as in the performance run; beside performance:2",
    ]
    assert not list(verify_versions(cell(tmp_path / "b", accuracy=(one,), TEST01=(other,))))
    unsaid = cell(tmp_path / "c", performance=(("a", 1),), accuracy=(one,))
    unknown = ("loadgen_version", "5.1 @ NA")
    assert not list(verify_versions(cell(tmp_path / "d", performance=(("a", 1), one), accuracy=(unknown,))))
    newer = ("loadgen_version", "6.0 @ NA")
    assert len(list(verify_versions(cell(tmp_path / "e", performance=(("a", 1), newer), accuracy=(unknown,))))) == 1
    assert tell(verify_versions, unsaid)[0].endswith("; wanted nothing, as in the performance run; beside performance")


def began(date: str) -> tuple[Line, ...]:
    return (("power_begin", f"{date}.000"),)


@pytest.mark.parametrize(
    ("date", "said"),
    [
        ("03-03-2026 10:00:00", ""),
        ("03-03-2026 10:00:01", "2026-03-03; 30 days newer"),
        ("01-02-2026 10:00:00", ""),
        ("01-02-2026 09:59:59", "2026-01-02; 30 days older"),
        ("02-01-2025 10:00:00", "2025-02-01; 365 days older"),
        ("02-01-2027 10:00:00", "2027-02-01; 365 days newer"),
        ("no date at all", ""),
    ],
)
def test_a_log_of_another_month_is_asked_about(tmp_path: Path, date: str, said: str) -> None:
    view = cell(tmp_path / "a", performance=(("a", 1), *began("02-01-2026 10:00:00")), TEST01=began(date))
    day, _, age = said.partition("; ")
    wanted = (
        f"TEST01:1: TEST01 of {day}; wanted a run near 2026-02-01, when the performance run was made; "
        f"beside performance:2; because: a log {age} than its neighbour"
    )
    assert tell(verify_dates, view) == ([wanted] if said else [])
    assert not list(verify_dates(cell(tmp_path / "b", accuracy=began("02-01-2026 10:00:00"), TEST01=began(date))))
    undated = cell(tmp_path / "c", performance=(("a", 1),), TEST01=began(date))
    assert not list(verify_dates(undated))


TOTAL, COVERED = "qsl_reported_total_count", "effective_accuracy_sample_count"


@pytest.mark.parametrize(
    ("ours", "theirs", "covered", "told"),
    [
        (100, 100, 100, False),
        (100, 50, 50, True),
        (100, 200, 200, False),  # what the round wants
        (100, 200, 100, True),
        (None, 50, 50, False),
        (100, None, 50, False),
        (100, 200, None, False),
        (100, 50, None, True),
    ],
)
def test_all_runs_load_from_one_dataset(
    tmp_path: Path, ours: int | None, theirs: int | None, covered: int | None, told: bool
) -> None:
    def lines(*told: tuple[str, int | None]) -> tuple[Line, ...]:
        return (("a", 1), *((key, value) for key, value in told if value is not None))

    runs = {"performance": lines((TOTAL, ours)), "accuracy": lines((TOTAL, theirs), (COVERED, covered))}
    asked = rules(values={"exact_accuracy_sample_count": 200})
    said = (
        f"accuracy:2: a dataset of {theirs} samples; wanted {ours}, as in the performance run; beside performance:2; "
    )
    said += "because: the accuracy run of another benchmark or dataset"
    assert tell(verify_datasets, cell(tmp_path / "a", benchmark=asked, **runs)) == ([said] if told else [])
    for left_out in runs:
        alone = {name: run for name, run in runs.items() if name != left_out}
        assert not list(verify_datasets(cell(tmp_path / left_out, benchmark=asked, **alone)))
    if None not in (ours, theirs) and ours != theirs:
        assert len(list(verify_datasets(cell(tmp_path / "a", benchmark=None)))) == 1


def test_all_runs_name_one_sut(tmp_path: Path) -> None:
    name = ("sut_name", "one")
    view = cell(
        tmp_path / "a", performance=(("a", 1), name), accuracy=(("sut_name", "two"),), TEST01=(name,), TEST04=()
    )
    assert tell(verify_names, view) == [
        "accuracy:1: SUT two; wanted one, as in the performance run; beside performance:2",
    ]
    silent = cell(tmp_path / "b", performance=(name,), TEST04=(("a", 1),))
    assert tell(verify_names, silent) == [
        "TEST04: SUT nothing; wanted one, as in the performance run; beside performance:1"
    ]
    assert not list(verify_names(cell(tmp_path / "c", accuracy=(name,), TEST01=(("sut_name", "two"),))))


NODES = "closed/Acme/systems/sys1.json:3: number_of_nodes 2; wanted {}, the network SUTs that the log names; because"


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("Network SUT, Network SUT", None),
        ("Network SUT", 1),
        ("Multi-Node SUT: Network SUT, Network SUT, Network SUT", 3),
        ("Multi-Node SUT: Network SUT", 1),
        ("our Network SUT", None),
        ("Network SUT, ours", None),
        (5, None),
        (None, None),
    ],
)
def test_network_suts_are_as_many_as_the_nodes(tmp_path: Path, name: object, count: int | None) -> None:
    lines: tuple[Line, ...] = (("a", 1), *((("sut_name", name),) if name is not None else ()))
    described = {"/systems/sys1.json": '{\n"a": 1,\n"number_of_nodes": "2"}'}
    found = tell(verify_nodes, cell(tmp_path / "a", described, performance=lines))
    cause = "a description of another system, or several SUTs on one node"
    said = f"{NODES.format(count).removesuffix('; because')}; beside performance:2; because: {cause}"
    assert found == ([said] if count else [])
    assert not list(verify_nodes(cell(tmp_path / "b", performance=lines)))
    assert not list(verify_nodes(cell(tmp_path / "c", described, accuracy=lines)))


def test_files_that_cannot_be_read_are_told_in_their_order(tmp_path: Path) -> None:
    folders = [f"TEST01/{RUN}", RUN, "accuracy"]
    texts = {f"{folder}/{DETAIL}": "no log" for folder in folders}
    broken = {f"{name}/x": "" for name in ("user.conf", "accuracy/accuracy.txt", f"accuracy/{SUMMARY}")}
    view = small_cell(tmp_path / "a", {**texts, **broken, "measurements.json": "{\n"})
    found = say(verify_readable(view))
    assert [line.partition(": ")[0] for line in found] == [
        *("./user.conf", "./measurements.json:2", "./accuracy/accuracy.txt", f"./{RUN}/{DETAIL}:1"),
        *(f"./accuracy/{DETAIL}:1", f"./accuracy/{SUMMARY}", f"./TEST01/{RUN}/{DETAIL}:1"),
    ]
    assert all(line.endswith("; wanted a file that can be read") for line in found)
    assert found[0] == "./user.conf: it is not a regular file; wanted a file that can be read"
    assert not list(verify_readable(small_cell(tmp_path / "b", {})))


def test_the_percentile_of_the_performance_run_is_looked_at(tmp_path: Path) -> None:
    lines: tuple[Line, ...] = (("effective_scenario", "Server"), ("effective_target_latency_percentile", 0.5))
    asked = rules(values={"target_latency_percentile": 99})
    (found,) = tell(verify_percentile, cell(tmp_path / "a", benchmark=asked, performance=lines))
    assert found.startswith("performance:2: percentile 50 of the latency; wanted 99, which v6.1 states Server by")
    assert not list(verify_percentile(cell(tmp_path / "b", benchmark=asked, accuracy=lines)))


def test_contradictions_of_runs_by_their_ids() -> None:
    by_loadgen = [rule.id for rule, _ in RUN_CONTRADICTIONS if "LoadGen" in rule.sources]
    assert by_loadgen == ["log.duration", "log.consistency", "log.validity"]
    assert [(rule.id, check) for rule, check in RUN_CONTRADICTIONS] == [
        ("files.readable", verify_readable.find),
        ("log.duration", verify_duration.find),
        ("log.consistency", verify_consistency.find),
        ("log.validity", verify_validity.find),
        ("run.percentile", verify_percentile.find),
        ("runs.seeds", verify_seeds.find),
        ("runs.dataset", verify_datasets.find),
        ("runs.loadgen", verify_versions.find),
        ("runs.dates", verify_dates.find),
        ("runs.sut", verify_names.find),
        ("runs.foreign", verify_foreign.find),
        ("system.nodes", verify_nodes.find),
    ]
