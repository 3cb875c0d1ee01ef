"""A detail log against itself and the runs of a cell against each other, on logs of a few lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.resource.rules import AppliedRule
from reconciler.tree.findings import Complaint
from reconciler.tree.reading.view import CellView
from reconciler.verify.runs import (
    list_own_runs,
    verify_consistency,
    verify_datasets,
    verify_dates,
    verify_duration,
    verify_foreign,
    verify_names,
    verify_nodes,
    verify_seeds,
    verify_validity,
    verify_versions,
)
from tests.unit.tree.small_cells import DETAIL, RUN, VALID, Line, log, rules, say, small_cell

FOLDERS = {"performance": RUN, "accuracy": "accuracy", "TEST01": f"TEST01/{RUN}", "TEST04": f"TEST04/{RUN}"}
Check = AppliedRule[CellView, Complaint]


def cell(
    root: Path, files: Mapping[str, str] | None = None, /, benchmark: Any = "", **runs: tuple[Line, ...]
) -> CellView:
    """Each run's lines stand from the first on."""
    logs = {f"{FOLDERS[name]}/{DETAIL}": log(*lines) for name, lines in runs.items()}
    return small_cell(root, {**logs, **(files or {})}, benchmark=benchmark)


def find(check: Check, view: CellView) -> list[str]:
    """``.../name`` is the detail log of a run."""
    found = []
    for line in say(check(view)):
        for name, folder in FOLDERS.items():
            line = line.replace(f"./{folder}/{DETAIL}", name)
        found.append(line)
    return found


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
    said = "1; see NAME:4"
    for name in FOLDERS:
        found = find(verify_duration, cell(tmp_path / name, **{name: lines}))
        assert found == ([f"note {name}:{said.replace('NAME', name)}"] if lasted else [])


@pytest.mark.parametrize(("release", "denied"), [("2.1", 0), ("4.0", 1)])
def test_a_run_of_both_modes_has_its_accuracy_clock_first(tmp_path: Path, release: str, denied: int) -> None:
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
    found = find(verify_consistency, cell(tmp_path, performance=lines))
    most = 4 + len(of_queries) + 1
    assert found[0] == "note performance:4; mechanism: clock-set-back"
    assert not [line for line in found[1:] if line.startswith(("performance:4", f"performance:{most - 1};"))]
    assert any(line.startswith(f"performance:{most}") for line in found[1:])


def test_a_test_that_the_round_does_not_have_is_compared_with_nothing(tmp_path: Path) -> None:
    """TEST04-A and TEST04-B of v2.0, say, left next to TEST04 in v2.1: a question, once for each result."""
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
    assert say(verify_foreign(view)) == [f"./TEST04-A/{RUN}/{DETAIL}"]
    of_its_round = small_cell(tmp_path, files, round_name="v1.0")
    assert len(list(verify_foreign(of_its_round))) == 1
    assert len([line for check in checks for line in say(check(of_its_round))]) == 2 * len(checks)
    unknown = small_cell(tmp_path, files, round_name="v2.1", benchmark=None)
    assert not list(verify_foreign(unknown))
    assert len(list(verify_seeds(unknown))) == 2


PERFORMANCE: Line = ("effective_test_mode", "PerformanceOnly")


def test_what_a_log_denies_of_itself_is_reported_once(tmp_path: Path) -> None:
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
    found = find(verify_consistency, view)
    assert "TEST04:5" in found
    assert "TEST04:3" not in found, "another rule says it"
    assert len(find(verify_validity, view)) == len(find(verify_duration, view)) == 1
    queries: tuple[Line, ...] = (PERFORMANCE, *lines[5:7], ("result_validity", "INVALID"))
    asked = find(verify_consistency, cell(tmp_path / "other", performance=(*queries, ("early_stopping_met", True))))
    assert "performance:4" in asked


def test_a_performance_run_is_not_issued_as_a_test_asks(tmp_path: Path) -> None:
    lines: tuple[Line, ...] = (("a", 1), ("effective_performance_issue_same", True))
    audited = "performance:2; mechanism: audited-run"
    for name, expected in (("performance", [audited]), ("TEST04", []), ("accuracy", [])):
        assert find(verify_consistency, cell(tmp_path / name, **{name: lines})) == expected
    audit: Line = ("warning", "Found Audit Config file (audit.config). Overriding TestSettings from it.")
    assert find(verify_consistency, cell(tmp_path / "audited", performance=(*lines, audit))) == [audited]


