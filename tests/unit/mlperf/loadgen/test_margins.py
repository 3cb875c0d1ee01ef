"""How far a run stayed inside each constraint, in the words that are shown."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reconciler.loadgen.margins import Margin, compute_margins, read_percentile, show_measured, show_seconds
from tests.unit.mlperf.loadgen.test_contradictions import make_log

ENDED = {"power_end": "02-22-2023 08:54:58.600"}  # after 10.5 s


def shown(**values: Any) -> list[str]:
    return list(map(str, compute_margins(make_log(**values))))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, []),
        ({"effective_min_duration_ms": 10_000}, []),
        (ENDED, []),
        ({**ENDED, "effective_min_duration_ms": 10_000}, ["duration 10.5 s, limit 10 s: met (+5.0%)"]),
        ({**ENDED, "effective_min_duration_ms": 0}, ["duration 10.5 s, limit 0 s: met"]),
        (
            {**ENDED, "effective_min_duration_ms": 12_000, "result_min_duration_met": False},
            ["duration 10.5 s, limit 12 s: not met (-12.5%)"],
        ),
        (
            {**ENDED, "effective_min_duration_ms": 10_000, "result_max_latency_ns": 20_000_000_000},
            ["duration 20 s, limit 10 s: met (+100.0%)"],
        ),
        (
            {
                **ENDED,
                "effective_scenario": "Server",
                "effective_min_duration_ms": 10_000,
                "result_max_latency_ns": 20_000_000_000,
            },
            ["duration 10.5 s, limit 10 s: met (+5.0%)"],
        ),
        ({**ENDED, "effective_min_duration_ms": 10_000, "result_validity": None}, []),
    ],
)
def test_a_run_lasts_its_minimum(values: dict[str, Any], expected: list[str]) -> None:
    assert shown(**values) == expected


@pytest.mark.parametrize(
    ("scenario", "count", "least", "unit"),
    [
        ("Offline", "generated_samples_per_query", "requested_min_query_count", "samples"),
        ("SingleStream", "result_query_count", "effective_min_query_count", "queries"),
        ("Server", "result_query_count", "effective_min_query_count", "queries"),
    ],
)
def test_as_many_are_issued_as_are_asked(scenario: str, count: str, least: str, unit: str) -> None:
    def first(**values: object) -> list[str]:
        return [text for text in shown(effective_scenario=scenario, **values) if text.startswith(unit)]

    assert first(**{count: 1500, least: 1000}) == [f"{unit} 1500 {unit}, limit 1000 {unit}: met (+50.0%)"]
    few = {count: 999, least: 1000, "result_min_queries_met": False}
    assert first(**few) == [f"{unit} 999 {unit}, limit 1000 {unit}: not met (-0.1%)"]
    assert first(**{count: 999}) == first(**{least: 1000}) == []
    other = "effective_min_query_count" if least.startswith("requested") else "requested_min_query_count"
    assert first(**{count: 999, other: 1000}) == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"result_99.00_percentile_latency_ns": 12_500_000, "effective_target_latency_ns": 10_000_000},
            ["p99 latency 12.5 ms, limit 10 ms: not met (-25.0%)"],
        ),
        (
            {"result_99.00_percentile_latency_ns": 10_000_000, "effective_target_latency_ns": 10_000_000},
            ["p99 latency 10 ms, limit 10 ms: met (+0.0%)"],
        ),
        (
            {
                "result_99.90_percentile_latency_ns": 5_000_000,
                "result_99.00_percentile_latency_ns": 1,
                "effective_target_latency_ns": 10_000_000,
                "effective_target_latency_percentile": 0.999,
            },
            ["p99.9 latency 5 ms, limit 10 ms: met (+50.0%)"],
        ),
        ({"result_99.00_percentile_latency_ns": 12_500_000}, []),
        ({"effective_target_latency_ns": 10_000_000}, []),
        (
            {
                "requested_use_token_latencies": True,
                "result_first_token_99.00_percentile_latency_ns": 1_500_000_000,
                "requested_server_ttft_latency": 2_000_000_000,
                "result_time_per_output_token_99.00_percentile_ns": 250_000_000,
                "requested_server_tpot_latency": 200_000_000,
                "result_99.00_percentile_latency_ns": 1,
                "effective_target_latency_ns": 2,
            },
            ["p99 TTFT 1500 ms, limit 2000 ms: met (+25.0%)", "p99 TPOT 250 ms, limit 200 ms: not met (-25.0%)"],
        ),
    ],
)
def test_latencies_of_server_are_held_against_their_targets(values: dict[str, Any], expected: list[str]) -> None:
    assert shown(effective_scenario="Server", **values) == expected
    for scenario in ("SingleStream", "MultiStream", "Offline"):
        assert shown(effective_scenario=scenario, **values) == []


@pytest.mark.parametrize(
    ("scenario", "values", "expected"),
    [
        ("SingleStream", {"result_query_count": 662}, ["662 queries, limit 662 queries: met (+0.0%)"]),
        (
            "SingleStream",
            {"result_query_count": 32, "early_stopping_met": False, "effective_target_latency_percentile": 0.9},
            ["32 queries, limit 64 queries: not met (-50.0%)"],
        ),
        ("MultiStream", {"result_query_count": 1324}, ["1324 queries, limit 662 queries: met (+100.0%)"]),
        ("Offline", {"result_query_count": 1324}, []),
        ("Server", {"result_query_count": 838}, []),
        (
            "Server",
            {"result_query_count": 838, "result_overlatency_query_count": 1},
            ["1 queries over, limit 2 queries over: met (+50.0%)"],
        ),
        (
            "Server",
            {"result_query_count": 459, "result_overlatency_query_count": 1, "early_stopping_met": False},
            ["1 queries over, limit 0 queries over: not met"],
        ),
        (
            "Server",
            {"result_query_count": 153, "result_overlatency_query_count": 0, "early_stopping_met": False},
            ["153 queries, limit 459 queries: not met (-66.7%)"],
        ),
        (
            "Server",
            {
                "result_query_count": 838,
                "result_overlatency_query_count": 1,
                "requested_use_token_latencies": True,
            },
            [],
        ),
        ("Server", {"result_overlatency_query_count": 1}, []),
    ],
)
def test_early_stopping_needs_queries_or_bounds_late_ones(
    scenario: str, values: dict[str, Any], expected: list[str]
) -> None:
    assert shown(effective_scenario=scenario, **values) == [f"early stopping {text}" for text in expected]


def test_margins_are_in_a_fixed_order() -> None:
    values = {
        "effective_scenario": "Server",
        "result_overlatency_query_count": 1,
        "result_query_count": 838,
        "effective_target_latency_ns": 10_000_000,
        "result_99.00_percentile_latency_ns": 9_000_000,
        "effective_min_query_count": 838,
        "effective_min_duration_ms": 10_000,
    }
    names = ["duration", "queries", "p99 latency", "early stopping"]
    assert [margin.name for margin in compute_margins(make_log(**values, **ENDED))] == names
    assert compute_margins(make_log(**values, **ENDED))[0] == Margin("duration", "10.5", "10", "s", True, "+5.0")


def test_a_run_lasts_to_the_millisecond() -> None:
    assert show_seconds(make_log(power_end="02-22-2023 08:54:58.6004")) == Decimal("10.5")
    assert show_seconds(make_log(power_end="02-22-2023 08:54:58.6006")) == Decimal("10.501")
    assert show_seconds(make_log()) is show_seconds(make_log(power_begin=None, **ENDED)) is None
    assert show_seconds(make_log(result_max_latency_ns=1_500_000_000)) == Decimal("1.5")


def test_what_is_shown_has_five_digits_or_as_many_as_are_asked() -> None:
    assert show_measured(Decimal("123456.7")) == "123460"
    assert show_measured(Decimal("1.234567")) == "1.2346"
    assert show_measured(Decimal("123.4567"), 2) == "120"
    assert show_measured(Decimal("-Infinity")) == "0"


def test_the_percentile_of_a_log_that_says_none_is_the_99th() -> None:
    assert read_percentile(make_log()) == 99
    assert read_percentile(make_log(effective_target_latency_percentile=0.97)) == 97
