"""Which setting a run suggests for the next one, and why: logs of a few lines, each in a scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.mlperf.loadgen.margins import compute_margins
from reconciler.mlperf.loadgen.suggestions import suggest
from tests.said import hold, read_sections
from tests.unit.mlperf.test_margins import MILLISECOND, OFFLINE, SERVER, STREAM, log_of

SAID = Path(__file__).with_name("said_of_suggestions.txt")
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


@pytest.mark.parametrize("name", CASES)
def test_a_run_suggests_what_would_be_better(name: str) -> None:
    values, changes, valid = CASES[name]
    log = log_of(values, **changes)
    found = suggest(log, compute_margins(log), valid=valid)
    hold(SAID, name, [str(found)] if found else [])


def test_every_text_is_of_a_run() -> None:
    assert list(read_sections(SAID)) == list(CASES)
