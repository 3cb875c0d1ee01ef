"""What is accepted, for whom, and what never can be; what of a submitted result differs now: values alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.acceptance import BUILT, Refused, judge_acceptance, propose_acceptance, spread
from reconciler.diff.amendment import (
    SubmissionState,
    find_unamended,
    judge_amendment,
    list_differing_inputs,
    list_repeated,
)
from reconciler.diff.change import Change, Chosen, Difference, InputChange, Reason, Work
from reconciler.diff.conditions import trace_lineages
from reconciler.diff.difference import compare
from reconciler.observed.state import Observed
from reconciler.resource.decisions import (
    Acceptance,
    AcceptanceStatus,
    AcceptedInput,
    AcceptedKey,
    Amendment,
    Decisions,
    Freeze,
    KeyChange,
)
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
    decided = {str(number): item for number, item in enumerate(items)}
    return compare(desired, world.recorded, Observed(), decisions=Decisions(decided, {}, {}, TODAY))


def due(difference: Difference) -> set[Address]:
    return {change.address for change in difference.changes if change.how is Work.MAKE}


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
    assert [item.why for item in refused] == ["Run performance: it has no record to accept"]


def test_other_evidence_within_a_cell_is_never_accepted() -> None:
    """Engine bytes, code or software that differ between the accuracy and the performance run."""
    world, desired = settled(BEFORE[:1]), desire(BEFORE[:1])
    at = next(i for i, s in enumerate(world.summaries) if s.address.name.endswith("/performance"))
    world.summaries[at] = replace(world.summaries[at], evidence=(("engine", "other bytes"),))
    assert Reason.EVIDENCE_DIFFERS in {change.reason for change in world.compare(desired).changes}
    _, refused = accepting(world, desired, BEFORE[0].cell)
    assert "published together only with the same engine, code and software" in refused[0].why
    changed = desire(AFTER[:1])
    keys, _ = accepting(world, changed, AFTER[0].cell)
    forced = Acceptance(AFTER[0].cell, "why", "Ada <a@b>", "2026-03-01", date(2026, 4, 1), "", keys)
    left = with_it(world, changed, forced).changes
    assert Reason.EVIDENCE_DIFFERS in {change.reason for change in left}


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
        decided = {str(number): item for number, item in enumerate(self.items)}
        decisions = Decisions(decided, {}, {}, TODAY)
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


def test_one_that_was_measured_in_part_is_in_force_and_ends_once_all_is_measured_or_one_is_gone() -> None:
    world, desired = settled(BEFORE[:1]), desire(AFTER[:1])
    item = accepted(world, desired, AFTER[0].cell)
    runs = [key for key in item.accepted if key.address.kind not in BUILT]
    assert len(runs) == 3
    like = world.summaries[-1]

    def status(*keys: str, without: str = "") -> AcceptanceStatus:
        other = World([*(s for s in world.summaries if s.key != without), *(replace(like, key=key) for key in keys)])
        return judge_acceptance(item, desired, other.recorded, TODAY)

    after = [key.key.after for key in runs]
    assert status(*after) is AcceptanceStatus.MEASURED
    assert status(*after[:2]) is status(*after[1:]) is status() is AcceptanceStatus.IN_FORCE
    assert status(without=runs[0].key.before) is AcceptanceStatus.CHANGED
    assert status(after[0], without=runs[0].key.before) is AcceptanceStatus.IN_FORCE
    engine = next(key for key in item.accepted if key.address.kind is Kind.ENGINE)
    assert status(without=engine.key.before) is AcceptanceStatus.IN_FORCE  # no one measured with it what counts


FROZEN = Freeze(Wish().cell, "why", "Ada", "2026-03-01", None, "")


def test_a_freeze_holds_for_every_cell_that_publishes_a_run_of_a_frozen_one() -> None:
    desired = desire([Wish(), Wish(scenario="Server")])
    source = desired.by_address[Address(Kind.RESULT, str(Wish().cell))]
    other = replace(Wish().cell, scenario="SingleStream")
    inferred = replace(source, address=Address(Kind.RESULT, str(other)), cell=other)
    resources = (*desired.resources, inferred)
    whole, server = replace(FROZEN, cell=None), replace(FROZEN, cell=Wish(scenario="Server").cell)
    own = replace(FROZEN, cell=other, reason="its own")
    for freezes, also in (
        ((FROZEN,), (replace(FROZEN, cell=other),)),
        ((server,), ()),
        ((whole,), ()),
        ((whole, FROZEN), ()),
        ((own, FROZEN), ()),
        ((), ()),
    ):
        assert spread(freezes, resources) == (*freezes, *also)


@pytest.mark.parametrize(
    ("name", "origin", "why"),
    [
        (
            "hardware.count",
            "specs/a.yaml",
            "hardware.count 1 → 2: a result is valid only for the machine that it was measured on",
        ),
        (
            "system.name",
            "specs/a.yaml",
            "system.name 1 → 2: a result is valid only for the machine that it was measured on",
        ),
        ("min_duration", "round v6.1", "min_duration 1 → 2: round v6.1 sets it for every result"),
        ("rehearsal", "specs/a.yaml", "rehearsal 1 → 2: a rehearsal's results always remain a rehearsal"),
        ("system.names", "rounds", ""),
        ("batch", "specs/a.yaml", ""),
    ],
)
def test_what_the_rules_forbid_is_refused_once_with_what_to_do(name: str, origin: str, why: str) -> None:
    world, desired, cell = settled(BEFORE[:1]), desire(AFTER[:1]), AFTER[0].cell
    upstream = Address(Kind.MODEL, "net")

    def reported(_: Change) -> tuple[InputChange, ...]:
        made = InputChange("hardware.made", 1, 2, Origin(str(upstream)), "", upstream)
        return (InputChange(name, 1, 2, Origin(origin)), made)

    keys, refused = propose_acceptance(
        cell, trace_lineages(desired)[cell], world.compare(desired), world.recorded, reported
    )
    assert refused == ((Refused(why, "run `reconcile` to create it again"),) if why else ())
    assert {key.address.label for key in keys} == {"Engine", "Run accuracy", "Run performance", "Score"}
    assert {
        name: (item.before, item.after, item.origin) for item_of in keys for name, item in item_of.inputs.items()
    } == {name: (1, 2, origin)}


def test_what_fits_is_not_accepted_and_says_why() -> None:
    world, desired, cell = settled(BEFORE[:1]), desire(BEFORE[:1]), BEFORE[0].cell
    fits = Refused("it matches the spec; nothing to accept", f"run: reconcile why {cell}")
    assert accepting(world, desired, cell) == ((), (fits,))
    (at,) = (n for n, s in enumerate(world.summaries) if s.address.mode == "performance")
    world.summaries[at] = replace(world.summaries[at], validity="INVALID", problem="too slow")
    keys, (refused,) = accepting(world, desired, cell)
    assert (keys, refused.why) == ((), "too slow: only changed inputs can be accepted, not findings")
    assert refused.fix == "change the target as the message says, raise `attempts`, or repeat with --rerun"


NET, SERVER = Wish(), Wish(scenario="Server")
CELL = NET.cell


def compute_state(world: World, *wishes: Wish) -> SubmissionState:
    desired = desire(wishes)
    return SubmissionState(desired, world.compare(desired))


def measure(*wishes: Wish) -> tuple[World, SubmissionState]:
    world = World()
    world.settle(desire(wishes))
    return world, compute_state(world, *wishes)


def repeat(world: World, *modes: str) -> None:
    """The same once more, and published."""
    for mode in modes:
        (run,) = [s for s in world.summaries if s.address == Address(Kind.RUN, f"{CELL}/{mode}")]
        world.summaries.append(replace(run, id=f"Run/again-{mode}", started="2026-01-02T000001"))


def judge(before: SubmissionState, after: SubmissionState) -> tuple[Refused, ...]:
    inputs = list_differing_inputs(before.desired, after.desired, CELL)
    chosen = [state.difference.chosen.get(CELL, Chosen()) for state in (before, after)]
    return judge_amendment(CELL, before, after, inputs, list_repeated(*chosen))


def test_inputs_differ_by_resource_and_name_and_never_by_a_key() -> None:
    before, after = desire([NET, SERVER]), desire([replace(NET, batch=2, note=1), replace(SERVER, target=9)])
    assert list_differing_inputs(before, after, CELL) == {
        "Engine: batch": AcceptedInput(1, 2, "default"),
        "Result: note": AcceptedInput(0, 1, "default"),
    }
    more = desire([replace(NET, policy="best")])
    assert list_differing_inputs(before, more, CELL) == {
        "Result: policy.publish": AcceptedInput(None, "best", "default")
    }
    assert list_differing_inputs(more, before, CELL) == {"Result: policy.publish": AcceptedInput("best", None, "")}
    assert list_differing_inputs(before, before, CELL) == {}


@pytest.mark.parametrize(
    ("now", "repeated"),
    [
        ({}, ()),
        ({"performance": "p2"}, ("performance",)),
        ({"score": "s2", "accuracy": "a2"}, ("accuracy", "score")),
        ({"performance": ""}, ()),
        ({"tests": (("TEST01", "t2"), ("TEST04", "u1"))}, ("TEST01",)),
        ({"tests": (("TEST01", "t1"), ("TEST04", "u1"), ("TEST06", "v1"))}, ("TEST06",)),
        ({"tests": ()}, ()),
    ],
    ids=["nothing", "a run", "accuracy", "a run that is not there", "a test", "a test more", "no test"],
)
def test_what_is_published_of_another_record_is_repeated(now: dict[str, object], repeated: tuple[str, ...]) -> None:
    before = Chosen("p1", "a1", "s1", tests=(("TEST01", "t1"), ("TEST04", "u1")))
    assert list_repeated(before, replace(before, **now)) == repeated  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"note": 1}, {"batch": 2}, {"target": 2}], ids=str)
def test_other_inputs_are_a_correction_once_their_results_are_there(change: dict[str, int]) -> None:
    world, before = measure(NET)
    corrected = replace(NET, **change)  # type: ignore[arg-type]
    world.settle(desire([corrected]))
    assert judge(before, compute_state(world, corrected)) == ()


def test_what_is_no_correction_is_refused_with_its_reason() -> None:
    world, before = measure(NET)
    nothing = SubmissionState(before.desired, World().compare(before.desired))
    assert judge(nothing, before) == (
        Refused("it has no result in the submitted commit", "pass that commit: --since COMMIT"),
    )
    fix = f"measure it (reconcile cell={CELL}), or withdraw it: remove it from the spec, without an amendment"
    assert judge(before, compute_state(world, replace(NET, batch=2))) == (
        Refused("it is not complete: Engine, Run accuracy, Run performance, Score must be repeated", fix),
    )
    assert judge(before, compute_state(world, SERVER)) == (Refused("it is no longer published", fix),)
    assert judge(before, before) == (Refused("it is the same as submitted", "correct it first, then record why"),)
    repeat(world, "performance")
    assert judge(before, compute_state(world, NET)) == (
        Refused(
            "performance was repeated with the same inputs, which is not a correction",
            "publish the submitted run: set the policy `publish`, or remove the later records",
        ),
    )


def test_accepted_results_correct_nothing() -> None:
    world, before = measure(NET)
    asked = desire([replace(NET, batch=2)])
    after = SubmissionState(asked, with_it(world, asked, accepted(world, asked, CELL)))
    (refused,) = judge(before, after)
    assert refused.why == "its results are accepted, not measured from this spec, and cannot correct a submission"
    assert refused.fix == f"measure it: reconcile accept {CELL} --revoke, then reconcile cell={CELL}"


def amend(cell: Wish, before: str, after: str) -> Amendment:
    return Amendment(cell.cell, "", "", "Ada", "", "", KeyChange(before, after), {}, (), ("", ""))


def test_only_an_amendment_of_exactly_this_difference_explains_it() -> None:
    world, before = measure(NET)
    corrected = replace(NET, note=1)
    world.settle(desire([corrected, SERVER]))
    after = compute_state(world, corrected, SERVER)
    was, now = before.results[CELL], after.results[CELL]
    differs = "it differs from the submission, without an amendment"
    more = {SERVER.cell: "it was not submitted"}
    assert find_unamended(before, after, {}) == {CELL: differs, **more}
    assert find_unamended(before, after, {"a": amend(NET, was, now)}) == more
    for other in (amend(NET, now, was), amend(NET, was, "x"), amend(NET, "x", now), amend(SERVER, was, now)):
        assert find_unamended(before, after, {"a": other}) == {CELL: differs, **more}
    assert find_unamended(after, before, {}) == {CELL: differs}
    assert find_unamended(after, compute_state(world, SERVER), {}) == {}
