"""`reconcile plan`: show what a pass would do, and why."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.shared.options import (
    file_option,
    quick_option,
    reporting_options,
    selection_options,
    split_words,
    takes,
)
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.plan_options import (
    choose_exit_code,
    compute_selected_plan,
    find_asked_cells,
    list_early_remarks,
)
from reconciler.observed.pass_in_progress import find_pass_in_progress
from reconciler.plan.plan import MachineSchedule, Step, schedule
from reconciler.reconcile.line_commits import find_line_commits
from reconciler.reconcile.moved_sources import list_moved_sources
from reconciler.reconcile.planning import PlanResult, choose_quick, list_cells
from reconciler.render.plan import (
    LIMIT,
    collect_shown_origins,
    render_deadline_part,
    render_deadline_text,
    render_plan_text,
    render_scratch_sources,
)
from reconciler.storage.event_log import add_context, facts, open_log

if TYPE_CHECKING:
    from reconciler.resource.conditions import CellStatus

log = logging.getLogger(__name__)
_OUTPUT = file_option("Save the plan for `reconcile apply FILE`; - writes it to standard output.")


class _Deadline(click.DateTime):
    """A local time. Click's own message shows the formats of strptime."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a time; write it as '2027-04-01 18:00' or 2027-04-01", param, ctx)


_BY = click.Option(
    ["--by"],
    type=_Deadline(("%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y-%m-%dT%H:%M")),
    metavar="'YYYY-MM-DD HH:MM'",
    help="Say which results fit the time left on each machine, and what to drop first. Local time.",
)


@click.command("plan")
@takes([split_words(), *selection_options(), _OUTPUT, _BY, quick_option(), *reporting_options()])
def command(
    words: tuple[str, ...],
    exclude: tuple[str, ...],
    only: tuple[str, ...],
    deep: bool,
    output: Path | None,
    by: datetime | None,
    quick: float,
    as_json: bool,
    show_all: bool,
) -> int:
    """Show what a pass would do, why, and how long it takes. Changes nothing.

    Selectors choose cells: benchmark=resnet scenario=Offline,Server system=h200*. Exits 0 if everything is in sync,
    else 2.
    """
    paths, options = find_asked_cells(words, exclude=exclude, only=only, deep=deep)
    if quick:
        if output not in (None, Path("-")):
            raise click.UsageError("a plan of quick runs is not saved: reconcile --quick carries it out")
        paths, options = choose_quick(paths, options, quick)
    now = datetime.now().astimezone()
    if by is not None and (by := by.astimezone()) <= now:
        raise click.UsageError(f"--by: {by:%Y-%m-%d %H:%M} is over")
    began = time.monotonic()
    with open_log(paths.log, "plan"):
        seen = compute_selected_plan(paths, options)
        _log_plan(seen, time.monotonic() - began)
    if output == Path("-"):
        output, as_json = None, True
    if output is not None:
        from reconciler.plan import saved

        saved.save(seen.plan, output)
    if as_json:
        document = report_plan(seen, list_cells(seen, options))
        if by is not None:
            document["deadline"] = render_deadline_part(_schedule_steps(seen, now, by), now, by)
        say_json(document)
        return choose_exit_code(seen.plan)
    limit = None if show_all else LIMIT
    commits = find_line_commits(paths, collect_shown_origins(seen.plan, limit))
    say(render_plan_text(seen.plan, commits=commits, limit=limit, paint=choose_paint()))
    scratch = render_scratch_sources(seen.plan, seen.desired)
    for line in (*seen.desired.notes, *scratch, *map(str, list_moved_sources(seen)), *list_early_remarks(seen)):
        say(line)
    if running := find_pass_in_progress(paths):
        say(f"{running} This plan still contains its steps.")
    if by is not None:
        say(render_deadline_text(_schedule_steps(seen, now, by), now, by))
    if output is not None:
        say(f"Saved as {output}; carry it out with: reconcile apply {output}")
    return choose_exit_code(seen.plan)


def report_plan(seen: PlanResult, cells: Sequence[CellStatus]) -> dict[str, Any]:
    """Return the report for ``--json`` and for the page."""
    from reconciler.plan import saved
    from reconciler.render.documents import convert_plain_value, convert_setting, render_cells_part

    moved, document = convert_plain_value(list_moved_sources(seen)), saved.encode_plan(seen.plan)
    for item in (item for step in document["steps"] for item in step["inputs"]):
        item.update({side: convert_setting(item["name"], item[side]) for side in ("before", "after")})
    return {**document, "moved_sources": moved, "cells": render_cells_part(cells, seen.plan)}


def _schedule_steps(seen: PlanResult, now: datetime, by: datetime) -> tuple[MachineSchedule, ...]:
    """Schedule the steps: those of one machine run one after another, and each machine has its own timeline."""
    systems = seen.desired.submission.systems

    def place(step: Step) -> str:
        cell = step.change.address.cell
        assert cell is not None
        return "this machine" if systems[cell.system].runs_here and not step.blocked else cell.system

    return schedule(seen.plan, place, (by - now).total_seconds())


def _log_plan(seen: PlanResult, seconds: float) -> None:
    """Log the amount of work and the problems."""
    plan = seen.plan
    add_context(submission=plan.name)
    actions = Counter(step.change.action.value.lower() for step in plan.steps)
    for finding in plan.findings:
        log.warning("finding", extra=facts(kind=finding.kind, where=finding.where, text=finding.message))
    extra = facts(in_sync=plan.in_sync, unchanged=plan.unchanged, seconds=round(seconds, 3), **actions)
    log.info("plan ended", extra=extra)
