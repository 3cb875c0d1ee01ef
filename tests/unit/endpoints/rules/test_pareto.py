from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from reconciler.diff.timeline import CurvePoint
from reconciler.endpoints.rules.pareto import make_curve, read_recorded_point
from reconciler.endpoints.rules.point import Distribution
from tests.unit.endpoints.rules.good_point import RAN


def point(concurrency: int, per_user: int, system: int) -> CurvePoint:
    return CurvePoint(concurrency, Decimal(per_user), Decimal(system))


def test_a_point_without_rate_per_user_is_not_drawn() -> None:
    assert make_curve([replace(RAN, tpot=Distribution())]).points == ()


@pytest.mark.parametrize(
    ("figures", "drawn"),
    [
        ({"tps_per_user": "50", "ttft_p90_ms": "120.5"}, CurvePoint(8, Decimal(50), Decimal(400), Decimal("120.5"))),
        ({"tps_per_user": "50", "ttft_p90_ms": None}, CurvePoint(8, Decimal(50), Decimal(400))),
        ({"tps_per_user": "50"}, CurvePoint(8, Decimal(50), Decimal(400))),
        ({"tps_per_user": None, "ttft_p90_ms": "120.5"}, None),
        ({}, None),
    ],
    ids=["whole", "no first token", "none told", "no rate per user", "nothing"],
)
def test_a_recorded_point_is_drawn_where_it_has_a_rate_per_user(
    figures: dict[str, object], drawn: CurvePoint | None
) -> None:
    assert read_recorded_point(8, figures, "400") == drawn
