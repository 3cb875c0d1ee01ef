"""The view of a curve: what lacks in each region, which points are beaten, and the row of the matrix."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from reconciler.diff.timeline import CurvePoint, find_dominated
from reconciler.endpoints.rules.pareto import ParetoCurve
from reconciler.endpoints.views.page import arrange_curve, chart_curves, draw_curve, sum_up_curve

NAME = "standardized/box/oss"


def make_point(concurrency: int, per_user: str, rate: str, ttft: str | None) -> dict[str, Any]:
    return {"concurrency": concurrency, "per_user": per_user, "system_tps": rate, "ttft_p90_ms": ttft}


def make_document() -> dict[str, Any]:
    bands = [
        {"title": "Low", "first": 2, "last": 5, "declared": [2, 5], "measured": [2]},
        {"title": "Medium", "first": 6, "last": 17, "declared": [], "measured": []},
        {"title": "High", "first": 18, "last": 64, "declared": [64], "measured": [64]},
    ]
    curve = {
        "curve": NAME,
        "max_concurrency": 64,
        "declared": [2, 5, 64],
        "measured": [2, 64],
        "bands": bands,
        "dominated": [64],
        "denser": [9, 12],
        "seconds": 600.0,
        "offline": 192,
        "ceiling": None,
        "agentic": False,
        "points": [make_point(2, "80", "160.5", "30"), make_point(64, "10", "150", None)],
    }
    cells = [{"cell": f"{NAME}/c{n}", "ready": n != 5, "validity": "VALID", "marks": ["rehearsal"]} for n in (2, 5, 64)]
    return {"curves": [curve], "cells": cells, "looked": "now"}


def test_a_region_reports_what_it_lacks() -> None:
    bands = arrange_curve(make_document(), NAME)["bands"]
    words = [("maybe", "not measured: 5"), ("no", "no point"), ("ok", "measured")]
    assert [(band["kind"], band["word"]) for band in bands] == words


def test_a_dedicated_offline_run_is_the_ceiling_of_its_curve() -> None:
    document = make_document()
    assert arrange_curve(document, NAME)["offline"] == {"cell": f"{NAME}/c192", "rate": "not measured yet"}
    document["curves"][0]["ceiling"] = "200"
    found = arrange_curve(document, NAME)
    assert found["offline"]["rate"] == "200 tokens/s"
    ceiling = found["charts"][0].curves[-1]
    assert (ceiling.label, ceiling.points) == ("Offline", ((10, 200), (80, 200)))
    assert sum_up_curve(document["curves"][0], [])["metric"] == "at most 200 tokens/s"


def test_the_axis_of_an_agentic_curve_counts_completed_turns() -> None:
    curve = make_document()["curves"][0]
    axes = [draw_curve({**curve, "agentic": agentic})[0].across for agentic in (False, True)]
    assert axes == ["tokens/s per user", "tokens/s across completed turns"]


def test_a_curve_without_a_measured_point_has_no_plots() -> None:
    curve = make_document()["curves"][0]
    assert [chart.name for chart in draw_curve(curve)] == ["pareto", "ttft", "scaling"]
    assert draw_curve({**curve, "points": []}) == ()


def test_a_curve_is_ready_where_all_its_points_are() -> None:
    states = ["ready", "stale", "stale", "unmeasured"]
    row = sum_up_curve(make_document()["curves"][0], [{"state": state, "steps": 1} for state in states])
    assert (row["state"], row["metric"], row["steps"]) == ("stale", "at most 160 tokens/s", 4)
    assert row["notes"] == "2 of 3 points; nothing measured in Medium"
    assert sum_up_curve(make_document()["curves"][0], [{"state": "ready", "steps": 0}] * 3)["state"] == "ready"


_POINTS = (
    CurvePoint(1, Decimal(100), Decimal(10), Decimal(5)),
    CurvePoint(8, Decimal(60), Decimal(50), Decimal(9)),
    CurvePoint(16, Decimal(50), Decimal(40), None),
    CurvePoint(64, Decimal(20), Decimal(90), Decimal(70)),
)
_CURVE = ParetoCurve(_POINTS, Decimal(95), find_dominated(_POINTS))


def test_over_concurrency_points_without_a_value_are_left_out() -> None:
    line, points = chart_curves("ttft", {"box": _CURVE}).curves
    assert points.points == ((1, 5), (8, 9), (64, 70))
    assert line.points == ((1, 5), (8, 5), (8, 9), (64, 9), (64, 70))
