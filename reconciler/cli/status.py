"""`reconcile status`: cells x conditions with results, and the queued jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from reconciler.cli.shared.options import reporting_options, selection_options, split_words, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.plan_options import choose_exit_code, compute_selected_plan, find_asked_cells
from reconciler.execute.outcome import QueuedStep
from reconciler.execute.queue_status import watch_jobs
from reconciler.observed.pass_in_progress import find_pass_in_progress
from reconciler.reconcile.moved_sources import list_moved_sources
from reconciler.reconcile.planning import PlanResult, list_cells
from reconciler.render.documents import render_cells_part, render_document
from reconciler.render.plan import LIMIT, render_finding_lines
from reconciler.render.status import render_status_text, render_under_way_text
from reconciler.resource.conditions import CellStatus
from reconciler.resource.programs import find_program
from reconciler.rules.programs import load_program


@click.command("status")
@takes([split_words(), *selection_options(), *reporting_options()])
def command(
    words: tuple[str, ...], exclude: tuple[str, ...], only: tuple[str, ...], deep: bool, as_json: bool, show_all: bool
) -> int:
    """Show for each cell whether it is built, accurate, performed, valid, audited, rendered and ready, and what it
    measured."""
    paths, options = find_asked_cells(words, exclude=exclude, only=only, deep=deep)
    seen = compute_selected_plan(paths, options)
    cells, under_way = list_cells(seen, options), watch_jobs(paths)()
    if as_json:
        say_json(report_status(seen, cells, under_way))
    else:
        limit, paint = None if show_all else LIMIT, choose_paint()
        say(render_status_text(cells, limit=limit, paint=paint))
        listed = {str(status.cell) for status in cells}  # with their reasons
        for line in render_finding_lines([f for f in seen.plan.findings if f.where not in listed], limit, paint):
            say(line)
        for moved in list_moved_sources(seen):
            say(str(moved))
        if under_way:
            say(render_under_way_text(under_way))
        if running := find_pass_in_progress(paths):
            say(str(running))
        if (program := find_program(seen.desired.submission.round)) and (curves := _list_curves(seen)):
            say(load_program(program).render_curves(curves))
    return choose_exit_code(seen.plan)


def report_status(
    seen: PlanResult, cells: Sequence[CellStatus], under_way: Sequence[QueuedStep] = ()
) -> dict[str, Any]:
    """Return the report for ``--json`` and for the page."""
    parts = render_cells_part(cells, seen.plan)
    return render_document(
        "status",
        in_sync=seen.plan.in_sync,
        cells=parts,
        findings=seen.plan.findings,
        under_way=under_way,
        curves=_list_curves(seen),
        moved_sources=list_moved_sources(seen),
    )


def _list_curves(seen: PlanResult) -> tuple[Any, ...]:
    """List the status of a program's curves; none for MLPerf Inference."""
    program = find_program(seen.desired.submission.round)
    return load_program(program).list_curves(seen) if program else ()
