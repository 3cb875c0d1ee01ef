"""`reconcile history CELL`: everything that was measured of a cell, over all commits."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.shared.cells import find_cell, find_measured_cell
from reconciler.cli.shared.options import cell_argument, json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.past_records import read_past
from reconciler.cli.shared.plan_options import list_declared_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.render.documents import render_document
from reconciler.render.svg import draw_series
from reconciler.render.timeline import collect_points, find_unit, render_history_text
from reconciler.resource.kinds import Cell
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.leftovers import write_output
from reconciler.tune.records import list_trials
from reconciler.tune.report import render_trial_part, render_trials_text

_SVG = click.Option(
    ["--svg"], type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the plot as SVG."
)
_TRIALS = click.Option(
    ["--trials"], is_flag=True, help="List the trials of this machine instead, which `try` and `tune` made."
)


@click.command("history")
@takes([cell_argument(), _SVG, _TRIALS, json_option()])
def command(cell: str, svg: Path | None, trials: bool, as_json: bool) -> int:
    """List every committed result of CELL with its commit, value and validity, and plot the performance.

    Results that were removed since are listed, too.
    """
    paths = find_repository()
    if trials:
        return _report_trials(paths, find_cell(cell, list_declared_cells(paths)), as_json=as_json)
    past = read_past(paths)
    found = find_measured_cell(cell, past.cells, lambda: list_declared_cells(paths))
    results = past.list_measured(found)
    if svg is not None:
        plotted = collect_points(results)
        if not plotted:
            raise ReconcilerError(f"{found}: no performance run to plot", fix="`reconcile` makes one")
        write_output(svg.absolute(), draw_series(plotted, str(found), find_unit(results)).encode())
    if as_json:
        say_json(render_document("history", cell=found, results=results))
    else:
        say(render_history_text(found, results))
    return IN_SYNC


def _report_trials(paths: RepositoryPaths, cell: Cell, *, as_json: bool) -> int:
    runs = list_trials(paths, cell)
    if as_json:
        say_json(render_document("history", cell=cell, trials=[render_trial_part(run) for run in runs]))
    else:
        say(render_trials_text(str(cell), runs))
    return IN_SYNC
