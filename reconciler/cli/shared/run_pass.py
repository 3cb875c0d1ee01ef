"""Run a pass with a progress view, for `reconcile` and `reconcile apply`."""

from __future__ import annotations

import _thread
import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from reconciler.cli.shared.output import choose_paint, is_quiet, say, say_at_once, say_json, use_colour
from reconciler.cli.shared.plan_options import check_selection, choose_exit_code
from reconciler.errors import ERROR, INTERRUPTED, NOT_IN_SYNC
from reconciler.execute.outcome import Event, Outcome, Status
from reconciler.plan.plan import Plan
from reconciler.reconcile.planning import Options, PlanCache, list_cells
from reconciler.reconcile.run import PassReport, run_pass
from reconciler.render.documents import render_cells_part, render_document
from reconciler.render.plan import LIMIT, render_plan_text
from reconciler.render.progress import Failures, Lines, count_outcomes, render_outcome_part
from reconciler.render.status import render_status_text
from reconciler.resource.quantities import join_listing, show_count, show_duration
from reconciler.storage.files import RepositoryPaths
from reconciler.tune.trials import prepare_quick


def run(
    paths: RepositoryPaths,
    options: Options,
    *,
    saved: Plan | None = None,
    as_json: bool = False,
    show_all: bool = False,
    quick: float = 0.0,
) -> int:
    """Run one pass with progress, then print the cells, and return the exit code. Raises RepositoryError at the end if
    git rejects the records. ``quick``: seconds of runs that never become results."""
    memory = PlanCache.of(paths)
    check_selection(memory, options)
    if quick:
        if saved is not None or options.commit:
            what = "--commit keeps results" if options.commit else "a saved plan contains real runs"
            raise click.UsageError(f"{what}, and a quick run never becomes one; omit one of the two")
        with choose_view(as_json) as view, stop_cleanly():
            paths, options = prepare_quick(paths, options, quick, view.report)
        memory = PlanCache.of(paths)
    pass_report = carry_out(memory, options, saved=saved, as_json=as_json)
    if pass_report is None:
        return INTERRUPTED
    if as_json:
        say_json(render_document("pass", **render_pass_part(pass_report, options)))
    else:
        say_pass(pass_report, options, None if show_all else LIMIT)
        if quick:
            say("These were quick runs: kept in .reconcile/trials, and never published.")
        else:
            _say_uncommitted(pass_report, options)
    if pass_report.not_committed is not None:
        raise pass_report.not_committed
    return choose_pass_code(pass_report)


def choose_pass_code(pass_report: PassReport) -> int:
    """Return ERROR if a step failed, else whether everything selected is in sync. After a failed `--rerun` it is not in
    sync, even if an earlier outcome still counts and nothing is due."""
    if any(outcome.status is Status.FAILED for outcome in pass_report.outcomes):
        return ERROR
    last = {outcome.step.change.address: outcome for outcome in pass_report.outcomes}
    invalid = any(outcome.record and outcome.record.values.get("validity") == "INVALID" for outcome in last.values())
    made = all(outcome.status is Status.DONE for outcome in last.values())
    return choose_exit_code(pass_report.after.plan) if made and not invalid else NOT_IN_SYNC


def carry_out(
    memory: PlanCache, options: Options, *, saved: Plan | None = None, as_json: bool = False
) -> PassReport | None:
    """Run one pass and report its progress. If it is interrupted, report that and return None."""
    ended: list[Outcome] = []
    view = choose_view(as_json)

    def report(event: Event) -> None:
        if isinstance(event, Outcome):
            ended.append(event)
        view.report(event)

    try:
        with view, stop_cleanly():
            return run_pass(memory.paths, options, report=report, saved=saved, memory=memory)
    except KeyboardInterrupt:
        kept = sum(1 for outcome in ended if outcome.status is Status.DONE)
        rest = "the running one is dropped"
        if options.detach or options.attach:
            rest = "queued jobs continue (`reconcile attach` follows them), steps running here are dropped"
        say(
            f"Interrupted: {show_count(kept, 'step')} done and kept, {rest}. Run the same command again to continue.",
            err=True,
        )
        return None


