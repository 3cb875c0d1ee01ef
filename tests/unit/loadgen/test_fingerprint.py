"""Fingerprints of a run, whatever dates its log carries: enough latencies, and the clock of its logger."""

from __future__ import annotations

import hashlib
import json

import pytest

from reconciler.loadgen.log import find_fingerprints, parse_detail

KEYS = (
    "result_min_latency_ns",
    "result_mean_latency_ns",
    "result_50.00_percentile_latency_ns",
    "result_max_latency_ns",
)


def find(**values: object) -> tuple[str, ...]:
    lines = [f":::MLLOG {json.dumps({'key': key, 'value': value})}\n" for key, value in {"first": 1, **values}.items()]
    return find_fingerprints(parse_detail("".join(lines).encode()))


def measure(*latencies: int) -> dict[str, object]:
    return dict(zip(KEYS, latencies, strict=True))


def test_four_different_latencies_identify_a_run_and_fewer_do_not() -> None:
    (own,) = find(**measure(1, 2, 3, 4))
    assert own.startswith("latencies ")
    assert find(**measure(1, 2, 3, 3)) == ()
    assert find(**measure(1, 1, 1, 1)) == ()
    assert find() == ()


@pytest.mark.parametrize("other", [measure(1, 2, 3, 5), measure(2, 1, 3, 4)], ids=["another", "in another order"])
def test_other_latencies_are_of_another_run(other: dict[str, object]) -> None:
    assert find(**other) != find(**measure(1, 2, 3, 4))


def test_dates_and_settings_and_their_order_identify_no_run() -> None:
    own = find(**measure(1, 2, 3, 4))
    dated = {"power_begin": "01-02-2026 10:00:00.000", "effective_target_latency_ns": 7, "my_result_x_latency_ns": 8}
    assert find(**dated, **measure(1, 2, 3, 4)) == own
    assert find(**dict(reversed(measure(1, 2, 3, 4).items()))) == own
    assert find(**measure(1, 2, 3, 3), effective_target_latency_ns=7) == ()


def test_latencies_report_by_their_names_and_digits_alone() -> None:
    text = (
        "result_50.00_percentile_latency_ns=3 result_max_latency_ns=4 result_mean_latency_ns=2 result_min_latency_ns=1"
    )
    assert find(**measure(1, 2, 3, 4)) == (f"latencies {hashlib.sha256(text.encode()).hexdigest()}",)


@pytest.mark.parametrize(
    ("clocks", "reported"),
    [
        ({"power_begin": 0.25, "power_end": 600_000.125}, ("clock 0.25 600000.125",)),
        ({"power_begin": 0.25}, ()),
        ({"power_end": 600_000.125}, ()),
        ({}, ()),
    ],
)
def test_the_logger_clock_identifies_a_run_with_both_ends(clocks: dict[str, float], reported: tuple[str, ...]) -> None:
    metadata = {"is_error": False, "is_warning": False, "file": "loadgen.cc", "line_no": 7, "pid": 1, "tid": 2}
    entries = [
        {"key": key, "value": "x", "time_ms": at, "namespace": "a", "event_type": "b", "metadata": metadata}
        for key, at in {"first": 7.5, **clocks}.items()
    ]
    log = parse_detail("".join(f":::MLLOG {json.dumps(entry)}\n" for entry in entries).encode())
    assert find_fingerprints(log) == reported
