from __future__ import annotations

from decimal import Decimal

from reconciler.diff.timeline import CurvePoint, find_dominated
from reconciler.endpoints.rules.pareto import ParetoCurve
from reconciler.endpoints.views.charts import chart_curves
from reconciler.render.charts import Stroke

_POINTS = (
    CurvePoint(1, Decimal(100), Decimal(10), Decimal(5)),
    CurvePoint(8, Decimal(60), Decimal(50), Decimal(9)),
    CurvePoint(16, Decimal(50), Decimal(40), None),
    CurvePoint(64, Decimal(20), Decimal(90), Decimal(70)),
)
_CURVE = ParetoCurve(_POINTS, Decimal(95), find_dominated(_POINTS))


def test_the_official_line_steps_over_points_that_no_other_beats() -> None:
    chart = chart_curves("pareto", {"box": _CURVE})
    line, points, crosses, offline = chart.curves
    assert line.points == ((100, 10), (60, 10), (60, 50), (20, 50), (20, 90))
    assert points.points == ((100, 10), (60, 50), (20, 90))
    assert (crosses.label, crosses.points, crosses.stroke) == ("dominated", ((50, 40),), Stroke.CROSSES)
    assert (offline.label, offline.points) == ("Offline", ((20, 95), (100, 95)))
    assert chart.rows[2] == ("box", "16", "50", "40", "", "yes")
    assert chart.summary == "box: 4 points, 1 of them dominated, at most 95 tokens/s; Offline 95."


def test_over_concurrency_points_without_a_value_are_left_out() -> None:
    line, points = chart_curves("ttft", {"box": _CURVE}).curves
    assert points.points == ((1, 5), (8, 9), (64, 70))
    assert line.points == ((1, 5), (8, 5), (8, 9), (64, 9), (64, 70))
