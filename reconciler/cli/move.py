"""`reconcile move CELL --to DIVISION`: enter a cell in another division."""

from __future__ import annotations

import difflib
from pathlib import Path

import click

from reconciler.cli.shared.options import cell_argument, json_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.errors import IN_SYNC
from reconciler.reconcile.cell_move import move_cell
from reconciler.render.documents import render_document
from reconciler.render.plan import LIMIT, render_plan_text
from reconciler.resource.kinds import DIVISIONS

_TO = click.Option(["--to"], required=True, type=click.Choice(DIVISIONS), help="The division to enter it in.")
_DRY = click.Option(["--dry-run"], is_flag=True, help="Only say what would change.")
_CELL = cell_argument()


@click.command("move")
@takes([_CELL, _TO, _DRY, spec_option(), json_option()])
def command(cell: str, to: str, dry_run: bool, specs: tuple[str, ...], as_json: bool) -> int:
    """Move CELL to another division: edit the spec, with its comments, and show what that changes.

    Refused when the round does not allow the cell there. Runs are not repeated: what was measured is the same.
    """
    paths, options = find_asked_cells(specs)
    moved = move_cell(paths, options, cell, to, dry_run=dry_run)
    rows = list(difflib.unified_diff(moved.before.splitlines(), moved.after.splitlines(), lineterm="", n=0))[2:]
    lines = [f"  {row[0]} {Path(moved.file).name}: {row[1:].strip()}" for row in rows if row[0] in "+-"]
    if as_json:
        steps = [step.change.address for step in moved.plan.steps]
        findings = [{"where": f.where, "message": f.message} for f in moved.plan.findings]
        names = {"source": moved.source, "target": moved.target, "file": moved.file, "dry_run": dry_run}
        say_json(render_document("move", **names, lines=lines, steps=steps, findings=findings))
        return IN_SYNC
    said = "Would move" if dry_run else "Moved"
    before = render_plan_text(moved.current, limit=LIMIT).splitlines()[-1]
    say("\n".join([f"{said} {moved.source} to {to}:", *lines, "", "Before:", before, "", "After:"]))
    say(render_plan_text(moved.plan, limit=LIMIT, paint=choose_paint()))
    return IN_SYNC
