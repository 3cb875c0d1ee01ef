"""Points of a curve without an accuracy run: performance and accuracy that count together met one system."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.change import Difference, Reason
from reconciler.diff.conditions import summarise_cells
from reconciler.diff.difference import compare
from reconciler.observed.state import Observed
from reconciler.plan.builder import Policy
from reconciler.plan.select import parse
from tests.unit.desired.test_curves import CELL, EXPLICIT, POINTS, compile_curve
from tests.unit.diff.simulated import World

SOURCE, LATER, OTHER = "c256", "c180", "c100"  # the accuracy run of the first counts for all three


def desire(*longer: str, publish: str = "latest") -> Desired:
    """The curve; some of its points last longer, so that they are measured again."""
    lasting = {f"{point}: {{min_duration: 2 h}}" if f"c{point}" in longer else f"{point}: " for point in (*POINTS, 180)}
    return compile_curve((EXPLICIT[0], f"points: {{{', '.join(sorted(lasting))}}}, publish: {publish}"))


def measure(world: World, desired: Desired, point: str) -> None:
    """What is due of one point, alone."""
    world.carry_out(desired, world.plan(desired, Policy(select=parse([f"scenario={point}"]))))


def list_due_runs(difference: Difference) -> dict[str, tuple[Reason, str]]:
    runs = (change for change in difference.changes if change.address.mode)
    return {str(run.address).removeprefix(f"Run:{CELL}/"): (run.reason, run.note) for run in runs}


def list_systems(world: World, difference: Difference) -> dict[str, set[str]]:
    """Point → what its published runs met."""
    met = {summary.id: dict(summary.evidence).get("driver", "") for summary in world.summaries}
    return {
        cell.scenario: {met.get(records.performance, ""), met.get(records.accuracy, "")}
        for cell, records in difference.chosen.items()
    }


def update_and_measure(point: str, *, publish: str = "latest") -> tuple[World, Desired]:
    """Everything was measured; then one point is, again, with another driver."""
    world, before, after = World(), desire(publish=publish), desire(point, publish=publish)
    world.settle(before)
    best = ("9", "tokens/s")
    world.summaries = [replace(s, metric=best if s.metric else None) for s in world.summaries]
    world.evidence = "driver 2"
    measure(world, after, point)
    return world, after


def test_a_point_measured_later_on_another_system_makes_both_runs_stale_whose_accuracy_counts_for_it() -> None:
    world, desired = update_and_measure(LATER)
    found = world.compare(desired)
    why = (Reason.EVIDENCE_DIFFERS, f"driver differs from the performance run of {LATER}")
    assert list_due_runs(found) == {f"{SOURCE}/accuracy": why, f"{SOURCE}/performance": why}
    chosen = {cell.scenario: records for cell, records in found.chosen.items()}
    assert not any((chosen[p].accuracy, chosen[p].score) != ("", "") for p in (SOURCE, LATER, OTHER))
    standing = summarise_cells(desired, world.recorded, Observed(), found)
    reported = {s.cell.scenario: [str(c.reason) for c in s.conditions if c.type == "Accurate"] for s in standing}
    assert {p for p, reasons in reported.items() if reasons == ["EvidenceDiffers"]} == {SOURCE, LATER, OTHER}


@pytest.mark.parametrize("publish", ["latest", "best", "median"])
def test_all_points_that_lean_on_an_accuracy_run_end_on_the_system_that_it_met(publish: str) -> None:
    """Whichever of several runs is published: one of before may be the best, and never comes back."""
    world, desired = update_and_measure(LATER, publish=publish)
    assert world.settle(desired) == 4  # both runs of the source and its score; then the other point
    systems = list_systems(world, world.compare(desired))
    assert {p for p, met in systems.items() if met == {"driver 2"}} == {SOURCE, LATER, OTHER}
    assert {p for p, met in systems.items() if met == {"driver 1"}} == {"c1", "c3", "c7", "c17", "c39"}


def test_an_older_point_is_measured_again_and_the_newer_accuracy_run_stays() -> None:
    world, before = World(), desire()
    world.settle(before)
    world.evidence = "driver 2"
    after = desire(SOURCE)
    measure(world, after, SOURCE)
    why = (Reason.EVIDENCE_DIFFERS, "driver differs from the accuracy run")
    assert list_due_runs(world.compare(after)) == {f"{p}/performance": why for p in (LATER, OTHER)}


def test_a_point_that_is_asked_for_again_makes_nothing_else_stale() -> None:
    """What it met before no longer counts once it is made again."""
    world, desired = update_and_measure(LATER)
    forced = next(a for a in desired.by_address if str(a) == f"Run:{CELL}/{LATER}/performance")
    assert list_due_runs(compare(desired, world.recorded, Observed(), frozenset({forced}))) == {
        f"{LATER}/performance": (Reason.FORCED, "")
    }
