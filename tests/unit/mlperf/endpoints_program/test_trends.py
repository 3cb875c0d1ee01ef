"""Trends at the edge of what is certain: each course is one on which a slip in the test of Mann and Kendall, in its
correction after Hamed and Rao, or in the least drift would decide otherwise."""

from __future__ import annotations

import pytest

from reconciler.rules.endpoints_program.steadiness import DOWN, PLATEAU, UP, find_trend

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
def test_a_trend_is_told_where_it_is_certain(course: list[float], state: str) -> None:
    assert find_trend(course, 0.05) == state
    larger = [value * 1000 for value in course]
    assert find_trend(larger, 0.05) == state  # in whatever unit


@pytest.mark.parametrize("change", [4.9, 5.0, 5.1])
def test_a_certain_trend_is_told_from_a_twentieth_of_the_median_on(change: float) -> None:
    """From end to end of the line that fits best."""
    course = [100 - change / 2 + change * n / 10 for n in range(11)]
    up, down = find_trend(course, 0.05), find_trend(course[::-1], 0.05)
    assert (up, down) == ((UP, DOWN) if change > 4.95 else (PLATEAU, PLATEAU))
    assert OPPOSITE[up] == down


@pytest.mark.parametrize(("step", "state"), [(0.007, UP), (-0.007, DOWN), (0.0049, PLATEAU)])
def test_a_trend_around_zero_is_held_against_one(step: float, state: str) -> None:
    assert find_trend([step * (n - 5) for n in range(11)], 0.05) == state
