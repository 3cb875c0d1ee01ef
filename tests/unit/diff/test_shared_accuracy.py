"""Points of a curve without an accuracy run: performance and accuracy that count together met one system."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.change import Difference, Reason
from reconciler.diff.difference import compare
from reconciler.observed.state import Observed
from reconciler.plan.builder import Policy
from reconciler.plan.select import parse
from tests.unit.desired.test_curves import CELL, EXPLICIT, POINTS, SPEC, compile_curve
from tests.unit.diff.simulated import World

SOURCE, LATER, OTHER = "c256", "c180", "c100"  # the accuracy run of the first counts for all three


def desire(*longer: str, publish: str = "latest") -> Desired:
    """The curve; some of its points last longer, so that they are measured again."""
    lasting = {f"{point}: {{min_duration: 2 h}}" if f"c{point}" in longer else f"{point}: " for point in (*POINTS, 180)}
    text = SPEC.replace(EXPLICIT[0], f"points: {{{', '.join(sorted(lasting))}}}, publish: {publish}")
    return compile_curve(text)


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


@pytest.mark.parametrize("publish", ["latest", "best", "median"])
def test_all_points_that_lean_on_an_accuracy_run_end_on_the_system_that_it_met(publish: str) -> None:
    """Whichever of several runs is published: one of before may be the best, and never comes back."""
    world, desired = update_and_measure(LATER, publish=publish)
    assert world.settle(desired) == 4  # both runs of the source and its score; then the other point
    systems = list_systems(world, world.compare(desired))
    assert {p for p, met in systems.items() if met == {"driver 2"}} == {SOURCE, LATER, OTHER}
    assert {p for p, met in systems.items() if met == {"driver 1"}} == {"c1", "c3", "c7", "c17", "c39"}


def test_a_point_that_is_asked_for_again_makes_nothing_else_stale() -> None:
    """What it met before no longer counts once it is made again."""
    world, desired = update_and_measure(LATER)
    forced = next(a for a in desired.by_address if str(a) == f"Run:{CELL}/{LATER}/performance")
    assert list_due_runs(compare(desired, world.recorded, Observed(), frozenset({forced}))) == {
        f"{LATER}/performance": (Reason.FORCED, "")
    }
