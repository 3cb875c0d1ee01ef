"""`try` and `tune`: runs with other settings, separate from everything that is published."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from pathlib import Path

import click

from reconciler.cli.shared.options import (
    busy_option,
    cell_argument,
    file_option,
    json_option,
    quick_option,
    spec_option,
    takes,
)
from reconciler.cli.shared.output import choose_paint, say, say_error, say_json, say_report
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.run_pass import choose_view, stop_cleanly
from reconciler.diff.conditions import trace_lineages
from reconciler.errors import ERROR, IN_SYNC, INTERRUPTED, NOT_IN_SYNC, ReconcilerError
from reconciler.plan.select import find_cell, find_cells
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.reconcile.planning import PlanResult, compute_plan
from reconciler.render.documents import render_document
from reconciler.resource.kinds import PERFORMANCE, Cell, RunAddress
from reconciler.resource.settings import Trial
from reconciler.spec.cell_edit import edit_cell, render_patch
from reconciler.spec.files import read_readable_sources
from reconciler.spec.quantities import UnfitError, parse_duration
from reconciler.storage.leftovers import write_output
from reconciler.tune.records import RATE, TrialRun
from reconciler.tune.report import (
    render_asked_text,
    render_settings_part,
    render_trial,
    render_trial_part,
    render_try_text,
    render_tuned_part,
    render_tuned_text,
)
from reconciler.tune.search import TOLERANCE, NotFound
from reconciler.tune.session import Goal, RequestedTrial, Search, Settings, searches_rate
from reconciler.tune.trials import find_run, make_trial

PATCH_FILE = file_option("Write the patch there too, for `git apply FILE`.")


def parse_settings(words: Sequence[str]) -> Settings:
    """Parse ``name=value`` words. A name is a path below the cell in the spec: target_qps, run.batch_size."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise click.UsageError(f"{word!r} is not a setting; write one as target_qps=250 or run.batch_size=8")
        if name in found:
            raise click.UsageError(f"{name} is given twice")
        found[name] = value
    return tuple(found.items())


def write_patch(patch: str, output: Path | None) -> str:
    """Write the patch and describe its file; return "" if there is none."""
    if output is None or not patch:
        return ""
    write_output(output.absolute(), patch.encode())
    return f"Written to {output}; apply it with: git apply {output}"


_SETTINGS = click.Argument(["settings"], nargs=-1, metavar="[SETTING=VALUE]...")


@click.command("try")
@takes([cell_argument(), _SETTINGS, quick_option(), busy_option(), spec_option(), json_option()])
def try_command(
    cell: str, settings: tuple[str, ...], quick: float, busy: bool, specs: tuple[str, ...], as_json: bool
) -> int:
    """Make one performance run of CELL with other settings, such as target_qps=250 or run.batch_size=8.

    A glob or a selector instead of CELL, such as 'system=h200*', runs each cell that it selects. The spec is unchanged,
    and nothing is published: the runs are recorded in .reconcile/trials as evidence. Exits 0 when all are VALID, else
    2.
    """
    wanted = parse_settings(settings)
    paths, options = find_asked_cells(specs, busy=busy)
    seen = compute_plan(paths, options)
    chosen = find_cells(cell, trace_lineages(seen.desired))
    able = [each for each in chosen if RunAddress(each, PERFORMANCE).address in seen.desired.by_address]
    chosen = able or chosen
    find_run(seen, chosen[0])
    view = choose_view(as_json)
    made: dict[Cell, TrialRun] = {}
    failed = 0
    try:
        for each in chosen:
            try:
                with view, stop_cleanly():
                    made[each] = make_trial(paths, options, Trial(each, wanted, round(quick * 1000)), view.report)
            except ReconcilerError as error:
                if len(chosen) == 1:
                    raise
                failed += 1
                say_error(f"{each}: {error.message}", error.fix)
                continue
            if not as_json:
                say(render_try_text(made[each], wanted, choose_paint()))
    except KeyboardInterrupt:
        say("Interrupted: the trial is dropped.", err=True)
        return INTERRUPTED
    if as_json:
        asked = render_settings_part(wanted)
        parts = [{"cell": each, "asked": asked, "trial": render_trial_part(run)} for each, run in made.items()]
        say_json(render_document("try", **(parts[0] if len(chosen) == 1 else {"trials": parts})))
    if failed:
        return ERROR
    return IN_SYNC if all(run.valid for run in made.values()) else NOT_IN_SYNC


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
    help="Stop when an INVALID rate is this close above the VALID one.",
)
_TRIALS = click.Option(
    ["--trials"], type=click.IntRange(min=1), default=40, show_default=True, metavar="N", help="Limit the trials."
)
_ANEW = click.Option(["--anew"], is_flag=True, help="Do not start from trials that were recorded before.")
_ALL = [_VARY, _FOR, _TOLERANCE, _TRIALS, quick_option(), _ANEW, PATCH_FILE]


@click.command("tune")
@takes([cell_argument(), *_ALL, busy_option(), spec_option(), json_option()])
def tune_command(
    cell: str,
    vary: tuple[str, ...],
    budget: str | None,
    tolerance: float,
    trials: int,
    quick: float,
    anew: bool,
    output: Path | None,
    busy: bool,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Search for the highest VALID rate of a Server cell, or the best settings of any cell, and propose the edit of the
    spec.

    Each trial is a separate run, recorded in .reconcile/trials; none becomes a result. If it is interrupted or
    killed, the same command continues from what was recorded. Exits 0 when the search was completed, else 2.
    """
    paths, options = find_asked_cells(specs, busy=busy)
    seen = compute_plan(paths, options)
    chosen = find_cell(cell, trace_lineages(seen.desired))
    goal = _make_goal(seen, chosen, vary, budget, tolerance=tolerance / 100, trials=trials, quick=round(quick * 1000))
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
        say(f"Interrupted: {len(made)} trials are kept. Run the same command again to continue.", err=True)
        return INTERRUPTED
    patch = ""
    if tuned.settings:
        sources = read_readable_sources(list_spec_paths(paths, options.specs), paths.root)
        patch = render_patch(sources, edit_cell(sources, chosen, tuned.settings))
    written = write_patch(patch, output)
    text = "\n".join(filter(None, (render_tuned_text(tuned, patch), written)))
    say_report(render_document("tune", **render_tuned_part(tuned, patch, made)), text, as_json=as_json)
    return NOT_IN_SYNC if tuned.why or isinstance(tuned.best, NotFound) else IN_SYNC


def _make_goal(
    seen: PlanResult, cell: Cell, vary: Sequence[str], budget: str | None, *, tolerance: float, trials: int, quick: int
) -> Goal:
    detail = seen.desired.detail(find_run(seen, cell))
    start = None
    if searches_rate(cell.scenario):
        declared = detail.collect_values().get(RATE)
        if declared is None:
            fix = f"declare a target_qps to begin at; `reconcile try {cell} target_qps=…` measures one"
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
    """List every combination of the values, the first name varying slowest; the declared settings if there are no
    values."""
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
