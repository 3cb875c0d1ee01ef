"""Windows of made-up super-passes: each course is one on which a slip in the ramp, in a stretch, in its scatter or in
its length would find another window."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from reconciler.rules.endpoints_program.point import SteadyWindow
from reconciler.rules.endpoints_program.rules import load_endpoints_rules
from reconciler.rules.endpoints_program.steadiness import PLATEAU, SuperPass, find_window

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
