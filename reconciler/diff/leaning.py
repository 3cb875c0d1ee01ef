"""Cells without an accuracy run of their own: that of another cell counts for them, and must have met the same
system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reconciler.desired.state import Desired
from reconciler.diff.run_selection import find_differing_evidence
from reconciler.resource.kinds import ACCURACY, PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.records import Summary
from reconciler.resource.resources import Resource


def list_leaning(desired: Desired) -> dict[Address, tuple[Resource, ...]]:
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


def find_newer(accuracy: Summary, leaning: Mapping[Cell, Summary], allowed: Iterable[str]) -> str:
    """Why an accuracy run cannot stand for the cells that lean on it: one was measured later, on another system; ""
    where it can."""
    for cell, run in leaning.items():
        unequal = find_differing_evidence(run, accuracy, frozenset(allowed))
        if unequal and accuracy.started <= run.started:
            names = ", ".join(name for name, _, _ in unequal)
            return f"{names} is not that of the performance run of {cell.scenario}"
    return ""
