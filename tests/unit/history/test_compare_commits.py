"""Two commits beside each other, and what is read of one to be compared: of cells, inputs and results as values."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.desired.state import Desired
from reconciler.diff.timeline import CellChange, ChangeCause, Side
from reconciler.history.compare import compare, compare_commits, read_sides
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.settings import DEDICATED_OFFLINE, CellSettings, SubmissionSettings, SystemSettings
from reconciler.rules.endpoints_program.pareto import CurvePoint
from tests.unit.diff.simulated import Wish, World, desire

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
        ChangeCause(*told, 1, 2, "default") for told in (("Engine", "batch"), ("Run performance", "target_qps"))
    )
    result = ("1", "samples/s")
    assert compare_commits(one, other) == (
        CellChange(OTHER.cell, (False, True), (), None, None, ("Dataset", "Model", *due)),
        CellChange(NET.cell, (True, True), (batch, target), result, None, due),
        CellChange(SERVER.cell, (True, True), (batch,), result, None, due),
    )


def test_a_cell_that_one_commit_lacks_has_no_causes() -> None:
    world = measured(NET, SERVER)
    both, alone = commit(desire([NET, SERVER]), world), commit(desire([NET]), world)
    result = ("1", "samples/s")
    assert compare_commits(both, alone) == (
        CellChange(NET.cell, (True, True), (), result, result),
        CellChange(SERVER.cell, (True, False), (), result, None),
    )
    assert compare_commits(alone, both)[1] == CellChange(SERVER.cell, (False, True), (), None, result)


def test_inputs_that_come_and_go_are_told_once_by_their_names_with_their_lines() -> None:
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


def test_what_a_cell_is_made_from_is_compared_too_and_told_once() -> None:
    """Weights are those of the model, batches those of the engine."""
    world = measured(NET)
    after = replace(NET, batch=2, release=1)
    (found,) = compare_commits(commit(desire([NET]), world), commit(desire([after]), world))
    assert [(cause.of, cause.name, cause.before, cause.after) for cause in found.causes] == [
        ("Model", "release", None, 1),
        ("Engine", "batch", 1, 2),
    ]
    assert found.due == ("Model", "Engine", "Run accuracy", "Run performance", "Score")


def test_only_what_the_later_commit_lacks_of_the_cell_is_due() -> None:
    world = measured(NET, SERVER)
    one = commit(desire([NET, SERVER]), world)
    other = commit(desire([replace(NET, target=2), replace(SERVER, note=1)]), world)
    assert [(change.cell, change.due) for change in compare_commits(one, other)] == [
        (NET.cell, ("Run performance",)),
        (SERVER.cell, ()),
    ]


def test_a_published_run_is_a_side_with_what_its_system_has() -> None:
    margins = [
        {"name": "throughput", "headroom": "+9"},
        {"name": "p99 latency"},
        {"name": "p50 latency", "headroom": 0.7},
        {"name": "p90 latency", "headroom": "+5"},
    ]
    box = SystemSettings({"hardware.accelerator": "H200", "hardware.count": 4, "hardware.nodes": 2})
    world = measured(NET, SERVER)
    found = read_sides(commit(desire([NET, replace(SERVER, target=2)]), world, {"margins": margins}, box=box))
    assert found == {NET.cell: Side(NET.cell, "1", "samples/s", "VALID", 8, "H200", "0.7")}
    alone = replace(box, values={"hardware.accelerator": "H200", "hardware.count": 4})
    assert read_sides(commit(desire([NET]), world, box=alone))[NET.cell].count == 4
    (bare,) = read_sides(commit(desire([NET]), world, {"margins": margins[:2], "validity": "INVALID"})).values()
    assert bare == Side(NET.cell, "1", "samples/s", "INVALID")


def test_a_run_without_a_metric_or_whose_record_is_gone_is_no_side() -> None:
    world = measured(NET)
    at = commit(desire([NET]), world)
    at.records.clear()
    at.committed.summaries.clear()
    assert read_sides(at) == {}
    world.summaries = [replace(s, metric=None) for s in world.summaries]
    assert read_sides(commit(desire([NET]), world)) == {}


@pytest.mark.parametrize(
    ("settings", "entered", "point", "offline"),
    [
        ({"benchmark.official": "gpt-oss"}, "gpt-oss", CurvePoint(8, Decimal(20), Decimal(1), Decimal("12.5")), False),
        ({DEDICATED_OFFLINE: True}, "", None, True),
        (None, "", CurvePoint(8, Decimal(20), Decimal(1), Decimal("12.5")), False),
    ],
    ids=["entered as another", "a dedicated Offline run", "not declared any more"],
)
def test_a_point_stands_on_its_curve(
    settings: dict[str, object] | None, entered: str, point: CurvePoint | None, offline: bool
) -> None:
    wish = Wish(scenario="c8")
    desired, world = desire([wish]), measured(wish)
    result = Address(Kind.RESULT, str(wish.cell))
    at = commit(desired, world, {"point": {"tps_per_user": "20", "ttft_p90_ms": "12.5"}})
    if settings is None:
        at.desired = replace(at.desired, by_address={})
    else:
        own = replace(desired.detail(result), settings=CellSettings(settings))
        at.desired = replace(at.desired, detail=lambda address: own if address == result else desired.detail(address))
    (side,) = read_sides(at).values()
    assert side == Side(wish.cell, "1", "samples/s", "VALID", entered=entered, point=point, offline=offline)


def side(system: str, scenario: str, point: CurvePoint | None = None) -> dict[Cell, Side]:
    cell = Cell("standardized", system, "oss", scenario)
    return {cell: Side(cell, "1", "tokens/s", point=point)}


def test_cells_of_both_are_compared_with_themselves_alone_and_the_others_in_order() -> None:
    both = side("z", "Offline")
    one = {**both, **side("y", "Server"), **side("x", "Server"), **side("w", "Interactive"), **side("v", "Interactive")}
    other = {
        **both,
        **side("b", "Server"),
        **side("a", "Server"),
        **side("d", "SingleStream"),
        **side("c", "SingleStream"),
    }
    found = compare(("one", "other"), one, other)
    assert [(pair.one.cell.system, pair.other.cell.system) for pair in found.pairs] == [
        ("z", "z"), ("x", "a"), ("x", "b"), ("y", "a"), ("y", "b"),
    ]  # fmt: skip
    assert [[cell.system for cell in found.alone[name]] for name in found.names] == [["v", "w"], ["c", "d"]]


def test_only_points_of_two_curves_are_compared_as_curves() -> None:
    def point(number: int, rate: int) -> CurvePoint:
        return CurvePoint(number, Decimal(100 // number), Decimal(rate), None)

    one = {
        **side("x", "c1", point(1, 10)),
        **side("x", "c2", point(2, 30)),
        **side("x", "Offline"),
        **side("w", "c1", point(1, 99)),
    }
    other = {**side("y", "c1", point(1, 20)), **side("y", "Offline", point(9, 90)), **side("y", "c2")}
    found = compare(("one", "other"), one, other)
    assert [(c.curves[0][13:], c.points, c.peaks, c.beaten) for c in found.curves] == [
        ("w/oss", (1, 2), (Decimal(99), Decimal(90)), ((), (1, 9))),
        ("x/oss", (2, 2), (Decimal(30), Decimal(90)), ((1,), ())),
    ]
    bare = compare(("one", "other"), one, side("y", "c1"))
    assert bare.curves == compare(("one", "other"), side("x", "c1"), other).curves == ()
