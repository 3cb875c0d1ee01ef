"""`reconcile history CELL`: everything that was measured of a cell, over all commits."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler import git
from reconciler.cli.cells import find_cell
from reconciler.cli.options import cell_argument, json_option, takes
from reconciler.cli.output import say, say_json
from reconciler.cli.places import places_for
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.files import write_output
from reconciler.history.past import read_past
from reconciler.render.documents import document
from reconciler.render.plot import svg_plot
from reconciler.render.timeline import history_text, points, unit_of

_SVG = click.Option(
    ["--svg"], type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the plot as SVG."
)


@click.command("history")
@takes([cell_argument(), _SVG, json_option()])
def command(cell: str, svg: Path | None, as_json: bool) -> int:
    """List every committed result of CELL with its commit, value and validity, and plot the performance.

    Results that were removed since are listed, too.
    """
    places = places_for()
    past = read_past(places.root, git.resolve(places.root, "HEAD"))
    found = find_cell(cell, past.cells)
    results = past.measured(found)
    if svg is not None:
        plotted = points(results)
        if not plotted:
            raise ReconcilerError(f"{found}: no performance run to plot", fix="`reconcile` makes one")
        write_output(svg.absolute(), svg_plot(plotted, str(found), unit_of(results)).encode())
    if as_json:
        say_json(document("history", cell=found, results=results))
    else:
        say(history_text(found, results))
    return IN_SYNC
