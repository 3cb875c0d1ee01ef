"""How many samples a target rate lets LoadGen ask for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.derivations import find_wrong_rates
from reconciler.loadgen.inconsistency import read_elapsed_seconds
from reconciler.loadgen.log import parse_detail
from tests.unit.loadgen.conftest import Run
from tests.unit.loadgen.test_contradictions import make_log
from tests.unit.loadgen.test_verdict import changed


@pytest.mark.parametrize(("late", "inconsistent"), [(-0.01, False), (1.5, True)])
def test_a_run_of_few_queries_may_end_early(loadgen_run: Callable[[str], Run], late: float, inconsistent: bool) -> None:
    """``late``: when the last of forty queries was issued, in seconds behind the run's end; a gap comes after it."""
    run = loadgen_run("server-valid")
    elapsed = read_elapsed_seconds(run.detail)
    assert elapsed is not None
    last = float(elapsed) + late
    few = changed(
        run,
        result_query_count="40",
        result_scheduled_samples_per_sec=f"{39 / last:.6g}",
        generated_query_duration=str(round((last + 1.5) * 1e9)),
    )
    why = [item.derived for item in find_inconsistencies(few) if item.key == "generated_query_duration"]
    assert bool(why) is inconsistent


@pytest.mark.parametrize(("completed", "inconsistent"), [("1000", False), ("1010", False), ("1010.01", True)])
def test_server_completes_no_more_than_was_scheduled_but_for_a_hundredth(
    loadgen_run: Callable[[str], Run], completed: str, inconsistent: bool
) -> None:
    figures = {"scheduled": "1000", "completed": completed}
    log = changed(
        loadgen_run("server-valid"), **{f"result_{name}_samples_per_sec": rate for name, rate in figures.items()}
    )
    found = [item for item in find_inconsistencies(log) if item.key == "result_completed_samples_per_sec"]
    assert [item.derived for item in found] == (["1000 were scheduled"] if inconsistent else [])
    assert [item.line for item in found] == [log.find_line_number("result_completed_samples_per_sec")] * inconsistent


@pytest.mark.parametrize(("name", "judged"), [("single-stream-valid", True), ("multi-stream-valid", False)])
def test_a_rate_without_overhead_is_of_one_stream(loadgen_run: Callable[[str], Run], name: str, judged: bool) -> None:
    """A MultiStream query has several samples, so that its mean latency says nothing of such a rate."""
    key = "result_qps_without_loadgen_overhead"
    data = loadgen_run(name).bytes("detail.txt")
    head = next(line for line in data.splitlines(keepends=True) if b'"result_query_count"' in line)
    log = parse_detail(
        data.replace(f'"{key}"'.encode(), b'"gone"')
        + re.sub(rb'"result_query_count", "value": \d+', f'"{key}", "value": 123456.0'.encode(), head)
    )
    assert log.get(key) == 123456
    assert [item.line for item in find_inconsistencies(log) if item.key == key] == [log.find_line_number(key)] * judged


@pytest.mark.parametrize(
    ("version", "equal", "inconsistent"),
    [("5.0.10", True, False), ("5.0.10", False, True), ("5.0.11", True, True), ("6.0.17", True, True)],
)
def test_samples_of_whole_permutations_were_logged_before_they_were_filled_up(
    loadgen_run: Callable[[str], Run], version: str, equal: bool, inconsistent: bool
) -> None:
    run = loadgen_run("offline-valid")
    issued, slowest = (run.detail.get(key) for key in ("generated_samples_per_query", "result_max_latency_ns"))
    loaded = issued - 1  # so that two permutations were issued
    log = changed(
        run,
        loadgen_version=f'"{version} @ d6147c7eb7"',
        effective_sample_concatenate_permutation=str(equal).lower(),
        effective_performance_sample_count=str(10 * loaded),
        qsl_reported_total_count=str(loaded),
        result_samples_per_second=f"{2 * loaded * 1e9 / slowest:.6g}",
    )
    keys = {item.key for item in find_inconsistencies(log)}
    assert ("result_samples_per_second" in keys) is inconsistent


NEW, OLD, FIRST = "5.0 @ a", "4.1 @ a", "1.1 @ a"


def reported(version: str = NEW, /, **values: Any) -> list[str]:
    """Of a run from 08:54:48.100 on, with the key of the other line in place of its number."""
    log = make_log(version, **{"test_datetime": None} | values)
    keys = {log.find_line_number(key): f" ({key})" for key in log.index} | {0: ""}
    found = list(find_wrong_rates(log))
    assert not any(item.premise for item in found)
    assert [item.line for item in found] == [log.find_line_number(item.key) for item in found]
    return [f"{item.key}: {item.stated}, but {item.derived}{keys[item.other]}" for item in found]


def find_seconds(text: str) -> list[str]:
    return re.findall(r"([\d.]+) s\b", text)


def ended(seconds: float) -> dict[str, str]:
    """The end of a run that lasted so long."""
    after = 48.1 + seconds
    return {"power_end": f"02-22-2023 08:{54 + int(after // 60)}:{after % 60:06.3f}"}


OFFLINE: dict[str, Any] = {
    "result_samples_per_second": 1000,
    "result_max_latency_ns": 10_000_000_000,
    "generated_samples_per_query": 10_000,
    "result_query_count": 1,
}


def test_offline_is_not_judged_by_what_is_not_known() -> None:
    wrong = OFFLINE | {"result_samples_per_second": 5}
    assert len(reported(**wrong)) == 1
    assert len(reported(**wrong | {"result_query_count": 2})) == 1
    for key in OFFLINE:
        assert reported(**wrong | {key: None}) == []
    assert reported(**wrong | {"result_max_latency_ns": 0}) == []
    assert reported(**OFFLINE | {"result_query_count": 2, "result_samples_per_second": 2000}) == []


