"""Comparing: what is matched with what, and the ratio for one accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.desired.state import Desired
from reconciler.diff.timeline import STALE, CellChange, ChangeCause, CurvePoint, Side
from reconciler.history.compare import compare, compare_commits, read_sides
from reconciler.render.timeline import render_comparison_text
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.settings import SubmissionSettings, SystemSettings
from tests.unit.diff.simulated import Wish, World, desire


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


def test_cells_of_one_side_are_listed_below_its_name() -> None:
    one = side("old", "Offline", "13", 1)
    two = side("new", "Server", "14", 1) | side("new", "SingleStream", "14", 1)
    text = render_comparison_text(compare(("trees/a", "trees/b"), one, two)).splitlines()
    assert text[text.index("only in trees/b:") + 1 :] == [
        "  closed/new/resnet/Server",
        "  closed/new/resnet/SingleStream",
    ]
    assert text.count("only in trees/a:") == 1


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
    assert "90 → 80 tokens/s" in text
    assert "20 a user, TTFT P90 12.5 ms → 18 a user, TTFT P90 12.5 ms" in text
    assert "  b beats 1 of the 3 undominated points of a: 16" in text


def test_a_curve_is_no_better_than_itself() -> None:
    one = make_curve("oss", (1, "100", "10"), (8, "40", "8"), (16, "50", "40"))
    assert compare(("a", "b"), one, one).curves[0].beaten == ((), ())


NET, SERVER, OTHER = Wish(), Wish(scenario="Server"), Wish("a", data=1)


TIMED = Address(Kind.RUN, f"{NET.cell}/performance")


def commit(desired: Desired, world: World, values: Mapping[str, Any] | None = None, **systems: SystemSettings) -> Any:
    """``values``: of the record of each performance run."""
    submission = SubmissionSettings(systems=systems)
    records = {s.id: SimpleNamespace(values={"validity": "VALID", **(values or {})}) for s in world.summaries}
    return SimpleNamespace(
        desired=replace(desired, submission=submission),
        difference=world.compare(desired),
        records=records,
        committed=SimpleNamespace(summaries={s.id: s for s in world.summaries}),
    )


def measured(*wishes: Wish) -> World:
    world = World()
    world.settle(desire(wishes))
    return world


def with_inputs(desired: Desired, at: Address, *inputs: Input) -> Desired:
    """With more inputs of one resource than its key reads."""

    def detail(address: Address) -> Detail:
        found = desired.detail(address)
        return replace(found, inputs=(*found.inputs, *inputs)) if address == at else found

    return replace(desired, detail=detail)


def test_two_commits_are_compared_cell_by_cell() -> None:
    world = measured(NET, SERVER)
    after = [OTHER, replace(NET, target=2, batch=2), replace(SERVER, batch=2)]
    one, other = commit(desire([NET, SERVER]), world), commit(desire(after), world)
    due = ("Engine", "Run accuracy", "Run performance", "Score")
    batch, target = (
        ChangeCause(*reported, 1, 2, "default") for reported in (("Engine", "batch"), ("Run performance", "target_qps"))
    )
    result = ("1", "samples/s")
    assert compare_commits(one, other) == (
        CellChange(OTHER.cell, (False, True), (), None, None, ("Dataset", "Model", *due)),
        CellChange(NET.cell, (True, True), (batch, target), result, None, due),
        CellChange(SERVER.cell, (True, True), (batch,), result, None, due),
    )


def test_inputs_that_come_and_go_are_reported_once_by_their_names_with_their_lines() -> None:
    world, desired = measured(NET), desire([NET])
    line = {number: Origin("specs/a.yaml", number) for number in (1, 2, 3)}
    upstream = Input("above", "new", line[3], Address(Kind.MODEL, "net"))
    before = with_inputs(desired, TIMED, Input("gone", 1, line[1]), Input("kept", {"a": 1}, line[1]), upstream)
    now = (Input("came", 2, line[2]), Input("kept", {"a": 1}, line[3]), Input("none", None, line[3]))
    after = with_inputs(desired, TIMED, *now, Input("aaa", [1], line[3]), replace(upstream, value="other"))
    (found,) = compare_commits(commit(before, world), commit(after, world))
    assert [(cause.of, cause.name, cause.before, cause.after, cause.where) for cause in found.causes] == [
        ("Run performance", "aaa", None, [1], str(line[3])),
        ("Run performance", "came", None, 2, str(line[2])),
        ("Run performance", "gone", 1, None, str(line[1])),
    ]
    assert not found.same


def point_side(system: str, scenario: str, point: CurvePoint | None = None) -> dict[Cell, Side]:
    cell = Cell("standardized", system, "oss", scenario)
    return {cell: Side(cell, "1", "tokens/s", point=point)}


def test_only_points_of_two_curves_are_compared_as_curves() -> None:
    def point(number: int, rate: int) -> CurvePoint:
        return CurvePoint(number, Decimal(100 // number), Decimal(rate), None)

    one = {
        **point_side("x", "c1", point(1, 10)),
        **point_side("x", "c2", point(2, 30)),
        **point_side("x", "Offline"),
        **point_side("w", "c1", point(1, 99)),
    }
    other = {**point_side("y", "c1", point(1, 20)), **point_side("y", "Offline", point(9, 90))}
    found = compare(("one", "other"), one, {**other, **point_side("y", "c2")})
    assert [(c.curves[0][13:], c.points, c.peaks, c.beaten) for c in found.curves] == [
        ("w/oss", (1, 2), (Decimal(99), Decimal(90)), ((), (1, 9))),
        ("x/oss", (2, 2), (Decimal(30), Decimal(90)), ((1,), ())),
    ]
    assert compare(("one", "other"), one, point_side("y", "c1")).curves == ()


def test_a_run_without_a_metric_or_whose_record_is_gone_is_no_side() -> None:
    world = measured(NET)
    at = commit(desire([NET]), world)
    at.records.clear()
    at.committed.summaries.clear()
    assert read_sides(at) == {}
    world.summaries = [replace(s, metric=None) for s in world.summaries]
    assert read_sides(commit(desire([NET]), world)) == {}


def test_a_result_that_is_stale_on_another_system_is_found_by_its_task() -> None:
    one = side("small", "Offline", "100", 4) | side("small", "Server", "90", 4)
    stale = {cell: replace(item, validity=STALE) for cell, item in side("large", "Offline", "", 8).items()}
    found = compare(("a", "b"), one, stale)
    assert [str(cell) for cell in found.stale["b"]] == ["closed/small/resnet/Offline"]
    assert [str(cell) for cell in found.alone["a"]] == ["closed/small/resnet/Server"]
    assert "stale in b" in render_comparison_text(found)
