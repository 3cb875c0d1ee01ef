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
