"""What LoadGen's releases before 4 wrote otherwise contradicts nothing; in a newer log the same would."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.log import DetailLog, parse_detail

_RUN = {
    "test_datetime": "2023-02-22T08:54:48Z",
    "effective_scenario": "Offline",
    "effective_test_mode": "PerformanceOnly",
    "power_begin": "02-22-2023 08:54:48.100",
    "result_validity": "VALID",
}


def make_log(version: str, **values: Any) -> DetailLog:
    """``power_end`` is logged 20 s after the run began."""
    metadata = {"is_error": False, "is_warning": False, "file": "results.cc", "line_no": 7, "pid": 1, "tid": 1}
    lines = []
    for key, value in {"loadgen_version": version, **_RUN, **values}.items():
        stamp = 20_000.5 if key.startswith(("power_", "result_")) else 0.5
        entry = {"key": key, "value": value, "time_ms": stamp, "namespace": "mlperf::logging"}
        lines.append(":::MLLOG " + json.dumps({**entry, "event_type": "POINT_IN_TIME", "metadata": metadata}))
    return parse_detail("\n".join(lines).encode())


def contradicted(log: DetailLog) -> set[str]:
    return {item.key for item in find_inconsistencies(log)}


@pytest.mark.parametrize(("version", "known"), [("2.0 @ 5aae975fc4", True), ("3.0 @ f536725011", False)])
def test_a_count_of_queries_in_quotes_is_that_of_release_2(version: str, known: bool) -> None:
    ended = {"power_end": "02-22-2023 08:55:08.000"}
    assert ("result_query_count" in contradicted(make_log(version, **ended, result_query_count="1"))) is not known
    assert "result_query_count" in contradicted(make_log(version, **ended, result_query_count="-1"))
    assert "result_max_latency_ns" in contradicted(make_log(version, **ended, result_max_latency_ns="1"))


@pytest.mark.parametrize(
    ("version", "end", "wrong"),
    [
        pytest.param("3.0 @ f536725011", "08:55:00.000", False, id="written 8 s after the run"),
        pytest.param("3.0 @ f536725011", "08:55:20.000", True, id="ended after it was written"),
        pytest.param("3.0 @ f536725011", "09:00:00.000", True, id="another time"),
        pytest.param("5.1 @ 3d4e5f6a7b", "08:55:00.000", False, id="as a later release does after a long trace"),
    ],
)
def test_the_end_of_a_run_was_logged_once_its_latencies_were_sorted(version: str, end: str, wrong: bool) -> None:
    assert ("power_end" in contradicted(make_log(version, power_end=f"02-22-2023 {end}"))) is wrong


@pytest.mark.parametrize(
    ("version", "release"), [(".5a1 @ 6958607d52", 0), ("2.1 @ 67eb6a0d0e", 2), ("6.0.17 @ d6147c7eb7", 6), ("", 0)]
)
def test_the_release_is_the_first_number(version: str, release: int) -> None:
    assert make_log(version).release == release
