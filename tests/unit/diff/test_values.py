"""What values of commits, audits and histories say of themselves."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.diff.change import Chosen, InputChange, list_input_changes
from reconciler.diff.difference import find_host_drift
from reconciler.diff.fingerprint import (
    RENDERER,
    compute_fingerprint,
    compute_submission_fingerprint,
    differ_only_in_code,
)
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
from reconciler.resource.canonical import digest
from reconciler.resource.inputs import DEFAULT, Input, Origin, make_key
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, RecordedInput, Summary
from tests.unit.diff.simulated import Wish, desire

CELL = Cell("open", "box", "net", "Offline")


WRITTEN = Written("c0ffee", "Ada", datetime(2026, 3, 1, tzinfo=UTC), "Measure")


def summary(name: str, **noted: str) -> Summary:
    address = Address(Kind.RUN, f"{CELL}/{name}")
    return Summary(name, address, "key", Ended.DONE, "", 1.0, (), noted=tuple(noted.items()))


def test_another_machine_or_kernel_is_reported_against_the_published_performance_run() -> None:
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
    ids=["more of them", "one each", "ours is not counted", "theirs is not counted", "a latency", "units", "no result"],
)
def test_sides_are_compared_by_accelerator(one: Side, other: Side, ratio: float | None, each: float | None) -> None:
    pair = Pair(one, other)
    assert (pair.ratio, pair.per_accelerator) == (ratio, each)


def test_two_curves_are_compared_by_their_peaks() -> None:
    pair = CurvePair(("a", "b"), (3, 3), (Decimal(100), Decimal(250)), ((), ()))
    assert pair.ratio == 2.5


names = st.sampled_from(["batch", "engine", "dataset", "scenario", "target_qps", "version"])


values = st.dictionaries(names, st.none() | st.integers(0, 3) | st.text("ab", max_size=2), max_size=6)


HERE = Origin("specs/a.yaml", 3, 5)


def inputs(found: dict[str, object]) -> tuple[Input, ...]:
    return tuple(Input(name, value, HERE) for name, value in found.items())


def recorded(found: dict[str, object]) -> dict[str, RecordedInput]:
    return {name: RecordedInput(value, "before:1") for name, value in found.items() if value is not None}


@settings(max_examples=80)
@given(values, values)
def test_nothing_differs_exactly_when_the_keys_are_equal(now: dict[str, object], before: dict[str, object]) -> None:
    changes = list_input_changes(inputs(now), recorded(before))
    keys = make_key(Kind.ENGINE, inputs(now)), make_key(Kind.ENGINE, inputs(before))
    assert (changes == ()) == (keys[0] == keys[1])


def test_an_input_that_is_gone_is_reported_where_the_spec_speaks_of_the_rest() -> None:
    before = recorded({"batch": 1})
    implied, declared = Input("dataset", None, DEFAULT), Input("engine", None, HERE)
    assert [c.origin for c in list_input_changes((implied, declared), before)] == [HERE]
    assert [c.origin for c in list_input_changes((implied,), before)] == [DEFAULT]
    assert [c.origin for c in list_input_changes((), before)] == [DEFAULT]


@settings(max_examples=80)
@given(values, values)
def test_own_inputs_come_first_each_set_in_order(now: dict[str, object], before: dict[str, object]) -> None:
    changes = list_input_changes(inputs(now), recorded(before))
    assert list(changes) == sorted(changes, key=lambda c: (c.upstream is not None, c.name))
    assert [c.name for c in changes if c.before == c.after] == []


def test_change_says_where_it_was_set_and_where_it_was_set_before() -> None:
    changes = list_input_changes(inputs({"batch": 8}), recorded({"batch": 4}))
    assert changes == (InputChange("batch", 4, 8, HERE, "before:1"),)


WISHES = (Wish(), Wish("other"))


CELLS = {str(wish.cell) for wish in WISHES}


def fingerprint(*codes: str, cells: set[str] = CELLS) -> str:
    """Of results whose runs kept this code, by its digest; "" for one that kept none."""
    chosen = {wish.cell: Chosen(code=code) for wish, code in zip(WISHES, codes, strict=True)}
    return compute_submission_fingerprint(desire(WISHES), cells, chosen)


def test_shared_files_are_a_function_of_what_is_shared_of_the_cells_and_of_the_renderer() -> None:
    """Trees that were rendered before are known by it."""
    shared = (Input("system.box.status", "available"), Input("submitter", "ACME"))
    desired = replace(desire(WISHES), shared=shared)
    values = {
        "cells": sorted(CELLS),
        "renderer": RENDERER,
        "shared": [["system.box.status", "available"], ["submitter", "ACME"]],
    }
    assert compute_submission_fingerprint(desired, CELLS, {}) == digest(values)
    assert compute_submission_fingerprint(desired, set(), {}) == digest({**values, "cells": []})


def test_other_code_of_a_run_is_another_submission_that_differs_in_its_code_alone() -> None:
    alike = [fingerprint("", ""), fingerprint("a", ""), fingerprint("a", "b"), fingerprint("b", "a")]
    assert len(set(alike)) == len(alike)
    assert all(differ_only_in_code(one, other) for one in alike for other in alike)


def test_files_of_a_cell_are_a_function_of_its_key_its_records_and_the_renderer() -> None:
    """Trees that were rendered before are known by it."""
    result = desire(WISHES).resources[-1]
    text = f"{result.key} Run/1 Run/2 {RENDERER}"
    assert compute_fingerprint(result, ["Run/1", "Run/2"]) == hashlib.sha256(text.encode()).hexdigest()