@pytest.mark.parametrize(
    ("slowest", "fine"),
    [(7_899_999_999, False), (7_900_000_000, True), (10_120_000_000, True), (10_120_000_001, False)],
)
def test_bounds_of_a_duration_belong_to_it(slowest: int, fine: bool) -> None:
    values = OFFLINE | {"result_max_latency_ns": slowest, "result_samples_per_second": round(1e13 / slowest, 3)}
    assert [text.partition(":")[0] for text in reported(**values, **ended(10))] == ["result_max_latency_ns"] * (
        not fine
    )


SIZED: dict[str, Any] = {
    "generated_samples_per_query": 11_110,
    "effective_target_qps": 1000,
    "effective_min_duration_ms": 10_000,
    "effective_performance_sample_count": 0,
    "requested_min_query_count": 0,
}


@pytest.mark.parametrize(
    ("values", "most"),
    [
        ({}, ""),
        ({"generated_samples_per_query": 11_111}, "11110.0"),
        ({"generated_samples_per_query": 11_120, "effective_performance_sample_count": 5}, ""),
        ({"generated_samples_per_query": 11_121, "effective_performance_sample_count": 5}, "11120.0"),
        ({"generated_samples_per_query": 20_200, "requested_min_query_count": 20_000}, ""),
        ({"generated_samples_per_query": 20_201, "requested_min_query_count": 20_000}, "20200.0"),
        ({"generated_samples_per_query": 11_111, "requested_min_query_count": None}, "11110.0"),
        ({"generated_samples_per_query": 11_111, "effective_performance_issue_same": True}, ""),
        ({"generated_samples_per_query": 11_111, "effective_performance_issue_unique": True}, ""),
        ({"generated_samples_per_query": 11_111, "effective_performance_issue_same": False}, "11110.0"),
        ({"generated_samples_per_query": 11_111, "effective_target_qps": None}, ""),
        ({"generated_samples_per_query": 11_111, "effective_min_duration_ms": None}, ""),
        ({"generated_samples_per_query": 11_111, "effective_performance_sample_count": None}, ""),
        ({"generated_samples_per_query": 11_111, "effective_scenario": "Server"}, ""),
    ],
)
def test_offline_asks_for_what_its_target_needs_and_a_tenth_more(values: dict[str, Any], most: str) -> None:
    found = reported(**SIZED | values)
    if not most:
        assert found == []
        return
    issued = values["generated_samples_per_query"]
    why = f"1000 samples/s for 10 s need no more than {most} (effective_target_qps)"
    assert found == [f"generated_samples_per_query: {issued}, but {why}"]


SERVED: dict[str, Any] = {
    "effective_scenario": "Server",
    "result_query_count": 1001,
    "generated_query_duration": 10_000_000_000,
    "result_scheduled_samples_per_sec": 100,
    "result_completed_samples_per_sec": 100,
}


@pytest.mark.parametrize(
    ("values", "seconds", "expected"),
    [
        ({}, 9.89, ""),
        ({}, 9.88, "10 9.88"),
        # No one waits for the last gap.
        ({"result_scheduled_samples_per_sec": 104}, 9.51, ""),
        ({"result_scheduled_samples_per_sec": 104}, 9.5, "9.61538 9.5"),
        # The schedule ends where its duration does, too.
        ({"result_scheduled_samples_per_sec": 99, "result_completed_samples_per_sec": 99}, 9.89, ""),
        ({"result_max_latency_ns": 1_000_000_000}, 13.13, ""),
        ({"result_max_latency_ns": 1_000_000_000}, 13.14, "11 13.14"),
        ({}, 20, ""),
    ],
)
def test_a_run_of_server_lasts_as_long_as_its_schedule(values: dict[str, Any], seconds: float, expected: str) -> None:
    found = reported(**SERVED | values, **ended(seconds))
    assert [find_seconds(text) for text in found] == ([expected.split()] if expected else [])
    assert all(text.startswith("generated_query_duration: 10000000000, ") for text in found)
    for key in ("generated_query_duration", "result_scheduled_samples_per_sec"):
        assert reported(**SERVED | values | {key: None}, **ended(seconds)) == []


STREAMS = {"SingleStream": "latency_ns", "MultiStream": "query_latency_ns"}


@pytest.mark.parametrize("scenario", STREAMS)
@pytest.mark.parametrize(
    ("seconds", "slowest", "expected"),
    [
        (0.98, None, ""),
        (0.97, None, "1 0.97"),
        # A quarter of the latency more, half a millisecond of each query, 2 s to the end, and 1 % of the clock.
        (3.787, None, ""),
        (3.788, None, "1.7500 3.788"),
        (3.788, 500_000, "1.7500 3.788"),
        (5.3, 2_000_000, ""),
        (5.31, 2_000_000, "3.250 5.31"),
    ],
)
def test_queries_of_a_stream_follow_in_turn(scenario: str, seconds: float, slowest: int | None, expected: str) -> None:
    part = STREAMS[scenario]
    values = {
        "effective_scenario": scenario,
        "result_query_count": 1000,
        f"result_mean_{part}": 1_000_000,
        f"result_max_{part}": slowest,
        **ended(seconds),
    }
    found = reported(**values)
    assert [find_seconds(text) for text in found] == ([expected.split()] if expected else [])
    assert all(text.startswith(f"result_mean_{part}: 1000000, ") for text in found)
    for key in ("result_query_count", f"result_mean_{part}"):
        assert reported(**values | {key: None}) == reported(**values | {key: 0}) == []
