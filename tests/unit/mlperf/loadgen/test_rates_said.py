"""Rates, latencies and sizes against the clock and the settings that they follow from, in whole sentences."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.loadgen.rates import find_wrong_rates
from tests.unit.mlperf.loadgen.test_contradictions import make_log

NEW, OLD, FIRST = "5.0 @ a", "4.1 @ a", "1.1 @ a"


def told(version: str = NEW, /, **values: Any) -> list[str]:
    """Of a run from 08:54:48.100 on, with the key of the other line in place of its number."""
    log = make_log(version, **{"test_datetime": None} | values)
    keys = {log.number(key): f" ({key})" for key in log.index} | {0: ""}
    found = list(find_wrong_rates(log))
    assert not any(item.is_doubt for item in found)
    assert [item.line for item in found] == [log.number(item.key) for item in found]
    return [f"{item.key}: {item.stated}, but {item.derived}{keys[item.other]}" for item in found]


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


@pytest.mark.parametrize(
    ("version", "rate", "fine"),
    [
        (NEW, 1000.01, True),
        (NEW, 1000.02, False),
        (NEW, 999.99, True),
        (NEW, 999.98, False),
        (OLD, 2000, True),
        (OLD, 2000.01, False),
        (OLD, 999.99, True),
        (OLD, 999.98, False),
        (FIRST, 2000.01, True),
        (FIRST, 2000.02, False),
        (FIRST, 999.98, True),
        (FIRST, 999.97, False),
        ("2.0 @ a", 999.98, False),
    ],
)
def test_offline_answers_all_of_its_samples_by_the_slowest(version: str, rate: float, fine: bool) -> None:
    said = f"result_samples_per_second: {rate}, but 10000 samples in 10 s are 1000"
    assert told(version, **OFFLINE | {"result_samples_per_second": rate}) == [said] * (not fine)


def test_offline_is_not_judged_by_what_is_not_known() -> None:
    wrong = OFFLINE | {"result_samples_per_second": 5}
    assert len(told(**wrong)) == 1
    assert len(told(**wrong | {"result_query_count": 2})) == 1
    for key in OFFLINE:
        assert told(**wrong | {key: None}) == []
    assert told(**wrong | {"result_max_latency_ns": 0}) == []
    assert told(**OFFLINE | {"result_query_count": 2, "result_samples_per_second": 2000}) == []


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        # 1 % of the clock, and 20 ms.
        (9.89, []),
        (9.88, ["that is 10 s of queries, and the run lasted 9.88 s"]),
        # 2 s to the end, and 1 % of the clock.
        (12.12, []),
        (12.13, ["the last answer came after 10 s at most, and the run lasted 12.13 s"]),
    ],
)
def test_a_run_of_offline_lasts_as_long_as_its_slowest_sample(seconds: float, expected: list[str]) -> None:
    said = [f"result_max_latency_ns: 10000000000, but {text} (power_end)" for text in expected]
    assert told(**OFFLINE, **ended(seconds)) == said


@pytest.mark.parametrize(
    ("slowest", "fine"),
    [(7_899_999_999, False), (7_900_000_000, True), (10_120_000_000, True), (10_120_000_001, False)],
)
def test_bounds_of_a_duration_belong_to_it(slowest: int, fine: bool) -> None:
    values = OFFLINE | {"result_max_latency_ns": slowest, "result_samples_per_second": round(1e13 / slowest, 3)}
    assert [text.partition(":")[0] for text in told(**values, **ended(10))] == ["result_max_latency_ns"] * (not fine)


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
    found = told(**SIZED | values)
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
    ("values", "expected"),
    [
        ({}, []),
        ({"result_scheduled_samples_per_sec": 99}, []),
        (
            {"result_scheduled_samples_per_sec": 98.99},
            ["98.99, but 1001 queries in 10 s are 100 (generated_query_duration)"],
        ),
        # Up to 40 mean gaps longer.
        ({"result_scheduled_samples_per_sec": 105.2}, []),
        (
            {"result_scheduled_samples_per_sec": 105.3},
            ["105.3, but 1001 queries in 10 s are 100 (generated_query_duration)"],
        ),
        ({"result_query_count": 40, "result_scheduled_samples_per_sec": 1000}, []),
        (
            {"result_query_count": 41, "result_scheduled_samples_per_sec": 166},
            ["166, but 41 queries in 10 s are 4 (generated_query_duration)"],
        ),
        ({"result_query_count": 41, "result_scheduled_samples_per_sec": 165}, []),
        ({"result_query_count": 2, "result_scheduled_samples_per_sec": 0.1}, []),
        (
            {"result_query_count": 2, "result_scheduled_samples_per_sec": 0.01},
            ["0.01, but 2 queries in 10 s are 0.1 (generated_query_duration)"],
        ),
        ({"result_query_count": 1, "result_scheduled_samples_per_sec": 0.01}, []),
        ({"result_query_count": None, "result_scheduled_samples_per_sec": 0.01}, []),
        ({"generated_query_duration": 0, "result_scheduled_samples_per_sec": 0.01}, []),
        ({"generated_query_duration": None, "result_scheduled_samples_per_sec": 0.01}, []),
        ({"result_scheduled_samples_per_sec": 0}, []),
        ({"result_scheduled_samples_per_sec": None}, []),
    ],
)
def test_server_schedules_its_queries_at_the_rate_that_it_logs(values: dict[str, Any], expected: list[str]) -> None:
    found = told(**SERVED | {"result_completed_samples_per_sec": None} | values)
    assert found == [f"result_scheduled_samples_per_sec: {text}" for text in expected]


@pytest.mark.parametrize(
    ("values", "seconds", "expected"),
    [
        ({}, 9.89, []),
        ({}, 9.88, "that is 10 s of queries, and the run lasted 9.88 s"),
        # Nobody waits for the last gap.
        ({"result_scheduled_samples_per_sec": 104}, 9.51, []),
        ({"result_scheduled_samples_per_sec": 104}, 9.5, "that is 9.61538 s of queries, and the run lasted 9.5 s"),
        # The schedule ends where its duration does, too.
        ({"result_scheduled_samples_per_sec": 99, "result_completed_samples_per_sec": 99}, 9.89, []),
        ({"result_max_latency_ns": 1_000_000_000}, 13.13, []),
        (
            {"result_max_latency_ns": 1_000_000_000},
            13.14,
            "the last answer came after 11 s at most, and the run lasted 13.14 s",
        ),
        ({}, 20, []),
    ],
)
def test_a_run_of_server_lasts_as_long_as_its_schedule(
    values: dict[str, Any], seconds: float, expected: str | list[str]
) -> None:
    found = told(**SERVED | values, **ended(seconds))
    said = f"generated_query_duration: 10000000000, but {expected} (power_end)"
    assert found == ([said] if expected else [])


@pytest.mark.parametrize(
    ("rate", "fine"),
    [(100, True), (79.2, True), (79.1, False), (135.6, True), (135.7, False), (0, True), (None, True)],
)
def test_the_schedule_of_server_is_at_its_target(rate: float | None, fine: bool) -> None:
    """1 %, and 8 standard deviations of as many gaps."""
    found = told(**SERVED, effective_target_qps=rate)
    said = f"result_scheduled_samples_per_sec: 100, but the target of the schedule is {rate} (effective_target_qps)"
    assert found == [said] * (not fine)


@pytest.mark.parametrize(("rate", "fine"), [(101, True), (101.01, False), (1, True), (None, True), (0, True)])
def test_server_completes_what_it_schedules(rate: float | None, fine: bool) -> None:
    found = told(**SERVED | {"result_completed_samples_per_sec": rate})
    said = f"result_completed_samples_per_sec: {rate}, but 100 were scheduled (result_scheduled_samples_per_sec)"
    assert found == [said] * (not fine)
    assert told(**SERVED | {"result_completed_samples_per_sec": rate, "result_query_count": 1}) == []


STREAMS = {"SingleStream": "latency_ns", "MultiStream": "query_latency_ns"}


@pytest.mark.parametrize("scenario", STREAMS)
@pytest.mark.parametrize(
    ("seconds", "slowest", "expected"),
    [
        (0.98, None, ""),
        (0.97, None, "that is 1 s of queries, and the run lasted 0.97 s"),
        # A quarter of the latency more, half a millisecond of each query, 2 s to the end, and 1 % of the clock.
        (3.787, None, ""),
        (3.788, None, "the last answer came after 1.7500 s at most, and the run lasted 3.788 s"),
        (3.788, 500_000, "the last answer came after 1.7500 s at most, and the run lasted 3.788 s"),
        (5.3, 2_000_000, ""),
        (5.31, 2_000_000, "the last answer came after 3.250 s at most, and the run lasted 5.31 s"),
    ],
)
def test_queries_of_a_stream_follow_each_other(
    scenario: str, seconds: float, slowest: int | None, expected: str
) -> None:
    part = STREAMS[scenario]
    values = {
        "effective_scenario": scenario,
        "result_query_count": 1000,
        f"result_mean_{part}": 1_000_000,
        f"result_max_{part}": slowest,
        **ended(seconds),
    }
    said = f"result_mean_{part}: 1000000, but {expected} (power_end)"
    assert told(**values) == [said] * bool(expected)
    for key in ("result_query_count", f"result_mean_{part}"):
        assert told(**values | {key: None}) == told(**values | {key: 0}) == []


@pytest.mark.parametrize(
    ("version", "rate", "fine"),
    [
        (NEW, 1000.01, True),
        (NEW, 1000.02, False),
        (NEW, 999.98, False),
        (FIRST, 1000.02, True),
        (FIRST, 1000.03, False),
        (FIRST, 999.98, True),
        (FIRST, 999.97, False),
    ],
)
def test_a_rate_without_loadgens_own_time_is_of_the_mean(version: str, rate: float, fine: bool) -> None:
    key = "result_qps_without_loadgen_overhead"
    values = {"effective_scenario": "SingleStream", "result_mean_latency_ns": 1_000_000, key: rate}
    said = f"{key}: {rate}, but a mean latency of 1000000 ns is 1000 (result_mean_latency_ns)"
    assert told(version, **values) == [said] * (not fine)
    assert told(version, **values | {key: 0}) == told(version, **values | {"result_mean_latency_ns": None}) == []
    other = {"effective_scenario": "MultiStream", "result_mean_query_latency_ns": 1_000_000, key: rate}
    assert told(version, **other) == []


def test_the_mean_is_cut_to_whole_nanoseconds() -> None:
    key = "result_qps_without_loadgen_overhead"
    for rate, fine in ((1e9 / 11 - 900, True), (1e9 / 11 - 1000, False), (1e9 / 10, True), (1e8 + 1100, False)):
        values = {"effective_scenario": "SingleStream", "result_mean_latency_ns": 10, key: round(rate)}
        assert bool(told(**values)) is not fine, rate
