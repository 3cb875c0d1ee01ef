"""Each finding about a measured point: its words, its weight, and the values on both sides of its limit."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from reconciler.rules.endpoints_program.event_log import LoggedRequest, LoggedRun
from reconciler.rules.endpoints_program.judge import (
    Gravity,
    PointFinding,
    judge_logged,
)
from tests.unit.mlperf.endpoints_program.good_point import GOOD, RULES, WINDOW

SECOND = 10**9


def tell(findings: Any) -> list[tuple[str, str, str]]:
    return [(found.rule, found.weight.value, found.text) for found in findings]


def window(**changes: Any) -> dict[str, Any]:
    return {"window": replace(WINDOW, **changes)}


def logged(count: int, peak: int) -> LoggedRun:
    """Requests of one level, one after another."""
    requests = [LoggedRequest(n * SECOND, first=n * SECOND + 10, done=n * SECOND + 110, chunks=2) for n in range(count)]
    return LoggedRun(0, tuple(requests), peak)


def test_the_steady_state_of_the_events_is_told_or_held_against_the_client() -> None:
    run, silent = logged(40, 5), replace(GOOD, window=None)
    shown = "looked for in the run's events, the steady state is"
    (found,) = judge_logged(run, silent, RULES, dataset_size=4, least_seconds=1)
    assert found == PointFinding("steady-state-basis", Gravity.WARNING, f"{shown} 35.0 s from super-pass 1 to 9")
    (none,) = judge_logged(run, silent, RULES, dataset_size=20, least_seconds=1)
    assert none.text == f"{shown} none"
    assert tell(judge_logged(run, silent, RULES, dataset_size=41, least_seconds=1)) == []
    (false,) = judge_logged(run, GOOD, RULES, dataset_size=4, least_seconds=1)
    text = "the client reports super-passes of 192 samples, the dataset has 4"
    assert false == PointFinding("steady-state-consistency", Gravity.INVALID, text)
