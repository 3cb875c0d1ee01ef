"""Estimates and counts of a log against its percentiles, where the log lacks what they follow from."""

from __future__ import annotations

import json

import pytest

from reconciler.mlperf.loadgen.log import DetailLog, parse_detail
from reconciler.mlperf.loadgen.ranks import find_wrong_ranks


def log(scenario: str, **values: object) -> DetailLog:
    entries = {"effective_scenario": scenario, **values}
    lines = [
        json.dumps({"key": key, "value": value, "time_ms": 1.0, "namespace": "mlperf::logging"})
        for key, value in entries.items()
    ]
    return parse_detail("".join(f":::MLLOG {line}\n" for line in lines).encode())


def wrong(scenario: str, **values: object) -> list[str]:
    return [f"{item.key} {item.stated}: {item.derived}" for item in find_wrong_ranks(log(scenario, **values))]


@pytest.mark.parametrize(
    ("scenario", "key", "source", "percentile"),
    [
        ("SingleStream", "early_stopping_latency_ss", "result_90.00_percentile_latency_ns", 0.9),
        ("MultiStream", "early_stopping_latency_ms", "result_99.00_percentile_per_query_latency_ns", 0.99),
    ],
)
def test_an_estimate_follows_from_a_percentile(scenario: str, key: str, source: str, percentile: float) -> None:
    values = {"result_query_count": 1000, "effective_target_latency_percentile": percentile, source: 10, key: 5}
    (found,) = wrong(scenario, **values)
    assert found == f"{key} 5: {source} is 10, and the estimate from 1000 queries is not below it"
    for needed in ("result_query_count", source, key):
        assert wrong(scenario, **{name: value for name, value in values.items() if name != needed}) == []
    unknown = {name: value for name, value in values.items() if name != "effective_target_latency_percentile"}
    assert bool(wrong(scenario, **unknown)) is (scenario == "MultiStream")  # of which it is always the 99th
    assert wrong(scenario, **values, requested_use_token_latencies=True) == []
