"""What to try next, by setting, value, unit and reason."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.margins import compute_margins
from reconciler.loadgen.suggestions import Suggestion, suggest
from tests.unit.mlperf.loadgen.test_contradictions import make_log

MAXIMUM = ("error_runtime", "Ending early: Max query count reached.")


def offered(log: DetailLog, *, valid: bool = False) -> str | None:
    found = suggest(log, compute_margins(log), valid=valid)
    return None if found is None else str(found)


def test_a_setting_to_leave_out_has_no_unit() -> None:
    assert str(Suggestion("a", "1", "ns", "because")) == "a: 1 ns (because)"
    assert str(Suggestion("a", "", "", "because")) == "a: leave it out (because)"


@pytest.mark.parametrize(("key", "name"), [("max_query_count", "max_query_count"), ("max_duration_ms", "max_duration")])
def test_a_bound_that_ended_the_run_is_left_out(key: str, name: str) -> None:
    bounded = {f"effective_{key}": 5, "effective_scenario": "SingleStream"}
    said = f"{name}: leave it out ({name} ended the run early)"
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded)) == said
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded), valid=True) is None
    assert offered(make_log("3.0 @ a", **bounded)) is None
    assert offered(make_log("3.0 @ a", ("error_runtime", "Something else"), **bounded)) is None
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded | {f"effective_{key}": 0})) is None
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded, result_validity=None)) is None


SERVED: dict[str, Any] = {
    "effective_scenario": "Server",
    "effective_target_qps": 1000,
    "effective_target_latency_ns": 10_000_000,
    "result_99.00_percentile_latency_ns": 11_000_000,
    "result_scheduled_samples_per_sec": 1000,
    "result_completed_samples_per_sec": 990,
}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "target_qps: 950 queries/s (p99 latency is over its limit)"),
        (
            {"result_99.00_percentile_latency_ns": 12_000_000},
            "target_qps: 950 queries/s (p99 latency is over its limit)",
        ),
        (
            {"result_99.00_percentile_latency_ns": 12_100_000},
            "target_qps: 850 queries/s (p99 latency is over its limit)",
        ),
        ({"effective_target_qps": 1237}, "target_qps: 1170 queries/s (p99 latency is over its limit)"),
        ({"result_completed_samples_per_sec": 980}, "target_qps: 950 queries/s (p99 latency is over its limit)"),
        (
            {"result_completed_samples_per_sec": 979},
            "target_qps: 881 queries/s (only 979 of 1000 samples/s were completed)",
        ),
        ({"result_completed_samples_per_sec": 0}, "target_qps: 950 queries/s (p99 latency is over its limit)"),
        ({"result_completed_samples_per_sec": None}, "target_qps: 950 queries/s (p99 latency is over its limit)"),
        (
            {"result_completed_samples_per_sec": 500, "result_scheduled_samples_per_sec": None},
            "target_qps: 450 queries/s (only 500 of 1000 samples/s were completed)",
        ),
        (
            {"result_completed_samples_per_sec": 500, "result_scheduled_samples_per_sec": 2000},
            "target_qps: 450 queries/s (only 500 of 2000 samples/s were completed)",
        ),
        ({"effective_target_qps": 0}, None),
        ({"effective_target_qps": None}, None),
        ({"effective_target_latency_ns": 0}, None),
        ({"result_99.00_percentile_latency_ns": None}, None),
    ],
)
def test_a_server_run_over_its_latency_is_given_a_lower_rate(values: dict[str, Any], expected: str | None) -> None:
    assert offered(make_log(**SERVED | values)) == expected


def test_of_two_latencies_the_worst_decides_and_the_one_that_is_over_is_named() -> None:
    tokens = {
        **SERVED,
        "requested_use_token_latencies": True,
        "requested_server_ttft_latency": 10_000_000,
        "requested_server_tpot_latency": 10_000_000,
        "result_first_token_99.00_percentile_latency_ns": 9_000_000,
        "result_time_per_output_token_99.00_percentile_ns": 13_000_000,
    }
    assert offered(make_log(**tokens)) == "target_qps: 850 queries/s (p99 TPOT is over its limit)"
    slack = tokens | {"result_time_per_output_token_99.00_percentile_ns": 5_000_000}
    assert offered(make_log(**slack), valid=True) is None
    slack["result_first_token_99.00_percentile_latency_ns"] = 4_000_000
    assert offered(make_log(**slack), valid=True) == "target_qps: 1100 queries/s (p99 TTFT uses 50% of its limit)"


@pytest.mark.parametrize(
    ("latency", "expected"),
    [
        (5_001_000, None),
        (5_000_000, "target_qps: 1100 queries/s (p99 latency uses 50% of its limit)"),
        (1_234_000, "target_qps: 1100 queries/s (p99 latency uses 12% of its limit)"),
    ],
)
def test_a_slack_server_run_is_given_a_higher_rate(latency: int, expected: str | None) -> None:
    log = make_log(**SERVED | {"result_99.00_percentile_latency_ns": latency})
    assert offered(log, valid=True) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"result_query_count": 300, "early_stopping_met": False},
            "min_query_count: 459 queries (0 of 300 queries were over the latency)",
        ),
        (
            {"result_query_count": 2000, "result_overlatency_query_count": 1, "early_stopping_met": False},
            "min_query_count: 662 queries (1 of 2000 queries were over the latency)",
        ),
        ({"result_query_count": 300, "result_overlatency_query_count": 3, "early_stopping_met": False}, None),
        # Of 134 million queries few enough would be late; nobody makes such a run.
        ({"result_query_count": 100_000, "result_overlatency_query_count": 998, "early_stopping_met": False}, None),
        (
            {"result_query_count": 10_000, "result_overlatency_query_count": 99, "early_stopping_met": False},
            "min_query_count: 5360771 queries (99 of 10000 queries were over the latency)",
        ),
        ({"result_query_count": 300, "early_stopping_met": True}, None),
        ({"result_query_count": 300}, None),
        ({"result_query_count": 0, "early_stopping_met": False}, None),
        ({"early_stopping_met": False}, None),
    ],
)
def test_a_server_run_within_its_latency_needs_more_queries(values: dict[str, Any], expected: str | None) -> None:
    log = make_log(**SERVED | {"result_99.00_percentile_latency_ns": 10_000_000} | values)
    assert offered(log) == expected


OFFLINE: dict[str, Any] = {
    "result_samples_per_second": 1234.5,
    "result_max_latency_ns": 20_000_000_000,
    "effective_min_duration_ms": 10_000,
    "effective_target_qps": 2000,
    "requested_min_query_count": 100,
    "effective_samples_per_query": 22_000,
}


@pytest.mark.parametrize(
    ("values", "valid", "expected"),
    [
        ({}, True, "target_qps: 1240 samples/s (the run lasted 20 s where 10 s suffice)"),
        ({}, False, None),
        ({"result_max_latency_ns": 15_000_000_000}, True, None),
        (
            {"result_max_latency_ns": 15_001_000_000},
            True,
            "target_qps: 1240 samples/s (the run lasted 15.001 s where 10 s suffice)",
        ),
        ({"effective_target_qps": 1234.5}, True, None),
        ({"effective_target_qps": None}, True, None),
        ({"effective_min_duration_ms": 0}, True, None),
        ({"effective_min_duration_ms": None}, True, None),
        ({"requested_min_query_count": 22_000}, True, None),
        (
            {"requested_min_query_count": 21_999},
            True,
            "target_qps: 1240 samples/s (the run lasted 20 s where 10 s suffice)",
        ),
        (
            {"requested_min_query_count": None},
            True,
            "target_qps: 1240 samples/s (the run lasted 20 s where 10 s suffice)",
        ),
        ({"effective_samples_per_query": None}, True, None),
        (
            {"requested_min_query_count": None, "effective_samples_per_query": 1},
            True,
            "target_qps: 1240 samples/s (the run lasted 20 s where 10 s suffice)",
        ),
        ({"requested_min_query_count": None, "effective_samples_per_query": None}, True, None),
        (
            {"result_min_duration_met": False, "result_max_latency_ns": 9_000_000_000},
            False,
            "target_qps: 1240 samples/s (the run lasted 9 s of 10 s)",
        ),
        (
            {"result_min_duration_met": False, "result_samples_per_second": 0.012341},
            False,
            "target_qps: 0.0124 samples/s (the run lasted 20 s of 10 s)",
        ),
        ({"effective_target_qps": None, "result_samples_per_second": 0.5}, True, None),
        ({"result_min_duration_met": False, "result_samples_per_second": 0}, False, None),
        (
            {"result_min_duration_met": False, "result_samples_per_second": 1},
            False,
            "target_qps: 1 samples/s (the run lasted 20 s of 10 s)",
        ),
        ({"result_min_duration_met": False, "result_samples_per_second": "fast"}, False, None),
        ({"result_min_duration_met": False, "result_samples_per_second": None}, False, None),
        ({"result_min_duration_met": False, "result_max_latency_ns": None}, False, None),
        (
            {"result_min_duration_met": False, "effective_min_duration_ms": None},
            False,
            "target_qps: 1240 samples/s (the run lasted 20 s of 0 s)",
        ),
    ],
)
def test_an_offline_run_is_given_the_rate_that_it_had(
    values: dict[str, Any], valid: bool, expected: str | None
) -> None:
    assert offered(make_log(**OFFLINE | values), valid=valid) == expected


@pytest.mark.parametrize(
    ("scenario", "mean", "percentile", "needed"),
    [
        ("SingleStream", "result_mean_latency_ns", 0.9, 64),
        ("MultiStream", "result_mean_query_latency_ns", 0.99, 662),
    ],
)
def test_a_stream_is_given_its_latency_or_more_queries(
    scenario: str, mean: str, percentile: float, needed: int
) -> None:
    early = {"effective_scenario": scenario, "result_min_duration_met": False, mean: 1234.9}
    why = "LoadGen ran out of queries: the expected latency is over twice the real one"
    assert offered(make_log(**early)) == f"target_latency: 1234 ns ({why})"
    assert offered(make_log(**early), valid=True) is None
    for value in (0, "short", None):
        assert offered(make_log(**early | {mean: value})) is None
    assert offered(make_log(**early | {mean: 1})) == f"target_latency: 1 ns ({why})"
    few = {"effective_target_latency_percentile": percentile, "early_stopping_met": False}
    said = f"min_query_count: {needed} queries (early stopping needs that many)"
    assert offered(make_log(effective_scenario=scenario, **few)) == said
    assert offered(make_log(**early | few)) == f"target_latency: 1234 ns ({why})"
    assert offered(make_log(**early | few | {"result_min_duration_met": True})) == said
    assert offered(make_log(effective_scenario=scenario, **few | {"early_stopping_met": True})) is None
    other = "result_mean_latency_ns" if "query" in mean else "result_mean_query_latency_ns"
    assert offered(make_log(effective_scenario=scenario, result_min_duration_met=False, **{other: 5})) is None
