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
from reconciler.history.compare import compare_commits, read_sides
from reconciler.mlperf.endpoints_program.pareto import CurvePoint
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.settings import DEDICATED_OFFLINE, CellSettings, SubmissionSettings, SystemSettings
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
