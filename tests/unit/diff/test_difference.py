"""Laws of comparing and planning, over generated desired states and records."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.change import Reason, Work
from reconciler.diff.conditions import summarise_cells
from reconciler.diff.difference import compare
from reconciler.diff.fingerprint import compute_fingerprint, compute_submission_fingerprint
from reconciler.observed.state import ArtifactPresence, Observed
from reconciler.plan.builder import Policy
from reconciler.plan.select import Selector
from reconciler.resource.conditions import ConditionStatus
from reconciler.resource.decisions import Decisions, Freeze
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.resources import Resource
from tests.unit.diff.simulated import Wish, World, desire

few = settings(max_examples=60)
small = st.integers(0, 2)
wish = st.builds(
    Wish,
    benchmark=st.sampled_from(["net", "net-99", "other"]),
    scenario=st.sampled_from(["Offline", "Server", "SingleStream"]),
    data=small,
    weights=small,
    batch=st.integers(1, 3),
    target=st.integers(1, 3),
    note=small,
    attempts=st.integers(1, 3),
    service=st.sampled_from(["", "", "one", "other"]),
)
wishes = st.lists(wish, min_size=1, max_size=5, unique_by=lambda w: w.cell)


def made_keys(world: World) -> set[str]:
    """Of what lasts: a server that no one asks is not started because no record reports it."""
    return {s.key for s in world.summaries if s.address.kind is not Kind.SERVICE}


def kinds(world: World, desired: object) -> list[str]:
    return [step.change.address.label for step in world.plan(desired).steps]  # type: ignore[arg-type]


@few
@given(wishes)
def test_plan_is_empty_after_it_was_carried_out(cells: list[Wish]) -> None:
    world, desired = World(), desire(cells)
    world.settle(desired)
    assert world.plan(desired).in_sync
    assert world.settle(desired) == 0


@few
@given(wishes)
def test_each_key_is_made_once(cells: list[Wish]) -> None:
    world, desired = World(), desire(cells)
    made = world.settle(desired)
    keys = {r.key for r in desired.resources if r.kind not in (Kind.RESULT, Kind.SUBMISSION)}
    servers = {r.key for r in desired.resources if r.kind is Kind.SERVICE}
    assert made == len(keys - servers)
    assert {s.key for s in world.summaries} == keys


@few
@given(wishes, wishes)
def test_going_back_to_an_earlier_spec_makes_nothing_again(first: list[Wish], second: list[Wish]) -> None:
    world = World()
    world.settle(desire(first))
    world.settle(desire(second))
    assert world.settle(desire(first)) == 0
    assert world.plan(desire(first)).in_sync


@few
@given(wishes, st.randoms())
def test_order_of_cells_does_not_matter(cells: list[Wish], draw: object) -> None:
    shuffled = list(cells)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    world = World()
    world.settle(desire(cells))
    assert world.plan(desire(shuffled)).in_sync


@few
@given(wishes, st.sets(st.integers(0, 40)))
def test_pass_that_is_cut_short_goes_on_where_it_stopped(cells: list[Wish], kept: set[int]) -> None:
    """Whatever part of the records survives, settling makes the missing ones and no others."""
    desired, world = desire(cells), World()
    world.settle(desired)
    whole = made_keys(world)
    world.summaries = [s for n, s in enumerate(world.summaries) if n in kept]
    survived = {s.key for s in world.summaries}
    world.settle(desired)
    assert world.plan(desired).in_sync
    # A score belongs to one accuracy run: where that run was lost, the score is made again next to the old one.
    again = [s for s in world.summaries if s.key in survived]
    assert made_keys(world) == whole
    again = [s for s in again if s.address.kind is not Kind.SERVICE]  # started as often as a run needs it
    assert all(sum(o.key == s.key for o in again) == 1 for s in again if s.address.kind is not Kind.SCORE)


@few
@given(wishes, st.data())
def test_invalid_runs_end_as_findings_after_their_attempts(cells: list[Wish], data: st.DataObject) -> None:
    desired, world = desire(cells), World()
    runs = [r for r in desired.resources if r.address.name.endswith("/performance")]
    chosen: list[Resource] = data.draw(st.lists(st.sampled_from(runs), unique=True))
    world.invalid = {run.key for run in chosen}
    world.settle(desired)
    plan = world.plan(desired)
    red = {str(r.cell) for r in runs if r.key in world.invalid}
    assert {finding.where for finding in plan.findings} == red
    assert plan.steps == ()
    for key in world.invalid:
        tries = max(r.attempts for r in runs if r.key == key)
        assert 1 <= sum(s.key == key for s in world.summaries) <= tries
    assert plan.in_sync == (not red)


@few
@given(wishes)
def test_other_evidence_repeats_the_older_runs_only(cells: list[Wish]) -> None:
    """A driver is updated, then the targets change: each accuracy run is repeated once, with the same engine."""
    world = World()
    world.settle(desire(cells))
    world.evidence = "driver 2"
    changed = desire([replace(cell, target=cell.target + 7) for cell in cells])
    before = len(world.summaries)
    world.settle(changed)
    made = [s.address.label for s in world.summaries[before:]]
    assert set(made) <= {"Service", "Run performance", "Run accuracy", "Score"}
    assert made.count("Run accuracy") == made.count("Score")
    assert world.plan(changed).in_sync


@few
@given(wishes)
def test_lost_artifacts_are_drift_and_nothing_more(cells: list[Wish]) -> None:
    world, desired = World(), desire(cells)
    world.settle(desired)
    missing = {("objects", a.sha256): ArtifactPresence.MISSING for s in world.summaries for a in s.artifacts}
    found = world.compare(desired, Observed(artifacts=missing))
    assert found.changes == ()
    built = {r.address for r in desired.resources if r.kind in (Kind.DATASET, Kind.MODEL, Kind.ENGINE)}
    assert {drift.address for drift in found.drifts} == built


@few
@given(wishes)
def test_due_run_brings_its_missing_artifacts(cells: list[Wish]) -> None:
    world = World()
    world.settle(desire(cells))
    missing = {("objects", a.sha256): ArtifactPresence.MISSING for s in world.summaries for a in s.artifacts}
    changed = desire([replace(cells[0], target=99), *cells[1:]])
    found = {c.address: c for c in world.compare(changed, Observed(artifacts=missing)).changes}
    cell = str(cells[0].cell)
    due = Address(Kind.RUN, f"{cell}/performance")
    needed, queue = set(), [due]
    while queue:
        for up in changed.by_address[queue.pop()].upstream:
            needed.add(up)
            queue.append(up)
    made = {address for address, change in found.items() if change.how in (Work.MAKE, Work.START)}
    assert made == needed | {due}
    assert {found[a].reason for a in needed} == {Reason.ARTIFACT_MISSING}


def test_artifacts_that_another_cell_needs_do_not_concern_a_cell() -> None:
    cells = [Wish(), Wish(scenario="Server")]
    world = World()
    world.settle(desire(cells))
    missing = {("objects", a.sha256): ArtifactPresence.MISSING for s in world.summaries for a in s.artifacts}
    observed, changed = Observed(artifacts=missing), desire([replace(cells[0], target=99), cells[1]])
    found = summarise_cells(changed, world.recorded, observed, world.compare(changed, observed))
    built = {status.cell: next(c.status for c in status.conditions if c.type == "Built") for status in found}
    assert built == {cells[0].cell: ConditionStatus.FALSE, cells[1].cell: ConditionStatus.TRUE}

    def makes(*scenarios: str) -> set[str]:
        select = Selector((("scenario", scenarios),)) if scenarios else Selector()
        steps = world.plan(changed, Policy(select=select), observed=observed).steps
        return {step.change.address.label for step in steps if step.change.how is Work.MAKE}

    assert makes("server") == set()
    assert makes("offline") == makes() == {"Dataset", "Model", "Engine", "Run performance"}


def render(world: World, desired: Desired) -> Observed:
    """The tree as it was last rendered: just now."""
    known = world.compare(desired)
    results = {str(r.cell): (r, known.chosen[r.cell]) for r in desired.resources if r.kind is Kind.RESULT and r.cell}
    cells = {name: compute_fingerprint(resource, list(chosen.all)) for name, (resource, chosen) in results.items()}
    shared = compute_submission_fingerprint(desired, set(cells), known.chosen)
    return Observed(tree_present=True, rendered={**cells, "submission": shared})


def test_code_that_the_tree_shows_is_rendered_once_the_runs_that_are_due_have_decided_which() -> None:
    desired, world = desire([Wish()]), World()
    world.settle(desired)
    rendered = render(world, desired)
    assert world.compare(desired, rendered).changes == ()
    other = replace(rendered, rendered={**rendered.rendered, "submission": f"{rendered.rendered['submission']}+other"})
    assert [c.address.kind for c in world.compare(desired, other).changes] == [Kind.SUBMISSION]
    due = world.compare(desire([Wish(target=7)]), other).changes
    assert [c.address.label for c in due] == ["Run performance", "Result"]
    unlike = replace(rendered, rendered={**rendered.rendered, "submission": "of another submitter"})
    due = world.compare(desire([Wish(target=7)]), unlike).changes
    assert [c.address.kind for c in due] == [Kind.RUN, Kind.RESULT, Kind.SUBMISSION]


@pytest.mark.parametrize(
    ("frozen", "rendered"),
    [
        ((), True),
        ((Wish(scenario="Server").cell,), False),
        ((Wish().cell,), True),
        ((None,), False),
        ((Wish().cell, Wish(scenario="Server").cell), False),
    ],
    ids=["nothing", "the cell", "another cell", "everything", "both"],
)
def test_a_tree_keeps_an_undeclared_cell_while_frozen(frozen: tuple[Cell | None, ...], rendered: bool) -> None:
    world, both = World(), desire([Wish(), Wish(scenario="Server")])
    world.settle(both)
    tree = render(world, both)
    freezes = {str(n): Freeze(cell, "why", "Ada", "2026-03-01", None, "") for n, cell in enumerate(frozen)}
    decisions = Decisions({}, freezes, {}, date(2026, 3, 15))
    found = compare(desire([Wish()]), world.recorded, tree, decisions=decisions).changes
    assert [(c.address.kind, c.how) for c in found] == ([(Kind.SUBMISSION, Work.RENDER)] if rendered else [])
