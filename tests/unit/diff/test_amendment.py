"""What of a submitted result differs now, and whether that is a correction: values alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.diff.acceptance import Refused
from reconciler.diff.amendment import (
    SubmissionState,
    find_unamended,
    judge_amendment,
    list_differing_inputs,
    list_repeated,
)
from reconciler.diff.change import Chosen
from reconciler.resource.decisions import AcceptedInput, Amendment, KeyChange
from reconciler.resource.kinds import Address, Kind

from .simulated import Wish, World, desire
from .test_acceptance import accepted, with_it

NET, SERVER = Wish(), Wish(scenario="Server")
CELL = NET.cell


def stand(world: World, *wishes: Wish) -> SubmissionState:
    desired = desire(wishes)
    return SubmissionState(desired, world.compare(desired))


def measure(*wishes: Wish) -> tuple[World, SubmissionState]:
    world = World()
    world.settle(desire(wishes))
    return world, stand(world, *wishes)


def repeat(world: World, *modes: str) -> None:
    """The same once more, and published."""
    for mode in modes:
        (run,) = [s for s in world.summaries if s.address == Address(Kind.RUN, f"{CELL}/{mode}")]
        world.summaries.append(replace(run, id=f"Run/again-{mode}", started="2026-01-02T000001"))


def judge(before: SubmissionState, after: SubmissionState) -> tuple[Refused, ...]:
    inputs = list_differing_inputs(before.desired, after.desired, CELL)
    chosen = [standing.difference.chosen.get(CELL, Chosen()) for standing in (before, after)]
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
    assert judge(before, stand(world, corrected)) == ()


def test_what_is_no_correction_is_refused_with_its_reason() -> None:
    world, before = measure(NET)
    nothing = SubmissionState(before.desired, World().compare(before.desired))
    assert judge(nothing, before) == (
        Refused("it has no result in the submitted commit", "pass that commit: --since COMMIT"),
    )
    fix = f"measure it (reconcile cell={CELL}), or withdraw it: remove it from the spec, without an amendment"
    assert judge(before, stand(world, replace(NET, batch=2))) == (
        Refused("it is not complete: Engine, Run accuracy, Run performance, Score must be repeated", fix),
    )
    assert judge(before, stand(world, SERVER)) == (Refused("it is no longer published", fix),)
    assert judge(before, before) == (Refused("it is the same as submitted", "correct it first, then record why"),)
    repeat(world, "performance")
    assert judge(before, stand(world, NET)) == (
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
    after = stand(world, corrected, SERVER)
    was, now = before.results[CELL], after.results[CELL]
    differs = "it differs from the submission, without an amendment"
    more = {SERVER.cell: "it was not submitted"}
    assert find_unamended(before, after, {}) == {CELL: differs, **more}
    assert find_unamended(before, after, {"a": amend(NET, was, now)}) == more
    for other in (amend(NET, now, was), amend(NET, was, "x"), amend(NET, "x", now), amend(SERVER, was, now)):
        assert find_unamended(before, after, {"a": other}) == {CELL: differs, **more}
    assert find_unamended(after, before, {}) == {CELL: differs}
    assert find_unamended(after, stand(world, SERVER), {}) == {}
