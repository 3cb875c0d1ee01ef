"""`reconcile blame CELL`: which commits changed what a cell is made from, and what each did to its result."""

from __future__ import annotations

import click

from reconciler import git
from reconciler.cli.cells import find_cell
from reconciler.cli.options import cell_argument, json_option, takes
from reconciler.cli.output import say, say_json
from reconciler.cli.places import places_for
from reconciler.errors import IN_SYNC
from reconciler.history.past import read_past
from reconciler.render.documents import document, plain_value
from reconciler.render.timeline import blame_text


@click.command("blame")
@takes([cell_argument(), json_option()])
def command(cell: str, as_json: bool) -> int:
    """Say which inputs changed from each committed result of CELL to the next, by which commit, and with what effect.

    Inputs of what the runs were made from (engine, model, dataset) count, too, and evidence that differs (driver, code,
    machine), which no commit of the spec changed.
    """
    places = places_for()
    past = read_past(places.root, git.resolve(places.root, "HEAD"))
    found = find_cell(cell, past.cells)
    steps = past.steps(found)
    if as_json:
        parts = [{**plain_value(step), "change": step.change} for step in steps]
        say_json(document("blame", cell=found, steps=parts))
    else:
        say(blame_text(found, steps))
    return IN_SYNC
