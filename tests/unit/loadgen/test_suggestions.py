"""Which setting a run suggests for the next one, and why: logs of a few lines, each in a scenario."""

from __future__ import annotations

import pytest

from reconciler.loadgen.margins import compute_margins
from reconciler.loadgen.verdict import suggest
from tests.unit.loadgen.test_margins import MILLISECOND, OFFLINE, SERVER, STREAM, log_of

P99 = "result_99.00_percentile_latency_ns"
TARGET = {"effective_target_qps": 1000}
OVER = {P99: 16 * MILLISECOND}
FEW = {"result_query_count": 400, "result_overlatency_query_count": 3, "early_stopping_met": False}
LONG = {"effective_samples_per_query": 30_720, "effective_target_qps": 60, "result_samples_per_second": 46.5}
SHORT = {"result_min_duration_met": False}
CASES: dict[str, tuple[dict[str, object], dict[str, object], bool]] = {
    "Server with half of its latency left": (SERVER, {**TARGET, P99: 7 * MILLISECOND}, True),
    "Server with just half of its latency left": (SERVER, {**TARGET, P99: 7.5 * MILLISECOND}, True),
    "Server with less than half of its latency left": (SERVER, {**TARGET, P99: 8 * MILLISECOND}, True),
    "Server without a target": (SERVER, {P99: 7 * MILLISECOND}, True),
    "Server a little over its latency": (SERVER, {**TARGET, **OVER}, False),
    "Server just a fifth over its latency": (SERVER, {**TARGET, P99: 18 * MILLISECOND}, False),
    "Server far over its latency": (SERVER, {**TARGET, P99: 30 * MILLISECOND}, False),
    "Server that completes less than is asked": (
        SERVER,
        {**TARGET, **OVER, "result_completed_samples_per_sec": 500, "result_scheduled_samples_per_sec": 990},
        False,
    ),
    "Server that completes nearly what is asked": (
        SERVER,
        {**TARGET, **OVER, "result_completed_samples_per_sec": 985, "result_scheduled_samples_per_sec": 990},
        False,
    ),
    "Server that completes less than its target": (
        SERVER,
        {**TARGET, **OVER, "result_completed_samples_per_sec": 500},
        False,
    ),
    "Server with too few queries": (SERVER, {**TARGET, **FEW}, False),
    "Server with too few queries, of which none was over": (
        SERVER,
        {**TARGET, **FEW, "result_overlatency_query_count": 0},
        False,
    ),
    "Server with more of them late than any number of queries would excuse": (
        SERVER,
        {**TARGET, **FEW, "result_query_count": 10**7, "result_overlatency_query_count": 99_811},
        False,
    ),
    "Server with enough queries": (SERVER, {**TARGET, **FEW, "early_stopping_met": True}, False),
    "Offline that ended too early": (OFFLINE, {**SHORT, "result_samples_per_second": 46.5}, False),
    "Offline without a rate": (OFFLINE, SHORT, False),
    "Offline of a rate of 0": (OFFLINE, {**SHORT, "result_samples_per_second": 0}, False),
    "Offline that lasted twice as long": (OFFLINE, {**LONG, "result_max_latency_ns": 1_200_000 * MILLISECOND}, True),
    "Offline that lasted half as long again": (OFFLINE, {**LONG, "result_max_latency_ns": 900_000 * MILLISECOND}, True),
    "Offline that lasted twice as long for its queries": (
        OFFLINE,
        {**LONG, "effective_samples_per_query": 24_576, "result_max_latency_ns": 1_200_000 * MILLISECOND},
        True,
    ),
    "Offline that was asked for no queries": (
        OFFLINE,
        {
            **LONG,
            "effective_samples_per_query": 1,
            "requested_min_query_count": None,
            "result_max_latency_ns": 1_200_000 * MILLISECOND,
        },
        True,
    ),
    "Offline faster than its target": (
        OFFLINE,
        {**LONG, "effective_target_qps": 40, "result_max_latency_ns": 1_200_000 * MILLISECOND},
        True,
    ),
    "SingleStream that ended too early": (
        STREAM,
        {**SHORT, "result_mean_latency_ns": 1_234_567, "effective_min_duration_ms": 600_000},
        False,
    ),
    "SingleStream that is VALID": (STREAM, {**SHORT, "result_mean_latency_ns": 1_234_567}, True),
    "SingleStream with too few queries": (STREAM, {}, False),
    "MultiStream that ended too early": (
        STREAM,
        {**SHORT, "effective_scenario": "MultiStream", "result_mean_query_latency_ns": 9_876_543},
        False,
    ),
    "a run that did not end": (OFFLINE, {**SHORT, "result_samples_per_second": 46.5, "result_validity": None}, False),
}
# Setting and value that a run of CASES suggests; the others suggest nothing.
EXPECTED = {
    "Server with half of its latency left": ("target_qps", "1100"),
    "Server with just half of its latency left": ("target_qps", "1100"),
    "Server a little over its latency": ("target_qps", "950"),
    "Server just a fifth over its latency": ("target_qps", "950"),
    "Server far over its latency": ("target_qps", "850"),
    "Server that completes less than is asked": ("target_qps", "450"),
    "Server that completes nearly what is asked": ("target_qps", "950"),
    "Server that completes less than its target": ("target_qps", "450"),
    "Server with too few queries": ("min_query_count", "8968"),
    "Server with too few queries, of which none was over": ("min_query_count", "459"),
    "Offline that ended too early": ("target_qps", "46.5"),
    "Offline that lasted twice as long": ("target_qps", "46.5"),
    "Offline that was asked for no queries": ("target_qps", "46.5"),
    "SingleStream that ended too early": ("target_latency", "1.23"),
    "MultiStream that ended too early": ("target_latency", "9.87"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_suggests_what_would_be_better(name: str) -> None:
    values, changes, valid = CASES[name]
    log = log_of(values, **changes)
    found = suggest(log, compute_margins(log), valid=valid)
    assert ((found.setting, found.value) if found else None) == EXPECTED.get(name)
