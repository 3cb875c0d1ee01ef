"""`reconcile tune CELL`: the highest VALID rate, or the best of several settings, and the edit of the spec for it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from pathlib import Path

import click

from reconciler.cli.shared.options import busy_option, cell_argument, json_option, quick_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.run_pass import choose_view, stop_cleanly
from reconciler.cli.shared.trial_arguments import (
    find_trial_cell,
    parse_settings,
    patch_option,
    propose_patch,
    write_patch,
)
from reconciler.errors import IN_SYNC, INTERRUPTED, NOT_IN_SYNC, ReconcilerError
from reconciler.reconcile.planning import PlanResult
from reconciler.render.documents import render_document
from reconciler.resource.kinds import Cell
from reconciler.resource.settings import Trial
from reconciler.spec.quantities import UnfitError, parse_duration
from reconciler.tune.records import RATE, TrialRun
from reconciler.tune.report import render_asked_text, render_trial, render_tuned_part, render_tuned_text
from reconciler.tune.search import TOLERANCE, NotFound
from reconciler.tune.session import Goal, RequestedTrial, Search, Settings, searches_rate
from reconciler.tune.trials import find_run, make_trial

_MOST_CANDIDATES = 64
_VARY = click.Option(
    ["--vary"],
    multiple=True,
    metavar="SETTING=A,B,…",
    help="Choose among these values too, such as run.batch_size=1,2,4. Repeated, every combination is a candidate.",
)
_FOR = click.Option(
    ["--for", "budget"],
    metavar="DURATION",
    help="Start no trial that would end later than this from now, such as 2h. Default: search until it is found.",
)
_TOLERANCE = click.Option(
    ["--tolerance"],
    type=click.FloatRange(min=0.5, max=50),
    default=TOLERANCE * 100,
    show_default=True,
    metavar="PERCENT",
    help="How close above the VALID rate an INVALID one must be found.",
)
_TRIALS = click.Option(
    ["--trials"], type=click.IntRange(min=1), default=40, show_default=True, metavar="N", help="Make at most this many."
)
_ANEW = click.Option(["--anew"], is_flag=True, help="Do not start from trials that were recorded before.")
_ALL = [_VARY, _FOR, _TOLERANCE, _TRIALS, quick_option(), _ANEW, patch_option()]


@click.command("tune")
@takes([cell_argument(), *_ALL, busy_option(), spec_option(), json_option()])
def command(
    cell: str,
    vary: tuple[str, ...],
    budget: str | None,
    tolerance: float,
    trials: int,
    quick: bool,
    anew: bool,
    output: Path | None,
    busy: bool,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Search for the highest VALID rate of a Server cell, or the best settings of any cell, and propose the edit of the
    spec.

    Each trial is a run of its own, recorded in .reconcile/trials; none becomes a result. If it is interrupted or
    killed, the same command continues from what was recorded. Exits 0 when the search was completed, else 2.
    """
    paths, options = find_asked_cells(specs, busy=busy)
    seen, chosen = find_trial_cell(paths, options, cell)
    goal = _make_goal(seen, chosen, vary, budget, tolerance=tolerance / 100, trials=trials, quick=quick)
    view, made = choose_view(as_json), list[TrialRun]()

    def report(event: RequestedTrial | TrialRun) -> None:
        if isinstance(event, TrialRun):
            made.append(event)
            say(f"  {render_trial(event, choose_paint())}", err=as_json)
        else:
            say(render_asked_text(event), err=as_json)

    def make(trial: Trial) -> TrialRun:
        with view:
            return make_trial(paths, options, trial, view.report)

    try:
        with stop_cleanly():
            tuned = Search(paths, options, goal, make, report, time.monotonic).run(anew=anew)
    except KeyboardInterrupt:
        say(f"Interrupted: {len(made)} trials are kept. Run the same command again to go on from there.", err=True)
        return INTERRUPTED
    patch = propose_patch(paths, options, Trial(chosen, tuned.settings)) if tuned.settings else ""
    written = write_patch(patch, output)
    if as_json:
        say_json(render_document("tune", **render_tuned_part(tuned, patch, made)))
    else:
        say(render_tuned_text(tuned, patch))
        if written:
            say(written)
    return NOT_IN_SYNC if tuned.why or isinstance(tuned.best, NotFound) else IN_SYNC


def _make_goal(
    seen: PlanResult,
    cell: Cell,
    vary: Sequence[str],
    budget: str | None,
    *,
    tolerance: float,
    trials: int,
    quick: bool,
) -> Goal:
    detail = seen.desired.detail(find_run(seen, cell))
    start = None
    if searches_rate(cell.scenario):
        declared = detail.values().get(RATE)
        if declared is None:
            fix = f"declare a target_qps to begin at; `reconcile try {cell} target_qps=…` shows what one gives"
            raise ReconcilerError(f"{cell} declares no target_qps", fix=fix)
        start = float(str(declared))
    return Goal(
        cell,
        list_candidates(vary),
        start,
        detail.ruling.metric.lower_is_better,
        quick=quick,
        tolerance=tolerance,
        most=trials,
        seconds=_parse_budget(budget),
    )


def list_candidates(vary: Sequence[str]) -> tuple[Settings, ...]:
    """Every combination of the values, those named first before the others. The declared settings where none is."""
    choices = parse_settings(vary)
    if any(name == RATE for name, _ in choices):
        raise click.UsageError("target_qps is what is searched; `reconcile try` takes a rate of your own")
    values = [[(name, value) for value in text.split(",") if value] for name, text in choices]
    count = math.prod(map(len, values))
    if count > _MOST_CANDIDATES:
        raise click.UsageError(f"{count} combinations are too many to try; name at most {_MOST_CANDIDATES}")
    return tuple(itertools.product(*values))


def _parse_budget(text: str | None) -> float:
    if text is None:
        return math.inf
    try:
        return float(parse_duration(text, "s", zero=False))
    except UnfitError as error:
        raise click.UsageError(f"--for: {error.message}; {error.fix}") from error
