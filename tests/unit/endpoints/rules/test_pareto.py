from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from reconciler.diff.timeline import CurvePoint, find_dominated
from reconciler.endpoints.rules.pareto import make_curve, read_recorded_point
from reconciler.endpoints.rules.point import Distribution
from tests.unit.endpoints.rules.good_point import RAN


def point(concurrency: int, per_user: int, system: int) -> CurvePoint:
    return CurvePoint(concurrency, Decimal(per_user), Decimal(system))


def test_a_point_is_dominated_by_one_that_is_better_on_one_axis_and_no_worse_on_the_other() -> None:
    points = [point(1, 100, 10), point(8, 60, 50), point(16, 60, 40), point(32, 50, 50), point(64, 20, 90)]
    assert find_dominated(points) == {16, 32}
    assert find_dominated([point(1, 5, 5), point(2, 5, 5)]) == set()


def test_a_dedicated_offline_run_is_a_ceiling_and_no_step() -> None:
    offline = replace(RAN, load_pattern="max_throughput", concurrency=192, output_tokens=10**6)
    curve = make_curve([offline, RAN])
    assert [p.concurrency for p in curve.points] == [5]
    assert curve.ceiling == curve.peak == offline.system_tps


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
    ids=["whole", "no first token", "none stated", "no rate per user", "nothing"],
)
def test_a_recorded_point_is_drawn_where_it_has_a_rate_per_user(
    figures: dict[str, object], drawn: CurvePoint | None
) -> None:
    assert read_recorded_point(8, figures, "400") == drawn


def test_an_agentic_curve_is_drawn_over_interactivity() -> None:
    played = replace(RAN, load_pattern="agentic_inference")
    (drawn,) = make_curve([played]).points
    assert drawn.per_user == played.interactivity
    assert make_curve([replace(played, failed=1)]).points == ()
