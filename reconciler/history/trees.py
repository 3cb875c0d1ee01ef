"""What a submission tree on disk published, for comparing it with others."""

from __future__ import annotations

from pathlib import Path

from reconciler.diff.timeline import Side
from reconciler.resource.kinds import Cell
from reconciler.tree.reading.facts import read_metric
from reconciler.tree.reading.survey import survey_tree
from reconciler.tree.reading.system import SubmitterFiles, SystemFile

_NONE = "N/A"  # accelerator_model_name of a system without one


def read_tree_sides(path: Path) -> dict[Cell, Side]:
    """Raises ReconcilerError when there is no tree."""
    found = {}
    for tree in survey_tree(path):
        for submitter in tree.root.submitters:
            files = SubmitterFiles(submitter)
            for place in submitter.cells():
                system = files.system(place.cell.system)
                view = tree.view(submitter, place, system, tree.official(files, place.cell.benchmark))
                value, unit = read_metric(view)
                if value is not None:
                    validity = view.performance.log.validity if view.performance else ""
                    named = system.text("accelerator_model_name") or ""
                    accelerator = "" if named == _NONE else named
                    found[place.cell] = Side(place.cell, f"{value:g}", unit, validity, _count(system), accelerator)
    return found


def _count(system: SystemFile) -> int:
    return (system.whole("number_of_nodes") or 1) * (system.whole("accelerators_per_node") or 0)
