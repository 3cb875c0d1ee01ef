"""Make a trial of a cell, and prepare a pass with short runs."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace

from reconciler.diff.change import Work
from reconciler.errors import ReconcilerError, SpecError
from reconciler.execute.outcome import Event, Status
from reconciler.reconcile.planning import Options, PlanResult, choose_quick, compute_plan
from reconciler.reconcile.run import PassReport, run_pass
from reconciler.record.index import load
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.settings import Trial
from reconciler.storage.files import RepositoryPaths, TrialPaths, copy
from reconciler.tune.records import TrialRun

_UPSTREAM = (Kind.DATASET, Kind.MODEL, Kind.ENGINE)


def find_run(seen: PlanResult, cell: Cell) -> Address:
    """Find the performance run of a cell. Raises ReconcilerError if it has none of its own."""
    address = RunAddress(cell, PERFORMANCE).address
    if address not in seen.desired.by_address:
        fix = "use the cell that its result is inferred from"
        raise ReconcilerError(f"{cell} is inferred and has no runs", fix=fix)
    return address


def make_trial(paths: RepositoryPaths, options: Options, trial: Trial, report: Callable[[Event], None]) -> TrialRun:
    """Make one performance run with the settings of a trial. ``options``: the specs, and how to run.

    Raises ReconcilerError if there was no run, because a setting is wrong, the run failed, or this machine cannot make
    it.
    """
    assert trial.cell is not None
    address = RunAddress(trial.cell, PERFORMANCE).address
    there = TrialPaths(paths.root, paths.apart)
    chosen = replace(
        options,
        select=(f"cell={trial.cell}", f"mode={PERFORMANCE}"),
        only=(str(Kind.RUN),),
        rerun=(f"cell={trial.cell} mode={PERFORMANCE} kind={Kind.RUN}",),
        sign=False,
        commit=False,
        trial=trial,
    )
    try:
        compute_plan(paths, chosen)  # refuses a wrong setting before anything is made for the trial
        own = any(name.startswith("engine.") for name, _ in trial.settings)
        kinds = tuple(str(kind) for kind in _UPSTREAM if not (own and kind is Kind.ENGINE))
        _make_upstream(paths, replace(options, select=(f"cell={trial.cell}",), only=kinds), report)
        adopt_upstream(paths, there)
        return _find_made(run_pass(there, chosen, report=report), there, address)
    except SpecError as error:
        raise _blame_setting(error, trial) from error


def _blame_setting(error: SpecError, trial: Trial) -> ReconcilerError:
    """Return the error for a setting passed for a trial, without the location in the spec, which does not contain
    it."""
    for problem in error.problems:
        for name, value in trial.settings:
            if problem.path.endswith(f".{name}"):
                home = re.search(rf"'(\w+): {{{re.escape(name)}: …}}'", problem.fix)
                fix = f"write {home[1]}.{name}={value}" if home else problem.fix
                return ReconcilerError(f"{name}={value}: {problem.message}", fix=fix)
    return error


def prepare_quick(
    paths: RepositoryPaths, options: Options, seconds: float, report: Callable[[Event], None]
) -> tuple[TrialPaths, Options]:
    """Prepare a pass with runs of ``seconds``. Return the paths that it records to, and its options."""
    _make_upstream(paths, replace(options, only=tuple(map(str, _UPSTREAM))), report)
    there, chosen = choose_quick(paths, options, seconds)
    adopt_upstream(paths, there)
    return there, chosen


def _make_upstream(paths: RepositoryPaths, options: Options, report: Callable[[Event], None]) -> None:
    """Make the upstreams that the declared runs need anyway as usual, and let the trials use them."""
    chosen = replace(options, rerun=(), commit=False, trial=None)
    plan = compute_plan(paths, chosen).plan
    if any(step.change.how in (Work.MAKE, Work.RESTORE) for step in plan.steps):
        run_pass(paths, chosen, report=report)


def adopt_upstream(paths: RepositoryPaths, there: TrialPaths) -> None:
    """Reuse recorded data sets, models and engines for a trial, so that they are not made again."""
    for kind in _UPSTREAM:
        for path in sorted((paths.records / kind).glob("*.json")):
            if not (copied := there.records / kind / path.name).exists():
                copy(path, copied)


def _find_made(made: PassReport, there: TrialPaths, address: Address) -> TrialRun:
    ended = next((o for o in reversed(made.outcomes) if o.step.change.address == address), None)
    if ended is None:
        steps = [step for step in made.after.plan.steps if step.blocked]
        others = [o for o in made.outcomes if o.status is not Status.DONE]
        if others:
            raise ReconcilerError(f"no trial ran: {others[-1].message}", fix=others[-1].fix)
        why, fix = (steps[-1].blocked, steps[-1].fix) if steps else ("the pass ran nothing", "")
        raise ReconcilerError(f"no trial ran: {why}", fix=fix)
    if ended.status is not Status.DONE or ended.record is None:
        raise ReconcilerError(f"the trial did not complete: {ended.message}", fix=ended.fix)
    newest = load(there).recorded.by_address[address][-1]
    return TrialRun(newest.id, ended.record)
