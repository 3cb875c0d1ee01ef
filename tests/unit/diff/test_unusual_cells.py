"""Cells unlike those that passes here measure alone: inferred, scored by another's run, accepted,
frozen, imported, or with records and files that are not as a pass leaves them. Each with its conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date

import pytest
from msgspec import Struct
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.acceptance import propose_acceptance
from reconciler.diff.conditions import summarise_cells, trace_lineages
from reconciler.diff.difference import compare
from reconciler.observed.state import ArtifactPresence, Observed
from reconciler.resource.decisions import NONE, Acceptance, Decisions, Freeze
from reconciler.resource.kinds import ACCURACY, PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.records import CHILD_LOG, CODE_ARCHIVE, IMPORTED, Artifact, Ended, Summary
from reconciler.resource.resources import Resource
from tests.unit.diff.outline import EXPECTED, outline
from tests.unit.diff.simulated import Wish, World, desire
from tests.unit.diff.test_difference import render
from tests.unit.diff.test_stories import of, without

NET, SERVER = Wish(), Wish(scenario="Server")
TIMED, SCORED = (RunAddress(NET.cell, mode).address for mode in (PERFORMANCE, ACCURACY))
SERVED, SERVED_ACCURACY = (RunAddress(SERVER.cell, mode).address for mode in (PERFORMANCE, ACCURACY))
ENGINE, SCORE = Address(Kind.ENGINE, str(NET.cell)), Address(Kind.SCORE, str(NET.cell))
SINGLE = replace(NET.cell, scenario="SingleStream")
TODAY = date(2026, 3, 15)
MISSING, CORRUPT = ArtifactPresence.MISSING, ArtifactPresence.CORRUPT


class Situation(Struct):
    """What is compared. ``decisions``: those that hold."""

    desired: Desired
    observed: Observed = Observed()
    forced: Iterable[Address] = ()
    decisions: Decisions = NONE


Story = Callable[[World], Situation]


def edit(world: World, *changes: Callable[[Summary], Summary | None]) -> None:
    for change in changes:
        world.summaries = [found for each in world.summaries if (found := change(each)) is not None]


def measured(
    *wishes: Wish,
    by: Iterable[Callable[[Summary], Summary | None]] = (),
    made: Callable[[Desired], Desired] = lambda desired: desired,
    then: Iterable[Wish] = (),
    forced: Iterable[Address] = (),
    rendered: bool = False,
) -> Story:
    """Measured to the end; ``by``: how records were changed since; ``made``: how the spec makes other cells of them."""

    def build(world: World) -> Situation:
        desired = made(desire(wishes or [NET]))
        world.settle(desired)
        edit(world, *by)
        after = made(desire(then)) if then else desired
        return Situation(after, render(world, desired) if rendered else Observed(), forced)

    return build


def with_resources(desired: Desired, resources: Iterable[Resource]) -> Desired:
    found = tuple(resources)
    return replace(desired, resources=found, by_address={r.address: r for r in found})


def lean(desired: Desired) -> Desired:
    """The accuracy run of the Server cell represents the Offline one, which is listed first."""
    gone, result = (SCORED, SCORE), Address(Kind.RESULT, str(NET.cell))
    ups = (TIMED, SERVED_ACCURACY, Address(Kind.SCORE, str(SERVER.cell)))
    return with_resources(
        desired,
        [replace(r, upstream=ups) if r.address == result else r for r in desired.resources if r.address not in gone],
    )


def infer(desired: Desired) -> Desired:
    """One cell more, without runs of its own; listed last."""
    source = desired.by_address[Address(Kind.RESULT, str(NET.cell))]
    result = Resource(Address(Kind.RESULT, str(SINGLE)), "key inferred", source.upstream, SINGLE)
    return with_resources(desired, [*desired.resources, result])


def follow(desired: Desired) -> Desired:
    """The accuracy run belongs to the performance run."""
    return with_resources(
        desired, [replace(r, upstream=(*r.upstream, TIMED)) if r.address == SCORED else r for r in desired.resources]
    )


def invalid(cell: Cell, made: Callable[[Desired], Desired], **attempts: int) -> Story:
    def build(world: World) -> Situation:
        desired = made(desire([replace(NET, **attempts), SERVER]))  # type: ignore[arg-type]
        world.invalid = {desired.by_address[RunAddress(cell, PERFORMANCE).address].key}
        world.settle(desired)
        return Situation(desired)

    return build


def came_with(world: World) -> Situation:
    """Compliance tests of imported runs, listed out of order, one of them twice; and one that no one imported."""
    world.settle(desire([NET]))
    edit(world, of(TIMED, marks=(IMPORTED,)), of(SCORED, marks=(IMPORTED,)))
    like = next(s for s in world.summaries if s.address == TIMED)
    for identity, name, marks in (
        ("Test/1", "TEST05", (IMPORTED,)),
        ("Test/2", "TEST01", (IMPORTED,)),
        ("Test/3", "TEST01", (IMPORTED,)),
        ("Test/4", "TEST04", ()),
    ):
        at = Address(Kind.COMPLIANCE_TEST, f"{NET.cell}/{name}")
        world.summaries.append(replace(like, id=identity, address=at, key=identity, marks=marks, upstream=()))
    return Situation(desire([NET]))


def fails_now(world: World) -> Situation:
    """An engine that was made, and whose successor fails."""
    world.settle(desire([NET]))
    desired = desire([replace(NET, batch=2)])
    world.failing = {desired.by_address[ENGINE].key}
    world.carry_out(desired, world.plan(desired))
    edit(world, lambda s: replace(s, problem="no memory") if s.ended is Ended.FAILED else s)
    return Situation(desired)


def again(address: Address, **fields: object) -> Callable[[World], None]:
    def add(world: World) -> None:
        like = next(s for s in world.summaries if s.address == address)
        own = {"id": f"{address.kind}/again", "started": "2026-01-02T000001", **fields}
        world.summaries.append(replace(like, **own))  # type: ignore[arg-type]

    return add


def twice(*damaged: str) -> Story:
    """Two engines of one key; ``damaged``: bytes that are."""

    def build(world: World) -> Situation:
        world.settle(desire([NET]))
        edit(world, of(ENGINE, artifacts=(Artifact("engine", "one", 1), Artifact(CHILD_LOG, "log", 1))))
        again(ENGINE, artifacts=(Artifact("engine", "two", 1),))(world)
        return Situation(desire([NET]), Observed(artifacts={("objects", name): CORRUPT for name in damaged}))

    return build


def logs(artifacts: Mapping[tuple[str, str], ArtifactPresence], *, forced: Iterable[Address] = ()) -> Story:
    """Of a performance run that left two logs for the tree, and one that is in the store alone."""
    retained = (Artifact("a.txt", "a", 1, "logs"), Artifact("b.txt", "b", 1, "logs"), Artifact("c.txt", "c", 1))

    def build(world: World) -> Situation:
        world.settle(desire([NET]))
        edit(world, of(TIMED, artifacts=retained))
        return Situation(desire([NET]), Observed(artifacts=artifacts), forced)

    return build


def logs_next_to_a_test(world: World) -> Situation:
    """Logs of the runs are missing in git, of a cell whose test passes, with a driver of its own."""
    desired = desire([replace(NET, tests=("TEST01",))])
    world.settle(desired)
    kept = (Artifact("a.txt", "a", 1, "logs"),)
    edit(world, of(TIMED, artifacts=kept), of(SCORED, artifacts=kept))
    return Situation(desired, Observed(artifacts={("logs", "a"): MISSING}))


def accept(before: Iterable[Wish], after: Iterable[Wish], cell: Cell, *, forced: Iterable[Address] = ()) -> Story:
    """Measured as before, declared as after, and accepted for one cell."""

    def build(world: World) -> Situation:
        world.settle(desire(before))
        desired = desire(after)
        lineage = trace_lineages(desired)[cell]
        keys, refused = propose_acceptance(cell, lineage, world.compare(desired), world.recorded, lambda _: ())
        assert not refused
        item = Acceptance(cell, "why", "Ada <a@b>", "2026-03-01", date(2026, 4, 1), "", keys)
        return Situation(desired, Observed(), forced, Decisions({"accepted": item}, {}, {}, TODAY))

    return build


def accepted_and_measured_in_part(world: World) -> Situation:
    """One of the runs that an acceptance represents was made since."""
    situation = accept([NET], [replace(NET, batch=2)], NET.cell)(world)
    again(SCORED, key=situation.desired.by_address[SCORED].key)(world)
    return situation


def rendered_wrong(*files: tuple[str, str], by: Iterable[Callable[[Summary], Summary | None]] = ()) -> Story:
    """A tree that was rendered, with files that are not as they were."""

    def build(world: World) -> Situation:
        desired = desire([NET])
        world.settle(desired)
        edit(world, *by)
        return Situation(desired, replace(render(world, desired), tree={str(NET.cell): files}))

    return build


def freeze(*freezes: tuple[Cell | None, date | None], made: Callable[[Desired], Desired] = lambda d: d) -> Story:
    def build(world: World) -> Situation:
        desired = made(desire([NET, SERVER]))
        world.settle(desired)
        found = {str(n): Freeze(cell, "why", "Ada", "2026-03-01", end, "") for n, (cell, end) in enumerate(freezes)}
        return Situation(desired, decisions=Decisions({}, found, {}, TODAY))

    return build


def incomplete(world: World) -> Situation:
    """Cells that no one declared, decisions that are damaged, files in the tree that no one rendered, and old runs."""
    world.settle(desire([Wish("z"), Wish("a"), NET]))
    declared = replace(desire([NET]), missing_cells=("open/box/net/Server", "open/box/net/Interactive"))
    strange = Observed(tree={"": (("b.txt", "unknown"), ("a.txt", "unknown"))})
    damaged = {"state/b.json": "no JSON", "state/a.json": "no file"}
    return Situation(declared, strange, decisions=Decisions({}, {}, damaged, TODAY))


def imported_inputs(*artifacts: Artifact, gone: Iterable[str] = ()) -> Story:
    """A run is due whose engine was imported with these files."""

    def build(world: World) -> Situation:
        world.settle(desire([NET]))
        edit(world, of(ENGINE, marks=(IMPORTED,), artifacts=artifacts))
        absent = {(place, name): MISSING for name in gone for place in ("objects",)}
        return Situation(desire([replace(NET, target=2)]), Observed(artifacts=absent))

    return build


def drivers(first: Address, started: str, *, forced: Iterable[Address] = ()) -> Story:
    """One of the two runs was made with another driver, at this time."""
    return measured(by=[of(first, evidence=(("cpu", "x"), ("driver", "2")), started=started)], forced=forced)


def tie(desired: Desired) -> Desired:
    """As ``lean``; the accuracy run that represents both belongs to a performance run of its own cell."""
    tied = lean(desired)
    return with_resources(
        tied,
        [replace(r, upstream=(*r.upstream, SERVED)) if r.address == SERVED_ACCURACY else r for r in tied.resources],
    )


def accepted_with_others(*measured_since: Address, damaged: bool = False) -> Story:
    """Accepted for one of two cells; what was made since for the inputs of now, or an engine of the other damaged."""

    def build(world: World) -> Situation:
        situation = accept([NET, SERVER], [replace(NET, batch=2), replace(SERVER, batch=2)], NET.cell)(world)
        for address in measured_since:
            again(address, key=situation.desired.by_address[address].key)(world)
        if damaged:
            own = Address(Kind.ENGINE, str(SERVER.cell))
            world.summaries = [*world.summaries, *_made(world, situation.desired, own)]
            situation.observed = Observed(artifacts={("objects", "bad"): CORRUPT})
        return situation

    return build


def _made(world: World, desired: Desired, engine: Address) -> Iterator[Summary]:
    """Everything of the engine's cell as it is declared now, the engine with bytes that are damaged."""
    known = {s.address: s for s in world.summaries if engine.cell in (s.address.cell, *(a.cell for a in s.shared))}
    for address in (engine, SERVED_ACCURACY, SERVED, Address(Kind.SCORE, str(SERVER.cell))):
        like = known.get(address) or next(s for s in world.summaries if address in s.shared)
        own = Artifact("engine", "bad", 1) if address == engine else Artifact("log", "good", 1)
        upstream = (("run", f"Run/{SERVED_ACCURACY}"),) if address.kind is Kind.SCORE else ()
        yield replace(
            like,
            id=f"{address.kind}/{address}",
            address=address,
            key=desired.by_address[address].key,
            artifacts=(own,),
            upstream=upstream,
            shared=(),
        )


