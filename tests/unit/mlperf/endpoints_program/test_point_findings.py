"""Each finding about a measured point: its words, its weight, and the values on both sides of its limit."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.rules.endpoints_program.event_log import LoggedRequest, LoggedRun
from reconciler.rules.endpoints_program.judge import (
    Gravity,
    PointFinding,
    classify_window,
    find_least_seconds,
    is_agentic,
    judge_logged,
    judge_point,
)
from tests.unit.mlperf.endpoints_program.good_point import GOOD, REGIONS, RULES, WINDOW

SECOND = 10**9


def tell(findings: Any) -> list[tuple[str, str, str]]:
    return [(found.rule, found.weight.value, found.text) for found in findings]


def window(**changes: Any) -> dict[str, Any]:
    return {"window": replace(WINDOW, **changes)}


@pytest.mark.parametrize(
    ("dataset", "size", "completed", "needed"),
    [
        ("tiny", 0, 1, 0),
        ("tiny", 192, 192, 0),
        ("tiny", 192, 191, 192),
        ("aime25", 0, 30, 0),
        ("aime25", 0, 29, 30),
        ("aime25::preset", 10, 29, 30),
        ("aime25", 29, 29, 30),
    ],
)
def test_a_point_has_as_many_queries_as_its_dataset_needs(dataset: str, size: int, completed: int, needed: int) -> None:
    point = replace(GOOD, dataset=dataset, completed=completed, issued=0)
    told = [("min-query-count", "invalid", f"{completed} samples completed, one pass has {needed}")] if needed else []
    assert tell(judge_point(point, RULES, REGIONS, dataset_size=size)) == told
    short = tell(judge_point(point, RULES.shorten(1), REGIONS, dataset_size=size))
    assert [text for rule, _, text in short if rule == "min-query-count"] == (
        [f"{completed} samples completed, one pass has {size}"] if completed < size else []
    )


@pytest.mark.parametrize(
    ("change", "concurrency", "least"),
    [
        ({}, 1, 600),
        ({}, 32, 600),
        ({}, 33, 1200),
        ({"load_pattern": "agentic_inference"}, 32, 600),
        ({"load_pattern": "agentic_inference"}, 33, 2400),
        ({"load_pattern": "max_throughput"}, 1, 1200),
        ({}, 72, 0),
    ],
)
def test_a_point_lasts_as_long_as_its_region_needs(change: dict[str, Any], concurrency: int, least: int) -> None:
    point = replace(GOOD, concurrency=concurrency, **change)
    assert find_least_seconds(point, RULES, REGIONS) == least
    assert is_agentic(point, RULES) is (change.get("load_pattern") == "agentic_inference")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"last": 3}, ("windowable", "STEADY STATE")),
        ({"last": 0}, ("insufficient_passes", "STEADY STATE")),
        ({"super_pass_size": 0}, ("partial_dataset", "not found")),
        ({"seconds": Decimal(600)}, ("windowable", "STEADY STATE")),
        ({"found": False, "anomaly": "shift", "states": {"tpot": "Drifting Up"}}, ("insufficient_passes", "not found")),
        ({"anomaly": "shift", "states": {"tpot": "Drifting Up"}}, ("insufficient_duration", "anomaly")),
        (
            {"states": {"tpot": "Drifting Down", "ttft": "Drifting Up"}},
            ("insufficient_duration", "drifting_up"),
        ),
        ({"states": {"tpot": "Drifting Down", "ttft": "Plateau"}}, ("insufficient_duration", "drifting_down")),
    ],
    ids=str,
)
def test_a_window_has_the_status_of_its_first_shortcoming(change: dict[str, Any], status: tuple[str, str]) -> None:
    assert classify_window(replace(WINDOW, **change), 600, RULES) == status


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
