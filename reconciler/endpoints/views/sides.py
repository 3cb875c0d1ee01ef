"""Points of published submissions, for comparing them with others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from reconciler.diff.timeline import Side
from reconciler.endpoints.results.accuracy import show_plain
from reconciler.endpoints.tree.reading import find_implementation, find_submissions
from reconciler.resource.kinds import Cell, name_point


def read_sides(path: Path) -> Iterator[tuple[Cell, Side]]:
    """Points of every curve, each called as `adopt` calls it."""
    curves = (curve for item in find_submissions(path) for system in item.systems for curve in system.curves)
    for curve in curves:
        benchmark, division = find_implementation(curve) or curve.model, curve.division.strip().lower()
        drawn = {point.concurrency: point for point in curve.pareto.points}
        for folder in curve.points:
            measured, cell = folder.measured, Cell(division, curve.system, benchmark, name_point(folder.named))
            if measured is not None:
                offline = measured.is_offline
                side = Side(cell, show_plain(measured.system_tps), "tokens/s", entered=curve.model, offline=offline)
                yield cell, side if offline else replace(side, point=drawn.get(measured.concurrency))
