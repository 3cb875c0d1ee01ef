"""What is accepted, for whom, and what never can be: values alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.acceptance import BUILT, Refused, judge_acceptance, propose_acceptance
from reconciler.diff.change import Change, Difference, InputChange, Reason, Work
from reconciler.diff.conditions import trace_lineages
from reconciler.diff.difference import compare
from reconciler.observed.state import Observed
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, AcceptedKey, Decisions
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, Cell, Kind

from .simulated import Wish, World, desire
from .test_difference import few, wish, wishes

TODAY = date(2026, 3, 15)
BEFORE, AFTER = [Wish("a"), Wish("b")], [Wish("a", batch=2), Wish("b", batch=2)]


def settled(wishes: list[Wish]) -> World:
    world = World()
    world.settle(desire(wishes))
    return world


def explain(_: Change) -> tuple[InputChange, ...]:
    return (InputChange("engine.batch_size", 1, 2, Origin("specs/a.yaml", 3)),)


def accepting(world: World, desired: Desired, cell: Cell) -> tuple[tuple[AcceptedKey, ...], tuple[Refused, ...]]:
    return propose_acceptance(cell, trace_lineages(desired)[cell], world.compare(desired), world.recorded, explain)


def accepted(world: World, desired: Desired, cell: Cell) -> Acceptance:
    keys, refused = accepting(world, desired, cell)
    assert not refused
    return Acceptance(cell, "why", "Ada <a@b>", "2026-03-01", date(2026, 4, 1), "", keys)


def with_it(world: World, desired: Desired, *items: Acceptance) -> Difference:
    held = {str(number): item for number, item in enumerate(items)}
    return compare(desired, world.recorded, Observed(), decisions=Decisions(held, {}, {}, TODAY))


def due(difference: Difference) -> set[Address]:
    return {change.address for change in difference.changes if change.how is Work.MAKE}


def test_only_the_cell_that_was_named_counts() -> None:
    world, desired = settled(BEFORE), desire(AFTER)
    difference = with_it(world, desired, accepted(world, desired, AFTER[0].cell))
    assert {address.cell for address in due(difference)} == {AFTER[1].cell}
    assert set(difference.accepted) == {AFTER[0].cell}


def test_what_cells_share_is_made_for_the_one_that_is_not_accepted() -> None:
    """Both use one model; what one of them accepts says nothing of the other."""
    one, other = Wish("net", "Offline"), Wish("net", "Server")
    world = settled([one, other])
    desired = desire([replace(one, batch=2), replace(other, batch=2)])
    first = accepted(world, desired, one.cell)
    difference = with_it(world, desired, first)
    assert {address.cell for address in due(difference)} == {other.cell}
    second = accepted(world, desired, other.cell)
    assert not due(with_it(world, desired, first, second))


def test_an_engine_that_only_accepted_runs_would_use_is_not_built() -> None:
    world, desired = settled(BEFORE[:1]), desire(AFTER[:1])
    assert any(address.kind in BUILT for address in due(world.compare(desired)))
    assert not due(with_it(world, desired, accepted(world, desired, AFTER[0].cell)))


@pytest.mark.parametrize("further", [{"batch": 3}, {"batch": 2, "target": 2}, {"batch": 2, "weights": 1}])
def test_any_further_change_ends_it_whole(further: dict[str, int]) -> None:
    world, desired = settled(BEFORE[:1]), desire(AFTER[:1])
    item = accepted(world, desired, AFTER[0].cell)
    moved = desire([Wish("a", **further)])
    assert judge_acceptance(item, moved, world.recorded, TODAY) is AcceptanceStatus.CHANGED
    assert due(with_it(world, moved, item)) == due(world.compare(moved))


def test_it_ends_on_its_day_and_when_its_records_are_gone() -> None:
    world, desired = settled(BEFORE[:1]), desire(AFTER[:1])
    item = accepted(world, desired, AFTER[0].cell)
    assert judge_acceptance(item, desired, world.recorded, date(2026, 3, 31)) is AcceptanceStatus.IN_FORCE
    assert judge_acceptance(item, desired, world.recorded, date(2026, 4, 1)) is AcceptanceStatus.EXPIRED
    assert judge_acceptance(item, desired, World().recorded, TODAY) is AcceptanceStatus.CHANGED


def test_what_has_no_earlier_record_cannot_be_accepted_unless_it_is_only_built() -> None:
    """An engine that was never built is no measurement: the runs made with the one before are what counts."""
    world, cell = settled(BEFORE[:1]), BEFORE[0].cell
    desired = desire(AFTER[:1])
    world.summaries = [s for s in world.summaries if s.address.kind is not Kind.ENGINE]
    keys, refused = accepting(world, desired, cell)
    assert [key.address.label for key in keys] == ["Run accuracy", "Run performance", "Score"]
    assert refused == ()
    world.summaries = [s for s in world.summaries if s.address.mode != "performance"]
    keys, refused = accepting(world, desired, cell)
    assert [key.address.label for key in keys] == ["Run accuracy", "Score"]
    assert [item.why for item in refused] == ["Run performance: there is no record of it that could be accepted"]


def test_other_evidence_within_a_cell_is_never_accepted() -> None:
    """Engine bytes, code or software that differ between the accuracy and the performance run."""
    world, desired = settled(BEFORE[:1]), desire(BEFORE[:1])
    at = next(i for i, s in enumerate(world.summaries) if s.address.name.endswith("/performance"))
    world.summaries[at] = replace(world.summaries[at], evidence=(("engine", "other bytes"),))
    assert Reason.EVIDENCE_DIFFERS in {change.reason for change in world.compare(desired).changes}
    _, refused = accepting(world, desired, BEFORE[0].cell)
    assert "published together only when engine, code and software are the same" in refused[0].why
    changed = desire(AFTER[:1])
    keys, _ = accepting(world, changed, AFTER[0].cell)
    forced = Acceptance(AFTER[0].cell, "why", "Ada <a@b>", "2026-03-01", date(2026, 4, 1), "", keys)
    left = with_it(world, changed, forced).changes
    assert Reason.EVIDENCE_DIFFERS in {change.reason for change in left}


def test_an_invalid_run_is_no_difference() -> None:
    desired = desire([Wish("a")])
    run = Address(Kind.RUN, f"{Wish('a').cell}/performance")
    world = World(invalid={desired.by_address[run].key})
    world.settle(desired)
    keys, refused = accepting(world, desired, Wish("a").cell)
    assert not keys
    assert "not a difference of inputs" in refused[0].why


def test_when_the_change_is_taken_back_the_acceptance_is_not_needed() -> None:
    world, desired = settled(BEFORE[:1]), desire(AFTER[:1])
    item = accepted(world, desired, AFTER[0].cell)
    assert judge_acceptance(item, desire(BEFORE[:1]), world.recorded, TODAY) is AcceptanceStatus.MEASURED
    assert not with_it(world, desire(BEFORE[:1]), item).accepted


@dataclass
class Decided(World):
    """A world in which some things are accepted."""

    items: tuple[Acceptance, ...] = ()

    def compare(self, desired: Desired, observed: Observed | None = None) -> Difference:
        held = {str(number): item for number, item in enumerate(self.items)}
        decisions = Decisions(held, {}, {}, TODAY)
        return compare(desired, self.recorded, observed or Observed(), decisions=decisions)


def measured(difference: Difference, cell: Cell) -> set[Address]:
    return {address for address in due(difference) if address.cell == cell and address.kind not in BUILT}


@few
@given(wishes, wishes, wish, st.data())
def test_whatever_changes_one_cell_is_accepted_and_all_others_are_made(
    first: list[Wish], others: list[Wish], like: Wish, data: st.DataObject
) -> None:
    world = Decided()
    world.settle(desire(first))
    was = data.draw(st.sampled_from(first))
    changed, cell = replace(like, benchmark=was.benchmark, scenario=was.scenario), was.cell
    second = [*(item for item in others if item.cell != cell), changed]
    desired = desire(second)
    before = world.compare(desired)
    keys, refused = accepting(world, desired, cell)
    assume(keys and not refused)
    world.items = (Acceptance(cell, "why", "Ada <a@b>", "2026-03-01", date(2026, 4, 1), "", keys),)
    after = world.compare(desired)
    assert not measured(after, cell)
    for item in second:
        if item.cell != cell:
            assert measured(after, item.cell) == measured(before, item.cell)
    world.settle(desired)
    assert world.plan(desired).in_sync
    made = {summary.key for summary in world.summaries}
    for item in second:
        if item.cell != cell:
            own = {r.key for r in desired.resources if r.cell == item.cell and r.kind in (Kind.RUN, Kind.SCORE)}
            assert own <= made
