"""What a submission tree on disk published, for comparing it with others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from reconciler.check.cell_formats import choose_cell_format
from reconciler.diff.timeline import Side
from reconciler.resource.kinds import Cell, name_point
from reconciler.rules.endpoints_accuracy import show_plain
from reconciler.tree.curve.reading import find_implementation, find_submissions, is_endpoints_submission
from reconciler.tree.reading.survey import refuse_unknown_round, survey_tree
from reconciler.tree.reading.system import SubmitterFiles, SystemFile

_NONE = "N/A"  # accelerator_model_name of a system without one


def read_tree_sides(path: Path) -> dict[Cell, Side]:
    """Of a tree of MLPerf Inference, or of submissions of MLPerf Endpoints. Raises ReconcilerError when there is
    none, and where no round here says what its results are."""
    if is_endpoints_submission(path):
        return dict(_read_points(path))
    found = {}
    for tree in survey_tree(path):
        refuse_unknown_round(tree)
        for submitter in tree.root.submitters:
            files = SubmitterFiles(submitter)
            for place in submitter.cells():
                system = files.system(place.cell.system)
                view = tree.view(submitter, place, system, tree.official(files, place.cell.benchmark))
                value, unit = choose_cell_format(view).read_metric(view)
                if value is not None:
                    validity = view.performance.log.validity if view.performance else ""
                    named = system.text("accelerator_model_name") or ""
                    accelerator = "" if named == _NONE else named
                    found[place.cell] = Side(place.cell, f"{value:g}", unit, validity, _count(system), accelerator)
    return found


def _read_points(path: Path) -> Iterator[tuple[Cell, Side]]:
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


def _count(system: SystemFile) -> int:
    return (system.whole("number_of_nodes") or 1) * (system.whole("accelerators_per_node") or 0)
