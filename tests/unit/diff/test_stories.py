"""Cells to which something happened since they were measured: every change, drift, finding and condition, and which
records are published."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.conditions import summarise_cells
from reconciler.diff.difference import compare
from reconciler.observed.state import ArtifactPresence, Observed
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Ended, Summary
from tests.unit.diff.outline import EXPECTED, outline
from tests.unit.diff.simulated import Wish, World, desire

NET, SERVER = Wish(), Wish(scenario="Server")
PERFORMANCE, ACCURACY = (Address(Kind.RUN, f"{NET.cell}/{mode}") for mode in ("performance", "accuracy"))
ENGINE = Address(Kind.ENGINE, str(NET.cell))
Story = Callable[[World], tuple[Desired, Observed, frozenset[Address]]]


def measured(
    *wishes: Wish, then: Iterable[Wish] = (), observed: Observed | None = None, forced: Iterable[Address] = ()
) -> Story:
    """Measured to the end, then declared otherwise, looked at, or forced."""

    def build(world: World) -> tuple[Desired, Observed, frozenset[Address]]:
        world.settle(desire(wishes))
        return desire(tuple(then) or wishes), observed or Observed(), frozenset(forced)

    return build


def edited(change: Callable[[Summary], Summary | None], *wishes: Wish, then: Iterable[Wish] = ()) -> Story:
    """The same with records that are changed, or lost where this gives None."""

    def build(world: World) -> tuple[Desired, Observed, frozenset[Address]]:
        story = measured(*wishes, then=then)(world)
        world.summaries = [found for each in world.summaries if (found := change(each)) is not None]
        return story

    return build


def artifacts(presence: ArtifactPresence, *kinds: Kind, then: Wish = NET, forced: Iterable[Address] = ()) -> Story:
    def build(world: World) -> tuple[Desired, Observed, frozenset[Address]]:
        world.settle(desire([NET]))
        kept = [s for s in world.summaries if s.address.kind in kinds]
        return (
            desire([then]),
            Observed(artifacts={("objects", a.sha256): presence for s in kept for a in s.artifacts}),
            frozenset(forced),
        )

    return build


def without(*addresses: Address) -> Callable[[Summary], Summary | None]:
    return lambda summary: None if summary.address in addresses else summary


def of(address: Address, **fields: object) -> Callable[[Summary], Summary]:
    return lambda summary: replace(summary, **fields) if summary.address == address else summary  # type: ignore[arg-type]


def invalid(world: World) -> tuple[Desired, Observed, frozenset[Address]]:
    desired = desire([replace(NET, attempts=2), SERVER])
    world.invalid = {desired.by_address[PERFORMANCE].key}
    for _ in range(3):
        world.carry_out(desired, world.plan(desired))
    return desired, Observed(), frozenset()


def failing(world: World) -> tuple[Desired, Observed, frozenset[Address]]:
    desired = desire([NET])
    world.failing = {desired.by_address[ENGINE].key}
    for _ in range(2):
        world.carry_out(desired, world.plan(desired))
    return desired, Observed(), frozenset()


def other_driver(world: World) -> tuple[Desired, Observed, frozenset[Address]]:
    world.settle(desire([NET]))
    world.evidence = "driver 2"
    changed = desire([replace(NET, target=2)])
    world.carry_out(changed, world.plan(changed))
    return changed, Observed(), frozenset()


def repeated(policy: str) -> Story:
    """Two valid runs, the better first."""

    def build(world: World) -> tuple[Desired, Observed, frozenset[Address]]:
        desired = desire([replace(NET, policy=policy)])
        world.settle(desired)
        (run,) = [s for s in world.summaries if s.address == PERFORMANCE]
        world.summaries[world.summaries.index(run)] = replace(run, metric=("9", "samples/s"))
        world.summaries.append(replace(run, id="Run/again", started="2026-01-02T000001", metric=("8", "samples/s")))
        return desired, Observed(), frozenset()

    return build


STORIES: dict[str, Story] = {
    "nothing was measured": lambda _: (desire([NET, SERVER]), Observed(), frozenset()),
    "nothing happened": measured(NET, SERVER),
    "another target": measured(NET, SERVER, then=[replace(NET, target=2), SERVER]),
    "another batch size": measured(NET, SERVER, then=[replace(NET, batch=2), SERVER]),
    "other weights": measured(NET, then=[replace(NET, weights=1)]),
    "a note": measured(NET, then=[replace(NET, note=1)]),
    "a cell more": measured(NET, then=[NET, SERVER]),
    "a cell less": measured(NET, SERVER, then=[NET]),
    "another benchmark": measured(NET, then=[replace(NET, benchmark="other")]),
    "back to what it was": measured(NET, replace(SERVER, target=2), then=[NET, SERVER]),
    "a run is forced": measured(NET, forced=[PERFORMANCE]),
    "an engine is forced": measured(NET, forced=[ENGINE]),
    "an accuracy run is forced": measured(NET, forced=[ACCURACY]),
    "an engine is missing": artifacts(ArtifactPresence.MISSING, Kind.ENGINE),
    "an engine is damaged": artifacts(ArtifactPresence.CORRUPT, Kind.ENGINE),
    "an engine is missing for a due run": artifacts(ArtifactPresence.MISSING, Kind.ENGINE, then=replace(NET, target=2)),
    "an engine is missing that is forced": artifacts(ArtifactPresence.MISSING, Kind.ENGINE, forced=[ENGINE]),
    "an engine and its model are missing for a due run, and the engine is forced": artifacts(
        ArtifactPresence.MISSING, Kind.MODEL, Kind.ENGINE, then=replace(NET, target=2), forced=[ENGINE]
    ),
    "all is missing for a due run": artifacts(
        ArtifactPresence.MISSING, Kind.DATASET, Kind.MODEL, Kind.ENGINE, then=replace(NET, target=2)
    ),
    "logs are missing": artifacts(ArtifactPresence.MISSING, Kind.RUN),
    "logs are damaged": artifacts(ArtifactPresence.CORRUPT, Kind.RUN, Kind.SCORE),
    "the record of a run is lost": edited(without(PERFORMANCE), NET),
    "the record of an accuracy run is lost": edited(without(ACCURACY), NET),
    "the record of an engine is lost": edited(without(ENGINE), NET),
    "the record of an engine is lost, and a run is due": edited(without(ENGINE), NET, then=[replace(NET, target=2)]),
    "a run failed": edited(of(PERFORMANCE, ended=Ended.FAILED), NET),
    "a run is INVALID, twice": invalid,
    "an engine fails": failing,
    "runs of two drivers": other_driver,
    "a server": measured(replace(NET, service="one"), then=[replace(NET, service="two")]),
    "a server of a due run": measured(replace(NET, service="one"), then=[replace(NET, service="one", target=2)]),
    "the latest of two runs": repeated("latest"),
    "the best of two runs": repeated("best"),
    "the median of two runs": repeated("median"),
    "a tree that was never rendered": measured(NET, observed=Observed(tree_present=True)),
    "a tree of another rendering": measured(
        NET, SERVER, observed=Observed(tree_present=True, rendered={str(NET.cell): "before", "submission": "before"})
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_happened_to_a_cell_decides_what_is_due(name: str) -> None:
    world = World()
    desired, observed, forced = STORIES[name](world)
    found = compare(desired, world.recorded, observed, forced)
    cells = summarise_cells(desired, world.recorded, observed, found)
    assert outline(found, cells) == EXPECTED["stories"][name]
