from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.endpoints.rules.event_log import LoggedRequest, LoggedRun
from reconciler.endpoints.rules.judge import (
    PointFinding,
    classify_window,
    find_differences,
    find_least_seconds,
    judge_agentic,
    judge_logged,
    judge_point,
)
from reconciler.endpoints.rules.point import AccuracyScore, Distribution, MeasuredPoint, SteadyWindow, Warmup
from reconciler.resource.rules import Severity
from tests.unit.endpoints.rules.good_point import GOOD, REGIONS, RULES, WINDOW


def found(point: MeasuredPoint, **options: Any) -> dict[str, Severity]:
    return {item.rule: item.severity for item in judge_point(point, RULES, REGIONS, **options)}


def test_a_good_point_has_no_finding() -> None:
    assert not found(GOOD, dataset_size=192)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"failed": 1, "completed": 191}, "failed-samples"),
        ({"completed": 190}, "metric-consistency-accounting"),
        ({"finished": False}, "run-complete"),
        ({"load_pattern": "poisson"}, "load-pattern"),
        ({"concurrency": 72}, "concurrency-in-range"),
        ({"duration_ns": 599 * 10**9}, "point-duration"),
        ({"output_tokens": 0}, "metric-consistency-output-tokens"),
        ({"tpot": Distribution()}, "metric-consistency-tpot-p90"),
        ({"streaming": False}, "streaming-config"),
        ({"warmup": Warmup(10, salt=False, concurrency=5)}, "warmup-salt"),
        ({"issued": 200, "completed": 200}, "whole-passes"),
        ({"issued": 96, "completed": 96}, "min-query-count"),
    ],
)
def test_what_the_client_does_not_enforce_is_found(change: dict[str, Any], rule: str) -> None:
    assert found(replace(GOOD, **change), dataset_size=192)[rule] is Severity.ERROR


def test_a_short_window_in_a_long_run_is_a_warning() -> None:
    window = replace(GOOD.window or SteadyWindow(False), seconds=Decimal(500))
    assert found(replace(GOOD, window=window)) == {
        "point-duration": Severity.WARNING,
        "steady-state-basis": Severity.WARNING,
    }


def test_a_run_without_window_falls_back_to_the_whole_run() -> None:
    assert found(replace(GOOD, window=None)) == {"steady-state-basis": Severity.WARNING}


def test_an_offline_run_has_no_latency_and_no_steady_state() -> None:
    offline = replace(GOOD, load_pattern="max_throughput", concurrency=192, streaming=False, window=None)
    offline = replace(offline, tpot=Distribution(), duration_ns=1300 * 10**9)
    assert not found(offline, dataset_size=192)
    assert found(replace(offline, duration_ns=1100 * 10**9)) == {"point-duration": Severity.ERROR}


def test_any_difference_to_what_was_asked_is_found() -> None:
    assert not list(find_differences(GOOD, 5, "concurrency", "tiny", 1000))
    assert not list(find_differences(GOOD, 5, "concurrency", "", 0))
    assert list(find_differences(replace(GOOD, model=""), 6, "agentic_inference", "big", 2000)) == [
        "concurrency: asked for 6, the client ran 5",
        "load pattern: asked for agentic_inference, the client ran concurrency",
        "model: asked for big, the client ran nothing",
        "min_duration_ms: asked for 2000, the client ran 1000",
    ]


SECOND = 10**9


def report(findings: Any) -> list[tuple[str, str, str]]:
    return [(found.rule, found.severity.value, found.text) for found in findings]


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
    reported = [("min-query-count", "error", f"{completed} samples completed, one pass has {needed}")] if needed else []
    assert report(judge_point(point, RULES, REGIONS, dataset_size=size)) == reported
    short = report(judge_point(point, RULES.shorten(1), REGIONS, dataset_size=size))
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
    assert point.is_agentic is (change.get("load_pattern") == "agentic_inference")


_BARS = Decimal("58.32"), Decimal(425), Decimal(520)


@pytest.mark.parametrize(
    ("score", "tokens", "said"),
    [
        ("0.5832", 425, {}),
        ("0.5831", 520, {"agentic-accuracy-inline": Severity.ERROR}),
        (None, 520, {"agentic-accuracy-inline": Severity.ERROR}),
        ("0.6", "424.9", {"agentic-osl-range": Severity.ERROR}),
        ("0.6", "520.1", {"agentic-osl-range": Severity.ERROR}),
        ("0.6", None, {"agentic-osl-range": Severity.WARNING}),
    ],
)
def test_the_answers_of_an_agent_are_judged_at_each_point(
    score: str | None, tokens: object, said: dict[str, Severity]
) -> None:
    scores = (AccuracyScore("performance", inline=True, scores={"score": Decimal(score)}),) if score else ()
    turns = None if tokens is None else Decimal(str(tokens))
    point = replace(GOOD, load_pattern="agentic_inference", accuracy=scores, turn_tokens=turns)
    assert {item.rule: item.severity for item in judge_agentic(point, *_BARS)} == said
    assert "agentic-osl-range" not in {item.rule for item in judge_agentic(point, None, None, None)}


@pytest.mark.parametrize(("played", "broken"), [(20, False), (10, False), (15, True)])
def test_conversations_are_played_in_whole_passes(played: int, broken: bool) -> None:
    """The samples of such a run are turns, of which there is no whole number of passes."""
    point = replace(GOOD, load_pattern="agentic_inference", trajectories=played, issued=77, completed=77)
    assert ("whole-passes" in found(point, dataset_size=10)) is broken


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"last": 3}, ("windowable", "STEADY STATE")),
        ({"last": 0}, ("insufficient_passes", "STEADY STATE")),
        ({"super_pass_size": 0}, ("partial_dataset", "not found")),
        ({"last": -1}, ("partial_dataset", "not found")),
        ({"seconds": Decimal(600)}, ("windowable", "STEADY STATE")),
        ({"seconds": Decimal(599)}, ("insufficient_duration", "STEADY STATE")),
        ({"seconds": None}, ("insufficient_duration", "STEADY STATE")),
        ({"found": False, "anomaly": "shift", "states": {"tpot": "Drifting Up"}}, ("insufficient_passes", "not found")),
        ({"anomaly": "shift", "states": {"tpot": "Drifting Up"}}, ("insufficient_duration", "anomaly")),
        ({"states": {"tpot": "Drifting Down", "ttft": "Drifting Up"}}, ("insufficient_duration", "drifting_up")),
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


def test_the_steady_state_of_the_events_is_reported_or_checked_against_the_client() -> None:
    run, silent = logged(40, 5), replace(GOOD, window=None)
    shown = "looked for in the run's events, the steady state is"
    (found,) = judge_logged(run, silent, RULES, dataset_size=4, least_seconds=1)
    assert found == PointFinding("steady-state-basis", Severity.WARNING, f"{shown} 35.0 s from super-pass 1 to 9")
    (none,) = judge_logged(run, silent, RULES, dataset_size=20, least_seconds=1)
    assert none.text == f"{shown} none"
    assert report(judge_logged(run, silent, RULES, dataset_size=41, least_seconds=1)) == []
    (false,) = judge_logged(run, GOOD, RULES, dataset_size=4, least_seconds=1)
    text = "the client reports super-passes of 192 samples, the dataset has 4"
    assert false == PointFinding("steady-state-consistency", Severity.ERROR, text)