@contextlib.contextmanager
def stop_cleanly() -> Iterator[None]:
    """Let a service manager's SIGTERM end a pass like Ctrl-C: the child is stopped, finished work is kept.

    Python discards any exception raised in a finalizer, including this one, so an interrupt that arrives there is sent
    again.
    """
    before, hook = signal.signal(signal.SIGTERM, signal.default_int_handler), sys.unraisablehook
    entered = True

    def interrupt_again(discarded: sys.UnraisableHookArgs) -> None:
        if issubclass(discarded.exc_type, KeyboardInterrupt):
            # Not threading: it takes locks that the interrupted code may hold.
            _thread.start_new_thread(interrupt_later, ())
        else:
            hook(discarded)

    def interrupt_later() -> None:
        time.sleep(0.05)  # until the finalizer has ended
        if entered:
            os.kill(os.getpid(), signal.SIGTERM)

    sys.unraisablehook = interrupt_again
    try:
        yield
    finally:
        entered = False
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)


def choose_view(as_json: bool) -> Any:
    """Choose bars on a terminal, else lines (on standard error if the report is JSON), and only failures with
    --quiet."""
    if is_quiet():
        return Failures(lambda line: say_at_once(line, err=True))
    if as_json:
        return Lines(lambda line: say(line, err=True))
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from reconciler.render.live import Live

        return Live(colour=use_colour())
    return Lines(say, paint=choose_paint())


def say_pass(pass_report: PassReport, options: Options, limit: int | None) -> None:
    """Print the cells, the remaining steps, and the duration of the pass."""
    plan = pass_report.after.plan
    if not pass_report.outcomes and plan.in_sync:
        if pass_report.rendered:
            say(f"Rendered {show_count(pass_report.rendered, 'file')} into {pass_report.tree}.")
        say(render_plan_text(plan, limit=limit, paint=choose_paint()))
        return
    say("")
    cells = list_cells(pass_report.after, options)
    say(render_status_text(cells, limit=limit, reasons=plan.in_sync, paint=choose_paint()))
    if not plan.in_sync:
        say("")
        say(render_plan_text(plan, limit=limit, paint=choose_paint()))
    parts = [f"{show_duration(pass_report.own_seconds)} in reconcile itself"]
    if pass_report.waited_seconds >= 1:
        parts.insert(0, f"{show_duration(pass_report.waited_seconds)} waiting for the machine")
    took = f"{show_duration(pass_report.seconds)}, of which {' and '.join(parts)}"
    harvested = f", {pass_report.harvested} taken over from an earlier pass" if pass_report.harvested else ""
    say(f"This pass: {count_outcomes(pass_report.outcomes)}{harvested}, in {took}.")
    if pass_report.left:
        going = f"{show_count(pass_report.left, 'job')} of a queue {'go' if pass_report.left > 1 else 'goes'} on"
        say(f"{going} without this pass: reconcile attach")
    if pass_report.commit:
        say(f"Committed the records as {pass_report.commit[:7]}.")
    if pass_report.tree.is_dir():
        say(f"Tree: {pass_report.tree}")


def _say_uncommitted(pass_report: PassReport, options: Options) -> None:
    """Print what must be committed before the results of this pass count."""
    records = [outcome.record for outcome in pass_report.outcomes if outcome.record is not None]
    new = 0 if options.commit else len(records) + pass_report.harvested
    names, folders, first = ([show_count(new, "new record")], ["state"], "") if new else ([], [], "")
    if any(record.dirty for record in records):  # otherwise git is not asked
        from reconciler.storage import git

        root = pass_report.after.paths.root
        dirty = git.list_dirty(root, pass_report.after.spec)
        names, folders = [*dirty, *names], [*dirty, *folders]
        first = "" if git.find_root(root) else "git init && "
    if names:
        advice = "Results count only once they and their spec are committed"
        say(f"Not committed: {join_listing(names)}. {advice}: {first}git add {shlex.join(folders)} && git commit")


def render_pass_part(pass_report: PassReport, options: Options) -> dict[str, Any]:
    plan = pass_report.after.plan
    return {
        "in_sync": plan.in_sync,
        "outcomes": [render_outcome_part(outcome) for outcome in pass_report.outcomes],
        "cells": render_cells_part(list_cells(pass_report.after, options), plan),
        "findings": plan.findings,
        "drifts": plan.drifts,
        "remaining": [step.change.address for step in plan.steps],
        "unchanged": plan.unchanged,
        "tree": pass_report.tree,
        "seconds": pass_report.seconds,
        "waited_seconds": pass_report.waited_seconds,
        "own_seconds": pass_report.own_seconds,
        "child_seconds": pass_report.child_seconds,
        "harvested": pass_report.harvested,
        "rendered": pass_report.rendered,
        "left": pass_report.left,
        "commit": pass_report.commit or None,
    }
