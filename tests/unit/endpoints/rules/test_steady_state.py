"""The steady state as the events of a run show it, and what the client claims of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.endpoints.rules.curve_rules import load_endpoints_rules
from reconciler.endpoints.rules.event_log import LoggedRequest, LoggedRun, parse_events
from reconciler.endpoints.rules.point import SteadyWindow
from reconciler.endpoints.rules.steady_state import (
    DOWN,
    PLATEAU,
    UP,
    SuperPass,
    find_false_claims,
    find_trend,
    find_window,
    roll_up,
)
from tests.unit.endpoints.rules.logs import make_events, write_lines

_RULES = load_endpoints_rules()
_SIZE = 8


def make_passes(levels: Sequence[float]) -> tuple[SuperPass, ...]:
    """A level of TPOT in ms for each super-pass, with as much noise as a quiet server has."""
    noise = random.Random(7)
    paces = [level * noise.uniform(0.98, 1.02) for level in levels for _ in range(_SIZE)]
    return roll_up(parse_events(write_lines(make_events(paces))), _SIZE)


@pytest.mark.parametrize(
    ("course", "state"),
    [
        ([1, 1, 1, 1], PLATEAU),
        ([10, 10.1, 9.9, 10, 10.05, 9.97], PLATEAU),
        ([1, 2, 3, 4, 5, 6], UP),
        ([1, 2, 3, 4, 5], UP),
        ([5, 4, 3, 2, 1], DOWN),
        ([1, 2, 3, 4], PLATEAU),  # too few to be certain
        ([1, 2, 3, 5, 6, 4], PLATEAU),  # by one pair
        ([6, 5, 4, 3, 2, 1], DOWN),
        (range(10, 22), UP),  # ranks that follow each other make it 2.1 times as uncertain: z is 3.1, not 4.5
        ([10, 12, 11, 13, 12, 14, 13, 15, 14, 16, 15, 17], UP),
        ([100, 100.1, 100.2, 100.3, 100.4, 100.5], PLATEAU),  # certain, and too small to matter
        ([1, 9, 2, 8, 1, 9, 2, 8], PLATEAU),
    ],
)
def test_a_trend_is_significant_and_large(course: Sequence[float], state: str) -> None:
    assert find_trend(course, 0.05) == state


@pytest.mark.parametrize(
    ("paces", "half", "most"),
    [([3], 3, 3), ([2, 1], 2, 2), ([4, 1, 3, 2], 3, 4), ([*range(1, 11)], 6, 10), ([*range(20, 0, -1)], 11, 19)],
)
def test_the_pace_of_a_super_pass_is_that_of_its_requests_by_rank(paces: list[int], half: int, most: int) -> None:
    """Requests of one chunk, or that failed before the first, have none."""
    requests = [LoggedRequest(n, first=10, done=10 + 2 * pace, chunks=2) for n, pace in enumerate(paces)]
    single, failed = LoggedRequest(50, first=60, done=60), LoggedRequest(51, failed=True)
    (found,) = roll_up(LoggedRun(0, (*requests, single, failed), 1), len(paces) + 2)
    assert found == SuperPass(0, 51, len(paces) + 1, {"tpot_p50": half, "tpot_p90": most})
    (still,) = roll_up(LoggedRun(0, (failed, single), 1), 2)
    assert still == SuperPass(51, 50, 1, {})


def test_the_ramp_is_no_part_of_the_window() -> None:
    passes = make_passes([20, 15, 12, *[10] * 7])
    window = find_window(passes, 0, _RULES)
    assert (window.found, window.first, window.last, window.samples) == (True, 3, 9, 7 * _SIZE)
    assert window.states == {"tpot_p50": PLATEAU, "tpot_p90": PLATEAU}
    assert window.skipped == 3
    issued = [item.first_issue for item in passes[3:]], [item.last_issue for item in passes[3:]]
    assert window.seconds == round(Decimal(max(issued[1]) - min(issued[0])) / 10**9, 3)


def test_a_run_that_drifts_has_none() -> None:
    window = find_window(make_passes([10 * 1.1**n for n in range(12)]), 0, _RULES)
    assert not window.found
    assert window.states == {"tpot_p50": UP, "tpot_p90": UP}


def test_of_two_levels_the_first_one_that_lasts_is_taken() -> None:
    passes = make_passes([*[10] * 18, *[60] * 6])
    assert find_window(passes, 0, _RULES).last == 17
    assert find_window(passes, 9, _RULES).first == 18


def test_a_dataset_of_unknown_size_has_no_super_pass() -> None:
    assert roll_up(LoggedRun(0, (LoggedRequest(1, first=2, done=3),), 1), 0) == ()


def test_fewer_than_four_super_passes_show_nothing() -> None:
    assert not find_window(make_passes([10, 10, 10, 10]), 0, _RULES).found  # the first one is always ramp
    assert roll_up(parse_events(write_lines(make_events([10] * 12))), _SIZE)[1:] == ()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_of_too_few_super_passes_only_the_first_is_ramp(count: int) -> None:
    assert find_window(make_passes([10] * count), 0, _RULES).skipped == 1


def test_super_passes_in_which_nothing_is_streamed_are_ramp() -> None:
    level = dict.fromkeys(("tpot_p50", "tpot_p90"), 1.0)
    passes = [SuperPass(n, n + 1, _SIZE, level if n >= 2 else {}) for n in range(10)]
    window = find_window(passes, 0, _RULES)
    assert (window.found, window.skipped, window.first, window.last) == (True, 2, 2, 9)
    assert find_window([replace(item, metrics={}) for item in passes], 0, _RULES).found is False


@pytest.mark.parametrize("kept", ["sample.recv_first", "sample.recv_non_first", ""])
def test_a_super_pass_of_answers_in_one_piece_has_no_pace(kept: str) -> None:
    events = [e for e in make_events([10] * _SIZE) if "recv" not in e["event_type"] or e["event_type"] == kept]
    (only,) = roll_up(parse_events(write_lines(events)), _SIZE)
    assert only.metrics == {}
    assert only.streamed == (_SIZE if kept == "sample.recv_first" else 0)


def test_hundreds_of_super_passes_are_judged_too() -> None:
    window = find_window(make_passes([10] * 200), 0, _RULES)
    assert window.found
    assert window.last > 190
    assert window.first == window.skipped > 1  # those that are taken together, of the ramp
    assert window.samples == (window.last + 1 - window.first) * _SIZE


def claim(**changes: Any) -> SteadyWindow:
    window = find_window(make_passes([10] * 9), 0, _RULES)
    return replace(window, first=0, last=window.last - window.first, skipped=window.first, **changes)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"found": False}, ""),
        ({"super_pass_size": _SIZE}, ""),
        ({"super_pass_size": 4}, "super-passes of 4 samples, the dataset has 8"),
        ({"samples": 65}, "a window of 65 samples, its super-passes have 64"),
        ({"seconds": Decimal(600)}, "a window of 600 s"),
    ],
)
def test_a_claim_is_checked_against_the_events(changes: dict[str, Any], problem: str) -> None:
    found = "; ".join(find_false_claims(claim(**changes), make_passes([10] * 9), _SIZE, _RULES))
    assert (problem in found) if problem else not found


@pytest.mark.parametrize(("part", "false"), [(1.0099, False), (1.0101, True), (0.9901, False), (0.9899, True)])
def test_a_claimed_length_may_be_off_by_a_hundredth(part: float, false: bool) -> None:
    honest = claim()
    assert honest.seconds is not None
    stated = replace(honest, seconds=honest.seconds * Decimal(str(part)))
    assert bool(find_false_claims(stated, make_passes([10] * 9), _SIZE, _RULES)) is false


def test_a_window_beyond_the_run_or_over_a_drift_is_false() -> None:
    beyond = replace(claim(), last=40)
    assert find_false_claims(beyond, make_passes([10] * 9), _SIZE, _RULES) == [
        "a window up to super-pass 41, the run has 9 whole ones"
    ]
    drifting = make_passes([10 * 1.1**n for n in range(9)])
    (found,) = find_false_claims(replace(claim(), seconds=None), drifting, _SIZE, _RULES)
    assert found == "a steady state, while tpot_p50 and tpot_p90 drifts in its window"


SECOND = 10**9
Level = float | tuple[float, float] | None  # TPOT at P50 and P90; None where nothing was streamed
Case = tuple[list[Level], float, tuple[int, int] | None, int, tuple[str, str] | None]
# Levels, seconds needed, the window found, super-passes of the ramp, the states of P50 and P90.
CASES: tuple[Case, ...] = (
    ([(150, 160), (152, 172), 100, (99, 119), 99, (99, 104), 100, 102, (99, 109)], 0, (2, 8), 2, (PLATEAU, PLATEAU)),
    ([(20, 60), (20, 30), 22, 20, 24, 20, 20, (34, 74)], 6, (2, 6), 2, (PLATEAU, PLATEAU)),
    ([], 6, None, 0, None),
    ([100, 900, *[100] * 9], 0, (2, 10), 1, (PLATEAU, PLATEAU)),
    ([(100, 110), 100, 100], 5, None, 1, None),
    ([29, 32, (31, 36), 22, (19, 59), 22, (19, 59), (22, 42), 21, (20, 25)], 4, None, 3, (PLATEAU, PLATEAU)),
    ([105, 100, 102, (104, 114), (106, 116), (100, 120), 102, 101, (104, 124), 106], 4, (1, 4), 1, (PLATEAU, PLATEAU)),
    ([100, (100, 140), 104, (100, 120), 108, 110, (112, 117)], 8, (2, 6), 2, (PLATEAU, PLATEAU)),
    (
        [100, 103, 100, 102, (103, 113), (100, 120), (102, 112), (131, 171), (102, 122), (132, 152), 161, 102],
        4.9,
        None,
        6,
        (PLATEAU, PLATEAU),
    ),
    ([(25, 45), 22, (25, 45), 20, 22, 22, 25, (24, 29), None, 20, 20, 25], 5, None, 1, None),
    ([(149, 189), 149, 102, (102, 112), 101, 102], 6, (2, 5), 2, (PLATEAU, PLATEAU)),
    ([31, 22, (19, 59), (30, 50), 19, 21, 20, (20, 40), 20, (20, 30), 19], 6, None, 2, (PLATEAU, PLATEAU)),
    ([100, (101, 121), (100, 120), None], 3, None, 2, None),
    ([100, 100, 100, (100, 120), 108, 110, 106, (100, 140), 100, 100], 4.9, (1, 6), 1, (PLATEAU, PLATEAU)),
    (
        [(102, 122), (106, 111), (102, 107), 108, 104, 102, (104, 114), (105, 115), 100],
        6,
        (1, 8),
        1,
        (PLATEAU, PLATEAU),
    ),
)


def make(levels: Sequence[Level]) -> tuple[SuperPass, ...]:
    """One a second, of which 0.9 s pass from the first to the last request; three of the requests are streamed."""
    pairs = [level if isinstance(level, tuple) or level is None else (level, level) for level in levels]
    metrics = [{} if pair is None else {"tpot_p50": pair[0], "tpot_p90": pair[1]} for pair in pairs]
    return tuple(SuperPass(n * SECOND, n * SECOND + 9 * SECOND // 10, 3, each) for n, each in enumerate(metrics))


@pytest.mark.parametrize(("levels", "least", "window", "ramp", "states"), CASES, ids=range(len(CASES)))
def test_a_window_is_the_first_steady_stretch_that_lasts(
    levels: list[Level], least: int, window: tuple[int, int] | None, ramp: int, states: tuple[str, str] | None
) -> None:
    reported = {"states": dict(zip(("tpot_p50", "tpot_p90"), states or (), strict=False)), "skipped": ramp}
    wanted = SteadyWindow(found=False, **reported)
    if window is not None:
        first, last = window
        count = last - first + 1
        span: dict[str, Any] = {"samples": 3 * count, "seconds": Decimal(str(round(count - 0.1, 3)))}
        wanted = SteadyWindow(True, first, last, **span, **reported)
    assert find_window(make(levels), least, _RULES) == wanted  # type: ignore[arg-type]


COURSES: tuple[tuple[list[float], str], ...] = (
    ([100, 101, 102, 106, 104, 102.5, 106, 103.5, 104, 118], UP),
    ([11, 10, 11, 11, 12, 11, 11, 12, 13, 12], PLATEAU),
    ([11, 12, 13, 12, 13, 14, 13, 14], UP),
    ([11, 12, 12, 13, 14, 14, 15, 14, 15, 14, 15, 14, 15], UP),
    ([2, 0, 0, 1, -4, 1, 0], PLATEAU),
    ([100, 100.5, 101, 103, 108, 102.5, 106], UP),
    ([100, 100.5, 102, 103, 104], PLATEAU),
    ([100, 100.5, 104, 101.5, 102, 105, 106], UP),
    ([5, 8, 5, 9, 3, 10, 6, 3, 9, 1, 7], PLATEAU),
    ([11, 11, 12, 12, 13, 13, 14, 15, 15, 15, 14, 13], PLATEAU),
    ([4, 3, 2, 1, 1], DOWN),
    ([100, 100.5, 101, 103, 102, 105], PLATEAU),
    ([11, 12, 11, 12, 13, 14, 15, 16, 16, 16, 16, 16, 15], PLATEAU),
    ([10, 10, 10, 11, 12, 13, 14, 13, 14, 13], UP),
    ([11, 10, 10, 11, 10, 9, 10, 10], PLATEAU),
    ([10, 9, 5, 3, 13, 9, 2, 5, 8, 5, 8, 8, 2], DOWN),
    ([1, 8, 2, 5, 2, 4, 7, 1, 8, 3, 7], UP),
    ([100, 101, 104, 106, 102, 105, 106], PLATEAU),
    ([5, 5, 3, 6, 1, 6, 4], PLATEAU),
    ([100, 101, 101, 103, 104, 105], UP),
    ([5, 7, 6, 5, 3, 7, 2, 8, 4], PLATEAU),
    ([100, 100.5, 102, 101.5, 108, 102.5, 112, 107, 104, 104.5, 105, 105.5], UP),
    ([100, 102, 101, 103, 104, 105, 112, 103.5, 104, 104.5], PLATEAU),
    ([100, 101, 104, 103, 102, 105, 106], PLATEAU),
    ([1, 5, 10, 6, 1, 11, 7, 7, 9, 17, 9], UP),
    ([11, 10, 9, 8, 9, 10, 11, 12, 13, 14, 13], PLATEAU),
    ([10, 11, 12, 13, 13, 12, 11, 12, 12, 12, 13, 14, 15, 16], UP),
    ([6, 8, 12, 3, 13, 8, 13, 2, 10, 4, 22, 9, 10, 8], PLATEAU),
    ([11, 12, 11, 11, 12, 11, 12, 13, 14, 13, 14, 13], UP),
)
OPPOSITE = {UP: DOWN, DOWN: UP, PLATEAU: PLATEAU}


@pytest.mark.parametrize(("course", "state"), COURSES, ids=lambda value: "-".join(map(str, value))[:40])
def test_a_trend_is_reported_where_it_is_certain(course: list[float], state: str) -> None:
    assert find_trend(course, 0.05) == state
    larger = [value * 1000 for value in course]
    assert find_trend(larger, 0.05) == state  # in whatever unit


@pytest.mark.parametrize("change", [4.9, 5.0, 5.1])
def test_a_certain_trend_is_distinguished_from_a_twentieth_of_the_median_on(change: float) -> None:
    """From end to end of the line that fits best."""
    course = [100 - change / 2 + change * n / 10 for n in range(11)]
    up, down = find_trend(course, 0.05), find_trend(course[::-1], 0.05)
    assert (up, down) == ((UP, DOWN) if change > 4.95 else (PLATEAU, PLATEAU))
    assert OPPOSITE[up] == down


@pytest.mark.parametrize(("step", "state"), [(0.007, UP), (-0.007, DOWN), (0.0049, PLATEAU)])
def test_a_trend_around_zero_is_checked_against_one(step: float, state: str) -> None:
    assert find_trend([step * (n - 5) for n in range(11)], 0.05) == state
