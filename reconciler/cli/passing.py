"""Running a pass with a view of it: what `reconcile` and `reconcile apply` share."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import click

from reconciler.cli.door import door
from reconciler.cli.looking import cells_of, exit_code
from reconciler.cli.output import colour, paint, say, say_json
from reconciler.errors import ERROR, INTERRUPTED
from reconciler.execute.outcome import Event, Outcome, Status
from reconciler.files import Places
from reconciler.look import Options
from reconciler.plan.plan import Plan
from reconciler.reconcile import Report, run_pass
from reconciler.render.documents import cells_part, document, outcomes_part
from reconciler.render.lines import Lines
from reconciler.render.plan import LIMIT, plan_text
from reconciler.render.progress import tally
from reconciler.render.quantities import count, duration
from reconciler.render.status import status_text


def run(
    places: Places, options: Options, *, saved: Plan | None = None, as_json: bool = False, show_all: bool = False
) -> int:
    """One pass, told as it goes; then the cells as they stand. Gives the exit code. Raises RepositoryError, after
    all that, when git does not take the records."""
    ended: list[Outcome] = []
    view = _view(as_json)

    def tell(event: Event) -> None:
        if isinstance(event, Outcome):
            ended.append(event)
        view.tell(event)

    try:
        with view, stopping_cleanly():
            report = run_pass(places, options, tell=tell, saved=saved)
    except KeyboardInterrupt:
        kept = sum(1 for outcome in ended if outcome.status is Status.DONE)
        click.echo(
            f"Interrupted: {count(kept, 'step')} done and kept, the one under way is dropped. "
            "Run the same command again to go on from there.",
            err=True,
        )
        return INTERRUPTED
    if as_json:
        say_json(_document(report, options))
    else:
        _say(report, options, None if show_all else LIMIT)
    if report.not_committed is not None:
        raise report.not_committed
    failed = any(outcome.status is Status.FAILED for outcome in report.outcomes)
    return ERROR if failed else exit_code(report.look.plan)


@contextlib.contextmanager
def stopping_cleanly() -> Iterator[None]:
    """A service manager's SIGTERM ends a pass like Ctrl-C: the child is stopped, what is done is kept."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _view(as_json: bool) -> Any:
    """Bars on a terminal; lines otherwise, and beside a JSON report on standard error."""
    if as_json:
        return Lines(lambda line: click.echo(line, err=True))
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return door("reconciler.render.live").Live(colour=colour())
    return Lines(say, paint=paint())


def _say(report: Report, options: Options, limit: int | None) -> None:
    plan = report.look.plan
    if not report.outcomes and plan.in_sync:
        if report.rendered:
            say(f"Rendered {count(report.rendered, 'file')} into {report.tree}.")
        say(plan_text(plan, limit=limit, paint=paint()))
        return
    say("")
    say(status_text(cells_of(report.look, options), limit=limit, paint=paint()))
    if not plan.in_sync:
        say("")
        say(plan_text(plan, limit=limit, paint=paint()))
    took = f"{duration(report.own_seconds + report.child_seconds)}, of which {duration(report.own_seconds)} our own"
    harvested = f", {report.harvested} taken over from an earlier pass" if report.harvested else ""
    say(f"This pass: {tally(report.outcomes)}{harvested}, in {took}.")
    if report.commit:
        say(f"Committed the records as {report.commit[:7]}.")
    if report.tree.is_dir():
        say(f"Tree: {report.tree}")


def _document(report: Report, options: Options) -> dict[str, Any]:
    plan = report.look.plan
    return document(
        "pass",
        in_sync=plan.in_sync,
        outcomes=outcomes_part(report.outcomes),
        cells=cells_part(cells_of(report.look, options), plan),
        findings=plan.findings,
        drifts=plan.drifts,
        remaining=[step.change.address for step in plan.steps],
        unchanged=plan.unchanged,
        tree=report.tree,
        own_seconds=report.own_seconds,
        child_seconds=report.child_seconds,
        harvested=report.harvested,
        rendered=report.rendered,
        commit=report.commit or None,
    )
