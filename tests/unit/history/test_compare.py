"""Comparing: what is matched with what, and the ratio for one accelerator."""

from __future__ import annotations

from decimal import Decimal

import pytest

from reconciler.diff.timeline import Side
from reconciler.history.compare import compare
from reconciler.render.timeline import render_comparison_text
from reconciler.resource.kinds import Cell
from reconciler.rules.endpoints_program.pareto import CurvePoint


def side(
    system: str, scenario: str, value: str, count: int, unit: str = "samples/s", accelerator: str = ""
) -> dict[Cell, Side]:
    cell = Cell("closed", system, "resnet", scenario)
    return {cell: Side(cell, value, unit, "VALID", count, accelerator)}


def test_compare_matches_other_systems_by_benchmark_and_scenario() -> None:
    one = side("small", "Offline", "100", 4) | side("small", "Server", "90", 4)
    found = compare(("a", "b"), one, side("large", "Offline", "400", 8))
    (pair,) = found.pairs
    assert pair.ratio == 4.0
    assert pair.per_accelerator == 2.0
    assert [str(cell) for cell in found.alone["a"]] == ["closed/small/resnet/Server"]
    assert found.alone["b"] == ()


def test_compare_prefers_the_very_same_cell() -> None:
    both = side("small", "Offline", "100", 4) | side("large", "Offline", "300", 8)
    assert [pair.ratio for pair in compare(("a", "b"), both, both).pairs] == [1.0, 1.0]


def test_points_are_in_the_order_of_their_concurrency_whatever_a_record_calls_others() -> None:
    scenarios = ("c10", "c2", "Offline", "c²", f"c{'9' * 5000}")
    both = {cell: known for name in scenarios for cell, known in side("box", name, "1", 1).items()}
    order = [pair.one.cell.scenario for pair in compare(("a", "b"), both, both).pairs]
    assert order[-2:] == ["c2", "c10"]
    assert sorted(order) == sorted(scenarios)


def test_compare_when_several_systems_fit_takes_those_with_the_same_accelerators() -> None:
    one = side("old8", "Offline", "100", 8, accelerator="H100") | side("old1", "Offline", "13", 1, accelerator="H100")
    other = (
        side("new1", "Offline", "14", 1, accelerator="H100")
        | side("new8", "Offline", "110", 8, accelerator="H100")
        | side("big8", "Offline", "150", 8, accelerator="H200")
    )
    found = compare(("a", "b"), one, other)
    assert [(pair.one.cell.system, pair.other.cell.system) for pair in found.pairs] == [
        ("old1", "new1"),
        ("old8", "new8"),
    ]
    assert [cell.system for cell in found.alone["b"]] == ["big8"]
    text = render_comparison_text(found).splitlines()
    assert text[0].startswith("system")
    assert text[1].startswith("closed/old1 / closed/new1  resnet")


@pytest.mark.parametrize(("unit", "count"), [("ms", 8), ("samples/s", 0)])
def test_compare_when_no_ratio_for_one_accelerator_makes_sense(unit: str, count: int) -> None:
    one, other = side("a", "SingleStream", "2", 4, unit), side("b", "SingleStream", "1", count, unit)
    (pair,) = compare(("a", "b"), one, other).pairs
    assert (pair.ratio, pair.per_accelerator) == (0.5, None)


def make_curve(benchmark: str, *points: tuple[int, str, str]) -> dict[Cell, Side]:
    """(concurrency, tokens a second per user, tokens a second) of each point."""
    found = {}
    for concurrency, per_user, rate in points:
        cell = Cell("standardized", "box", benchmark, f"c{concurrency}")
        point = CurvePoint(concurrency, Decimal(per_user), Decimal(rate), Decimal("12.5"))
        found[cell] = Side(cell, rate, "tokens/s", "VALID", entered="gpt-oss-120b", point=point)
    return found


def test_curves_are_compared_by_the_points_that_none_of_their_own_beats() -> None:
    one = make_curve("oss", (1, "100", "10"), (8, "40", "8"), (16, "50", "40"), (100, "20", "90"))
    other = make_curve("renamed", (1, "110", "9"), (16, "60", "50"), (100, "18", "80"))
    found = compare(("a", "b"), one, other)
    assert [pair.one.cell.scenario for pair in found.pairs] == ["c1", "c16", "c100"]
    (curves,) = found.curves
    assert (curves.points, curves.beaten) == ((3, 3), ((16,), (100,)))
    assert curves.ratio == pytest.approx(80 / 90)
    text = render_comparison_text(found)
    assert "90 tokens/s, 20 a user, TTFT P90 12.5 ms" in text
    assert "  b beats 1 of the 3 points of a that none of its own beats: 16" in text


def test_a_curve_is_no_better_than_itself() -> None:
    one = make_curve("oss", (1, "100", "10"), (8, "40", "8"), (16, "50", "40"))
    assert compare(("a", "b"), one, one).curves[0].beaten == ((), ())
