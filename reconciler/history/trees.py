"""What a submission tree on disk published, for comparing it with others."""

from __future__ import annotations

from pathlib import Path

from reconciler.check.cell_formats import choose_cell_format
from reconciler.diff.timeline import Side
from reconciler.resource.kinds import Cell
from reconciler.rules.programs import find_program_of_tree
from reconciler.tree.reading.survey import refuse_unknown_round, survey_tree
from reconciler.tree.reading.system import SubmitterFiles, SystemFile

_NONE = "N/A"  # accelerator_model_name of a system without one


def read_tree_sides(path: Path) -> dict[Cell, Side]:
    """Of a tree of MLPerf Inference, or of submissions of another program. Raises ReconcilerError when there is
    none, and where no round here says what its results are."""
    if (program := find_program_of_tree(path)) is not None:
        return dict(program.read_sides(path))
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


def _count(system: SystemFile) -> int:
    return (system.whole("number_of_nodes") or 1) * (system.whole("accelerators_per_node") or 0)