def test_a_count_beyond_the_library_is_asked_about(tmp_path: Path) -> None:
    lines: tuple[Line, ...] = (PERFORMANCE, (TOTAL, 10), ("effective_performance_sample_count", 20), VALID)
    found = [line for line in find(verify_consistency, cell(tmp_path / "a", TEST04=lines)) if "small-library" in line]
    assert found == ["warning TEST04:3; see TEST04:2; mechanism: small-library"]
    for number, value in enumerate(("true", "TRUE", True)):
        rehearsed = {"measurements.json": json.dumps({"rehearsal": value})}
        assert not [
            line
            for line in say(verify_consistency(cell(tmp_path / str(number), rehearsed, TEST04=lines)))
            if "warn" in line
        ]


def test_a_test_over_a_set_of_its_own_has_the_count_that_loadgen_has_built_in(tmp_path: Path) -> None:
    lines: tuple[Line, ...] = (PERFORMANCE, (TOTAL, 10), ("effective_performance_sample_count", 20), VALID)
    for built_in, run, reported in ((20, "TEST04", 0), (20, "performance", 1), (30, "TEST04", 1)):
        asked = rules(values={"performance_sample_count": built_in})
        view = cell(tmp_path / f"{run}{built_in}", benchmark=asked, **{run: lines})
        assert len([line for line in find(verify_consistency, view) if "small-library" in line]) == reported


def began(date: str) -> tuple[Line, ...]:
    return (("power_begin", f"{date}.000"),)


@pytest.mark.parametrize(
    ("date", "reported"),
    [
        ("03-03-2026 10:00:00", False),
        ("03-03-2026 10:00:01", True),
        ("01-02-2026 10:00:00", False),
        ("01-02-2026 09:59:59", True),
        ("02-01-2025 10:00:00", True),
        ("02-01-2027 10:00:00", True),
        ("no date at all", False),
    ],
)
def test_a_log_of_another_month_is_asked_about(tmp_path: Path, date: str, reported: bool) -> None:
    view = cell(tmp_path / "a", performance=(("a", 1), *began("02-01-2026 10:00:00")), TEST01=began(date))
    assert find(verify_dates, view) == ["TEST01:1; see performance:2"] * reported
    assert not list(verify_dates(cell(tmp_path / "b", accuracy=began("02-01-2026 10:00:00"), TEST01=began(date))))
    undated = cell(tmp_path / "c", performance=(("a", 1),), TEST01=began(date))
    assert not list(verify_dates(undated))


TOTAL, COVERED = "qsl_reported_total_count", "effective_accuracy_sample_count"


@pytest.mark.parametrize(
    ("ours", "theirs", "covered", "reported"),
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
def test_one_dataset(tmp_path: Path, ours: int | None, theirs: int | None, covered: int | None, reported: bool) -> None:
    def lines(*reported: tuple[str, int | None]) -> tuple[Line, ...]:
        return (("a", 1), *((key, value) for key, value in reported if value is not None))

    runs = {"performance": lines((TOTAL, ours)), "accuracy": lines((TOTAL, theirs), (COVERED, covered))}
    asked = rules(values={"exact_accuracy_sample_count": 200})
    said = "accuracy:2; see performance:2"
    said += ""
    assert find(verify_datasets, cell(tmp_path / "a", benchmark=asked, **runs)) == ([said] if reported else [])
    for left_out in runs:
        alone = {name: run for name, run in runs.items() if name != left_out}
        assert not list(verify_datasets(cell(tmp_path / left_out, benchmark=asked, **alone)))
    if None not in (ours, theirs) and ours != theirs:
        assert len(list(verify_datasets(cell(tmp_path / "a", benchmark=None)))) == 1


NODES = "closed/Acme/systems/sys1.json:3"


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
    found = find(verify_nodes, cell(tmp_path / "a", described, performance=lines))
    said = f"{NODES.format(count).removesuffix('; because')}; see performance:2"
    assert found == ([said] if count else [])
    assert not list(verify_nodes(cell(tmp_path / "b", performance=lines)))
    assert not list(verify_nodes(cell(tmp_path / "c", described, accuracy=lines)))
