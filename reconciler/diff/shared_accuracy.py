"""Cells without an accuracy run of their own: that of another cell counts for them, and must have met the same
system."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from reconciler.desired.state import Desired
from reconciler.diff.change import Action, Change, Reason
from reconciler.diff.run_selection import RecordedRuns, find_differing_evidence, select_published
from reconciler.resource.kinds import ACCURACY, PERFORMANCE, Address, Kind, RunAddress
from reconciler.resource.records import Summary
from reconciler.resource.resources import Resource


class RunSelection(RecordedRuns, Protocol):
    """And what is written of it."""

    forced: frozenset[Address]
    changes: dict[Address, Change]

    def plan_change(
        self, resource: Resource, action: Action, reason: Reason, note: str = "", **extra: object
    ) -> None: ...


def list_accuracy_dependents(desired: Desired) -> dict[Address, tuple[Resource, ...]]:
    """Accuracy run → the performance runs of other cells that it counts for."""
    found: dict[Address, list[Resource]] = {}
    for resource in desired.resources:
        cell = resource.cell
        if cell is None or resource.kind is not Kind.RUN or resource.address.mode != PERFORMANCE:
            continue
        if RunAddress(cell, ACCURACY).address not in desired.by_address:
            result = desired.by_address[Address(Kind.RESULT, str(cell))]
            source = next(up for up in result.upstream if up.mode == ACCURACY)
            found.setdefault(source, []).append(resource)
    return {source: tuple(runs) for source, runs in found.items()}


def repeat_outdated(
    walk: RunSelection,
    runs: Iterable[Resource],
    accuracy_run: Summary,
    dependents: Iterable[Resource],
    allowed: frozenset[str],
) -> None:
    """Repeat both ``runs`` of the cell with accuracy run ``accuracy_run`` where a cell that shares it was measured
    later, on another system: an accuracy run belongs to the performance run of its own cell."""
    for run in dependents:
        if run.address in walk.forced or run.cell is None:
            continue
        published, _ = select_published(walk, run, (accuracy_run,), allowed)
        unequal = find_differing_evidence(published, accuracy_run, allowed) if published is not None else ()
        if published is not None and unequal and accuracy_run.started <= published.started:
            names = ", ".join(name for name, _, _ in unequal)
            note = f"{names} is not that of the performance run of {run.cell.scenario}"
            for due in runs:
                if due.address not in walk.changes:
                    walk.plan_change(due, Action.REPLACE, Reason.EVIDENCE_DIFFERS, note)
