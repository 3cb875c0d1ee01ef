"""What values of commits, audits and histories say of themselves."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from reconciler.diff.claims import AuditReport, Claim, Proof, find_worst_proof
from reconciler.diff.host_drift import find_host_drift
from reconciler.diff.impact import CellEffect, Effect, Impact, Remark
from reconciler.diff.timeline import (
    CellChange,
    ChangeCause,
    CurvePair,
    MeasuredValue,
    Pair,
    Side,
    TimelineStep,
    Written,
    drop_repeated,
)
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, Summary

CELL = Cell("open", "box", "net", "Offline")
WRITTEN = Written("c0ffee", "Ada", datetime(2026, 3, 1, tzinfo=UTC), "Measure")


@pytest.mark.parametrize(
    ("effect", "due", "work", "adds"),
    [
        (Effect.ADDED, ("Engine",), True, True),
        (Effect.ADDED, (), False, False),
        (Effect.STALE, ("Engine",), True, True),
        (Effect.STALE, (), False, False),
        (Effect.WAS_STALE, ("Engine",), True, False),
        (Effect.NEVER, ("Engine",), True, False),
        (Effect.REMOVED, ("Engine",), False, False),
        (Effect.SETTLED, ("Engine",), False, False),
        (Effect.ACCEPTED, ("Engine",), False, False),
        (Effect.RENDERED, ("Engine",), False, False),
        (Effect.UNAFFECTED, (), False, False),
    ],
)
def test_merging_makes_work_of_what_is_due_and_adds_what_it_makes_due(
    effect: Effect, due: tuple[str, ...], work: bool, adds: bool
) -> None:
    beside = CellEffect(CELL, Effect.UNAFFECTED)
    impact = Impact("a", "b", (beside, CellEffect(CELL, effect, due)))
    assert (impact.work, impact.adds_work) == (work, adds)


@pytest.mark.parametrize(("level", "errors"), [("error", True), ("warning", False), ("notice", False)])
def test_only_a_remark_that_is_an_error_is_one(level: str, errors: bool) -> None:
    remarks = (Remark("notice", "a", 0, "m"), Remark(level, "a", 0, "m"))
    assert Impact("a", "b", (), remarks=remarks).errors is errors


@pytest.mark.parametrize(
    ("proofs", "worst"),
    [
        ([], Proof.MISSING),
        ([Proof.PROVEN], Proof.PROVEN),
        ([Proof.ATTESTED, Proof.PROVEN], Proof.ATTESTED),
        ([Proof.ATTESTED, Proof.ACCEPTED, Proof.PROVEN], Proof.ACCEPTED),
        ([Proof.MISSING, Proof.ACCEPTED], Proof.MISSING),
        ([Proof.PROVEN, Proof.CONTRADICTED, Proof.MISSING], Proof.CONTRADICTED),
    ],
    ids=["nothing", "proven", "attested", "accepted", "missing", "contradicted"],
)
def test_a_report_is_as_good_as_its_worst_claim(proofs: list[Proof], worst: Proof) -> None:
    assert find_worst_proof(proofs) is worst
    assert AuditReport("c0ffee", tuple(Claim("a", "b", proof) for proof in proofs)).proof is worst


def summary(name: str, **noted: str) -> Summary:
    address = Address(Kind.RUN, f"{CELL}/{name}")
    return Summary(name, address, "key", Ended.DONE, "", 1.0, (), noted=tuple(noted.items()))


def test_another_machine_or_kernel_is_told_against_the_published_performance_run() -> None:
    published = summary("performance", host="one", kernel="6.1")
    others = (summary("accuracy", host="two", kernel="6.1"), summary("score", kernel="6.2", disk="nvme"))
    assert [(d.address, d.what, d.repair) for d in find_host_drift(published, others)] == [
        (others[0].address, "host (two, of the performance run one)", "the rules allow it"),
        (others[1].address, "kernel (6.2, of the performance run 6.1)", "the rules allow it"),
    ]
    assert list(find_host_drift(None, others)) == []
    assert list(find_host_drift(published, [published])) == []


def value(text: str) -> MeasuredValue:
    return MeasuredValue("r", "Score", "", text, "acc", "", (), WRITTEN, kept=True)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [("100", "110", 0.1), ("100", "90", -0.1), ("100", "100", 0.0), ("0", "5", None), ("", "5", None), ("5", "", None)],
)
def test_a_step_changes_by_a_part_of_what_was(before: str, after: str, change: float | None) -> None:
    found = TimelineStep(value(before), value(after), ()).change
    assert found == (None if change is None else pytest.approx(change))


def test_a_cause_is_told_once() -> None:
    one, other = ChangeCause("Engine", "batch", [1], [2]), ChangeCause("Engine", "batch", [1], [3])
    assert drop_repeated([one, other, one, ChangeCause("Engine", "batch", [1], [2])]) == (one, other)


@pytest.mark.parametrize(
    ("declared", "causes", "after", "same"),
    [
        ((True, True), (), ("1", "s"), True),
        ((True, False), (), ("1", "s"), False),
        ((False, True), (), ("1", "s"), False),
        ((True, True), (ChangeCause("Run", "target_qps", 1, 2),), ("1", "s"), False),
        ((True, True), (), ("2", "s"), False),
        ((True, True), (), None, False),
    ],
)
def test_a_cell_is_the_same_at_two_commits_where_nothing_of_it_differs(
    declared: tuple[bool, bool], causes: tuple[ChangeCause, ...], after: tuple[str, str] | None, same: bool
) -> None:
    assert CellChange(CELL, declared, causes, ("1", "s"), after).same is same


@pytest.mark.parametrize(
    ("one", "other", "ratio", "each"),
    [
        (Side(CELL, "100", "samples/s", count=2), Side(CELL, "300", "samples/s", count=3), 3.0, 2.0),
        (Side(CELL, "100", "samples/s", count=1), Side(CELL, "50", "samples/s", count=1), 0.5, 0.5),
        (Side(CELL, "100", "samples/s"), Side(CELL, "300", "samples/s", count=3), 3.0, None),
        (Side(CELL, "100", "samples/s", count=2), Side(CELL, "300", "samples/s"), 3.0, None),
        (Side(CELL, "4", "ms", count=2), Side(CELL, "8", "ms", count=2), 2.0, None),
        (Side(CELL, "4", "ms", count=2), Side(CELL, "8", "samples/s", count=2), None, None),
        (Side(CELL, "", "samples/s", count=2), Side(CELL, "8", "samples/s", count=2), None, None),
    ],
    ids=["more of them", "one each", "nobody counts ours", "nobody counts theirs", "a latency", "units", "no result"],
)
def test_two_sides_are_compared_whole_and_by_accelerator(
    one: Side, other: Side, ratio: float | None, each: float | None
) -> None:
    pair = Pair(one, other)
    assert (pair.ratio, pair.per_accelerator) == (ratio, each)


@pytest.mark.parametrize(
    ("other", "likeness"),
    [
        (Side(CELL, "1", "s", count=8, accelerator="H100"), (True, True, True)),
        (Side(Cell("closed", "x", "net", "Offline"), "1", "s", count=8, accelerator="H100"), (False, True, True)),
        (Side(CELL, "1", "s", count=4, accelerator="H200"), (True, False, False)),
        (Side(CELL, "1", "s", count=8), (True, False, True)),
    ],
    ids=["alike", "another division", "another accelerator", "an accelerator that is not told"],
)
def test_two_sides_are_alike_by_division_accelerator_and_count(other: Side, likeness: tuple[bool, ...]) -> None:
    assert Pair(Side(CELL, "1", "s", count=8, accelerator="H100"), other).likeness == likeness
    assert Pair(Side(CELL, "1", "s"), Side(CELL, "1", "s")).likeness == (True, False, True)


def test_a_side_is_known_by_its_official_benchmark_and_by_its_curve() -> None:
    own = Side(CELL, "1", "s")
    assert (own.task, own.curve) == (("net", "Offline"), "open/box/net")
    assert Side(CELL, "1", "s", entered="resnet").task == ("resnet", "Offline")


def test_two_curves_are_compared_by_their_peaks() -> None:
    pair = CurvePair(("a", "b"), (3, 3), (Decimal(100), Decimal(250)), ((), ()))
    assert pair.ratio == 2.5
