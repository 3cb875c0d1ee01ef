"""Windows of made-up super-passes: each course is one on which a slip in the ramp, in a stretch, in its scatter or in
its length would find another window."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from reconciler.rules.endpoints_program.point import SteadyWindow
from reconciler.rules.endpoints_program.rules import load_endpoints_rules
from reconciler.rules.endpoints_program.steadiness import PLATEAU, SuperPass, find_false_claims, find_window

RULES = load_endpoints_rules()
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
    told = {"states": dict(zip(("tpot_p50", "tpot_p90"), states or (), strict=False)), "skipped": ramp}
    wanted = SteadyWindow(found=False, **told)
    if window is not None:
        first, last = window
        count = last - first + 1
        span: dict[str, Any] = {"samples": 3 * count, "seconds": Decimal(str(round(count - 0.1, 3)))}
        wanted = SteadyWindow(True, first, last, **span, **told)
    assert find_window(make(levels), least, RULES) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("levels", "window", "ramp"),
    [
        ([100.0] * 96, (1, 95), 1),
        ([100.0] * 97, (2, 95), 2),  # two at a time, of which the last is without its pair
        ([*[100.0] * 96, 900.0], (2, 95), 2),
        ([100.0] * 98, (2, 97), 2),
        ([100.0] * 192, (2, 191), 2),
        ([100.0] * 193, (3, 191), 3),
        ([*[300.0] * 3, *[100.0] * 95], (4, 97), 4),
    ],
    ids=["as many as are tested", "one more", "the last is not looked at", "two more", "twice", "more", "a ramp"],
)
def test_many_super_passes_are_taken_together(levels: list[Level], window: tuple[int, int], ramp: int) -> None:
    found = find_window(make(levels), 0, RULES)
    assert (found.found, found.first, found.last, found.skipped) == (True, *window, ramp)
    count = window[1] - window[0] + 1
    assert (found.samples, found.seconds) == (3 * count, Decimal(str(round(count - 0.1, 3))))


LEVEL = make([100.0] * 10)
SIZE = 3


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({}, []),
        ({"super_pass_size": 0}, []),
        ({"super_pass_size": 4}, ["super-passes of 4 samples, the dataset has 3"]),
        ({"super_pass_size": 4, "found": False}, ["super-passes of 4 samples, the dataset has 3"]),
        ({"found": False, "last": 99}, []),
        ({"last": 0}, []),
        ({"last": 9, "samples": 0, "seconds": None}, []),
        ({"last": 10}, ["a window up to super-pass 10, the run has 10 whole ones"]),
        ({"skipped": 4, "last": 6}, ["a window up to super-pass 10, the run has 10 whole ones"]),
        ({"skipped": 4}, []),
        ({"samples": 0}, []),
        ({"samples": 14}, ["a window of 14 samples, its super-passes have 15"]),
        ({"seconds": None}, []),
        ({"seconds": Decimal("4.948")}, []),
        ({"seconds": Decimal("4.852")}, []),
        ({"seconds": Decimal("4.9495")}, ["a window of 4.9495 s, its requests were issued over 4.9 s"]),
        ({"seconds": Decimal("4.8505")}, ["a window of 4.8505 s, its requests were issued over 4.9 s"]),
    ],
    ids=str,
)
def test_a_claim_is_held_against_the_super_passes_that_it_names(claim: dict[str, Any], said: list[str]) -> None:
    base: dict[str, Any] = {"found": True, "first": 1, "last": 5, "super_pass_size": 3, "samples": 15}
    window = SteadyWindow(**{**base, "seconds": Decimal("4.9"), **claim})
    assert find_false_claims(window, LEVEL, SIZE, RULES) == said


def test_a_window_that_drifts_is_told_by_its_metrics() -> None:
    claim = SteadyWindow(True, 1, 8, 3)
    rising = [100.0 + 5 * n for n in range(10)]
    both, later = make(rising), make([(100.0, level) for level in rising])
    told = "drifts in its window"
    assert find_false_claims(claim, both, SIZE, RULES) == [f"a steady state, while tpot_p50 and tpot_p90 {told}"]
    assert find_false_claims(claim, later, SIZE, RULES) == [f"a steady state, while tpot_p90 {told}"]
    assert find_false_claims(SteadyWindow(True, 1, 3, 3), both, SIZE, RULES) == []  # too few to tell
    assert find_false_claims(SteadyWindow(True, 1, 3, 3, 8), both, SIZE, RULES) == [
        "a window of 8 samples, its super-passes have 9"
    ]