def repeated_since(address: Address, made: Callable[[Desired], Desired]) -> Story:
    def build(world: World) -> Situation:
        desired = made(desire([NET]))
        world.settle(desired)
        again(address)(world)
        return Situation(desired)

    return build


STORIES: dict[str, Story] = {
    "tests that came with imported runs": came_with,
    "another's accuracy: nothing was measured": lambda _: Situation(lean(desire([NET, SERVER]))),
    "another's accuracy: nothing happened": measured(NET, SERVER, made=lean, rendered=True),
    "another's accuracy: another target": measured(NET, SERVER, made=lean, then=[replace(NET, target=2), SERVER]),
    "another's accuracy: its run is forced": measured(NET, SERVER, made=lean, forced=[SERVED_ACCURACY]),
    "another's accuracy: its record is lost": measured(NET, SERVER, made=lean, by=[without(SERVED_ACCURACY)]),
    "another's accuracy: its score is too low": measured(
        NET, SERVER, made=lean, by=[of(Address(Kind.SCORE, str(SERVER.cell)), problem="75 % of 76 %")]
    ),
    "another's accuracy: the other is INVALID": invalid(SERVER.cell, lean),
    "another's accuracy: its own run is INVALID": invalid(NET.cell, lean),
    "another's accuracy: its own run is INVALID and tried again": invalid(NET.cell, lean, attempts=2),
    "another's accuracy: the run that its run belongs to is forced": measured(NET, SERVER, made=tie, forced=[SERVED]),
    "inferred: nothing happened": measured(
        made=infer,
        by=[of(TIMED, inferred=(("SingleStream", "7", "ms"),), efficiency=("3", "samples/J"), marks=("synthetic",))],
        rendered=True,
    ),
    "inferred: nothing was measured": lambda _: Situation(infer(desire([NET]))),
    "inferred: its run is forced": measured(made=infer, forced=[TIMED]),
    "inferred: its run is INVALID": invalid(NET.cell, infer),
    "accepted: another batch size": accept([NET], [replace(NET, batch=2)], NET.cell),
    "accepted: a shared model, for one of two": accept(
        [NET, SERVER], [replace(NET, release=1), replace(SERVER, release=1)], NET.cell
    ),
    "accepted: a shared model, for the other of two": accept(
        [NET, SERVER], [replace(NET, release=1), replace(SERVER, release=1)], SERVER.cell
    ),
    "accepted: its engine is forced": accept([NET], [replace(NET, batch=2)], NET.cell, forced=[ENGINE]),
    "accepted: measured in part": accepted_and_measured_in_part,
    "accepted: its engine was made since": accepted_with_others(ENGINE),
    "accepted: the engine of another cell is damaged": accepted_with_others(damaged=True),
    "frozen: a cell": freeze((NET.cell, None)),
    "frozen: a cell, until a day": freeze((SERVER.cell, date(2026, 4, 1))),
    "frozen: all, and a cell until a day": freeze((NET.cell, date(2026, 4, 1)), (None, None)),
    "frozen: the cell that another is inferred from": freeze((NET.cell, date(2026, 4, 1)), made=infer),
    "frozen: the cell whose accuracy applies to another": freeze((SERVER.cell, date(2026, 4, 1)), made=lean),
    "frozen: two cells of one accuracy run, until two days": freeze(
        (SERVER.cell, date(2026, 4, 1)), (NET.cell, date(2026, 5, 1)), made=lean
    ),
    "an engine fails that was made otherwise": fails_now,
    "the later of two engines is damaged": twice("two"),
    "the earlier of two engines is damaged": twice("one"),
    "both of two engines are damaged": twice("one", "two"),
    "what an engine printed is damaged": twice("two", "log"),
    "a log is missing in git": logs({("logs", "a"): MISSING}),
    "a log is damaged in git": logs({("logs", "b"): CORRUPT}),
    "a log is missing in git, and another damaged": logs({("logs", "a"): MISSING, ("logs", "b"): CORRUPT}),
    "a spare log is damaged": logs({("objects", "a"): CORRUPT, ("objects", "b"): CORRUPT}),
    "spare logs are missing": logs({("objects", "a"): MISSING, ("objects", "b"): MISSING, ("objects", "c"): MISSING}),
    "a log is missing in git, and all are damaged elsewhere": logs(
        {("logs", "a"): MISSING, ("objects", "a"): CORRUPT, ("objects", "c"): CORRUPT}
    ),
    "a log is missing of a run that is forced": logs({("logs", "a"): MISSING}, forced=[SCORED]),
    "logs are missing next to a test that passes": logs_next_to_a_test,
    "what was never measured is forced": lambda _: Situation(desire([NET]), forced=[TIMED, SCORED, SCORE, ENGINE]),
    "a score is too low": measured(by=[of(SCORE, problem="75 % of 76 %")]),
    "an INVALID run says why": measured(by=[of(TIMED, validity="INVALID", problem="50 queries of 100")]),
    "an INVALID run says why, and its accuracy run is forced": measured(
        by=[of(TIMED, validity="INVALID", problem="50 queries of 100")], forced=[SCORED]
    ),
    "the code of a run was kept": measured(
        by=[of(TIMED, artifacts=(Artifact("a", "a", 1), Artifact(CODE_ARCHIVE, "b", 1)))], rendered=True
    ),
    "runs of two machines": measured(by=[of(TIMED, noted=(("host", "a"),)), of(SCORED, noted=(("host", "b"),))]),
    "an older accuracy run of another driver": drivers(SCORED, "2026-01-01T000000"),
    "a newer accuracy run of another driver": drivers(SCORED, "2026-01-02T000000"),
    "an accuracy run of another driver at the same time": drivers(SCORED, "2026-01-01T000005"),
    "an older accuracy run of another driver, and the other run is forced": drivers(
        SCORED, "2026-01-01T000000", forced=[TIMED]
    ),
    "a newer accuracy run of another driver that is forced": drivers(SCORED, "2026-01-02T000000", forced=[SCORED]),
    "all that is measured has marks and a score": measured(
        by=[
            of(SCORE, metric=("76.1", "acc"), marks=("zeta", "quick")),
            of(TIMED, marks=("synthetic", "alpha")),
            of(SCORED, marks=("rehearsal", "quick")),
        ]
    ),
    "two files of the tree are missing": rendered_wrong(("a", "missing"), ("b", "missing")),
    "a score is too low of a cell that is rendered": rendered_wrong(by=[of(SCORE, problem="75 % of 76 %")]),
    "the performance run that an accuracy run belongs to was repeated": repeated_since(TIMED, follow),
    "the accuracy run that belongs to a performance run was repeated": repeated_since(SCORED, follow),
    "an accuracy run that belongs to another, at the same time": measured(
        made=follow, by=[of(SCORED, started="2026-01-01T000005")]
    ),
    "a performance run was repeated": repeated_since(TIMED, lambda desired: desired),
    "much is missing": incomplete,
    "an imported engine without files is needed": imported_inputs(),
    "an imported engine with files is needed": imported_inputs(Artifact("engine", "one", 1), gone=["log"]),
    "an imported engine whose files are gone is needed": imported_inputs(
        Artifact("engine", "one", 1, "logs"), Artifact("plan", "two", 1), Artifact(CHILD_LOG, "log", 1), gone=["two"]
    ),
    "an imported engine is needed whose files are in git": imported_inputs(
        Artifact("engine", "one", 1, "logs"), Artifact(CHILD_LOG, "log", 1), gone=["one", "log"]
    ),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_happened_to_an_unusual_cell_decides_what_is_due(name: str) -> None:
    world = World()
    situation = STORIES[name](world)
    found = compare(
        situation.desired, world.recorded, situation.observed, frozenset(situation.forced), situation.decisions
    )
    cells = summarise_cells(situation.desired, world.recorded, situation.observed, found)
    assert outline(found, cells) == EXPECTED["unusual cells"][name]
