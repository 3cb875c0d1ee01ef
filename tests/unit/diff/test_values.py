"""What values of commits, audits and histories say of themselves."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from reconciler.diff.host_drift import find_host_drift
from reconciler.diff.timeline import (
    CellChange,
    ChangeCause,
    CurvePair,
    MeasuredValue,
    Pair,
    Side,
    TimelineStep,
    Written,
)
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, Summary

CELL = Cell("open", "box", "net", "Offline")
WRITTEN = Written("c0ffee", "Ada", datetime(2026, 3, 1, tzinfo=UTC), "Measure")


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


def test_two_curves_are_compared_by_their_peaks() -> None:
    pair = CurvePair(("a", "b"), (3, 3), (Decimal(100), Decimal(250)), ((), ()))
    assert pair.ratio == 2.5
