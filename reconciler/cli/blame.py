"""`reconcile blame CELL`: which commits changed what a cell is made from, and what each did to its result."""

from __future__ import annotations

import click

from reconciler.cli.shared.cells import find_measured_cell
from reconciler.cli.shared.options import cell_argument, json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.past_records import read_past
from reconciler.cli.shared.plan_options import list_declared_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC
from reconciler.render.documents import convert_plain_value, render_document
from reconciler.render.timeline import render_blame_text


@click.command("blame")
@takes([cell_argument(), json_option()])
def command(cell: str, as_json: bool) -> int:
    """Show which inputs changed from each committed result of CELL to the next, by which commit, and with what effect.

    Includes inputs of engine, model and dataset, and evidence that differs (driver, code, machine).
    """
    paths = find_repository()
    past = read_past(paths)
    found = find_measured_cell(cell, past.cells, lambda: list_declared_cells(paths))
    steps = past.steps(found)
    if as_json:
        parts = [{**convert_plain_value(step), "change": step.change} for step in steps]
        say_json(render_document("blame", cell=found, steps=parts))
    else:
        say(render_blame_text(found, steps))
    return IN_SYNC
