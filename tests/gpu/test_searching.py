"""How the highest rate is found: with a device that holds up to a share, and less for longer. Needs no GPU."""

from __future__ import annotations

import pytest

from tests.gpu.searching import RESOLUTION, find_highest, highest


@pytest.mark.parametrize("limit", [1.2, 1.0, 0.955, 0.92, 0.9, 0.85, 0.7, 0.4, 0.2])
def test_what_holds_is_found_within_the_resolution(limit: float) -> None:
    runs: list[float] = []

    def holds(share: float) -> bool:
        runs.append(share)
        return share <= limit

    found = highest(holds, lambda share: share <= limit)
    assert found <= limit
    assert found > min(limit, 1.05) - 2 * RESOLUTION or limit > 1.05
    assert len(runs) < 14


def test_what_is_not_confirmed_is_lowered_until_it_is() -> None:
    confirmed: list[float] = []

    def confirms(share: float) -> bool:
        confirmed.append(share)
        return share <= 0.9

    found = highest(lambda share: share <= 0.96, confirms)
    assert found == confirmed[-1] <= 0.9
    assert all(share > 0.9 for share in confirmed[:-1])
    assert found > 0.9 - RESOLUTION


def test_nothing_holds() -> None:
    assert highest(lambda _: False, lambda _: False) == 0
    assert highest(lambda _: True, lambda _: False) == 0


@pytest.mark.parametrize(("seconds", "again"), [(10, True), (30, False)])
def test_a_rate_is_tried_again_only_for_longer_than_before(seconds: float, again: bool) -> None:
    runs: list[tuple[float, float]] = []

    def serve(rate: float, lasting: float) -> dict[str, str]:
        runs.append((rate, lasting))
        return {"verdict": "VALID" if rate <= 90 else "INVALID"}

    found = find_highest(serve, 100, seconds=seconds, confirming=30, first=0.9, step=0.04, resolution=0.04)
    assert found["highest_valid_qps"] == 90
    assert runs == [(90, seconds), (94, seconds), *([(90, 30)] if again else [])]
