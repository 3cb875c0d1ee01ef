"""Run one search: choose the next trial, make it, and repeat until the best settings are known or the time is over.

It starts from all recorded trials that differ only in the searched settings, from any time and user. So a search
that is killed loses only the trial in progress.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_DOWN, Decimal

from msgspec import Struct
from msgspec.structs import replace

from reconciler.diff.run_selection import find_differing_evidence
from reconciler.loadgen.duration import predict_run_seconds
from reconciler.loadgen.settings import name_loadgen_scenario
from reconciler.reconcile.planning import Options, PlanCache
from reconciler.record.codec import summarize
from reconciler.resource.canonical import canonicalise, show_decimal
from reconciler.resource.kinds import PERFORMANCE, Cell, RunAddress
from reconciler.resource.settings import Trial
from reconciler.storage.files import RepositoryPaths, TrialPaths
from reconciler.tune.candidate_search import Ask, BestMetric, BestRate, decide_metrics, decide_rates
from reconciler.tune.records import RATE, TrialRun, list_trials, read_rate_trial
from reconciler.tune.search import CONFIRMATIONS, TOLERANCE, NotFound, conclude

Settings = tuple[tuple[str, str], ...]
_DIGITS = 4  # significant digits of a rate


class Goal(Struct, frozen=True):
    """``candidates``: settings to choose among; the first is searched fully. ``start``: the first rate, None if the
    result of a run is not a requested rate. ``quick``: ms per trial, 0 for the declared duration. ``seconds``: no trial
    that would end later is started."""

    cell: Cell
    candidates: tuple[Settings, ...]
    start: float | None
    lower_is_better: bool
    quick: int = 0
    tolerance: float = TOLERANCE
    confirmations: int = CONFIRMATIONS
    most: int = 40
    seconds: float = math.inf


class RequestedTrial(Struct, frozen=True):
    """The next trial, as reported: ``number`` counts the trials of this search."""

    number: int
    trial: Trial
    why: str


class Tuned(Struct, frozen=True):
    """``best``: the result. ``settings``: the settings to put into the spec. ``known``: trials recorded before,
    ``made``: trials of this search. ``why`` it ended early; "" if it is complete. ``lasted``: seconds of the shortest
    trial at the rate found, None if there is no rate."""

    goal: Goal
    best: BestRate | BestMetric | NotFound
    settings: Settings
    known: int
    made: int
    why: str
    lasted: float | None = None


class Search(Struct):
    """``make`` makes a trial, ``report`` is called before and after each; ``clock`` is monotonic."""

    paths: RepositoryPaths
    options: Options
    goal: Goal
    make: Callable[[Trial], TrialRun]
    report: Callable[[RequestedTrial | TrialRun], None]
    clock: Callable[[], float]

    def run(self, *, anew: bool = False) -> Tuned:
        """Search. ``anew``: ignore the trials that were recorded before."""
        goal, began = self.goal, self.clock()
        inputs = [self._collect_inputs(settings) for settings in goal.candidates]
        runs = [[] if anew else self._find_known(wanted) for wanted in inputs]
        known, made, why, pace = sum(map(len, runs)), 0, "", 1.0
        while True:
            decision = self._decide(runs)
            if not isinstance(decision, Ask):
                break
            trial = self._ask(decision)
            rate = {name: value for name, value in trial.settings if name == RATE}
            expected = predict_run_seconds({**inputs[decision.candidate], **rate}) or 0.0
            spent = self.clock() - began
            if spent + expected * pace > goal.seconds:
                why = "the time is over"
            elif made >= goal.most:
                why = f"{goal.most} trials were made"
            if why:
                break
            made += 1
            self.report(RequestedTrial(made, trial, decision.why))
            run = self.make(trial)
            runs[decision.candidate].append(run)
            pace = (self.clock() - began - spent) / expected if expected else 1.0
            self.report(run)
        best = self._conclude(runs, why) if isinstance(decision, Ask) else decision
        lasted = _find_shortest(runs[best.candidate], best.found.rate) if isinstance(best, BestRate) else None
        return Tuned(goal, best, propose_settings(goal, best), known, made, why, lasted)

    def _decide(self, runs: Sequence[Sequence[TrialRun]]) -> Ask | BestRate | BestMetric | NotFound:
        goal = self.goal
        if goal.start is not None:
            rates = [[read_rate_trial(self.paths, run) for run in own] for own in runs]
            return decide_rates(rates, goal.start, tolerance=goal.tolerance, confirmations=goal.confirmations)
        measured = [[_read_metric(run, lower=goal.lower_is_better) for run in own] for own in runs]
        return decide_metrics(measured, lower_is_better=goal.lower_is_better)

    def _conclude(self, runs: Sequence[Sequence[TrialRun]], why: str) -> BestRate | BestMetric | NotFound:
        """Return the best of the trials so far when the search ends early."""
        goal = self.goal
        if goal.start is None:
            known = [(i, [_read_metric(run, lower=goal.lower_is_better) for run in own]) for i, own in enumerate(runs)]
            means = [BestMetric(i, sum(each) / len(each), 0.0, len(each)) for i, each in known if each]
            finite = [best for best in means if math.isfinite(best.mean)]
            side = 1 if goal.lower_is_better else -1
            return min(finite, key=lambda best: side * best.mean) if finite else NotFound(why)
        found = [(i, conclude([read_rate_trial(self.paths, run) for run in own], why)) for i, own in enumerate(runs)]
        rates = [BestRate(i, item) for i, item in found if not isinstance(item, NotFound)]
        return max(rates, key=lambda best: best.found.rate) if rates else NotFound(why)

    def _ask(self, ask: Ask) -> Trial:
        settings = self.goal.candidates[ask.candidate]
        if ask.rate is not None:
            settings = (*settings, (RATE, show_rate(ask.rate)))
        return Trial(self.goal.cell, settings, self.goal.quick)

    def _collect_inputs(self, settings: Settings) -> dict[str, object]:
        """Collect the inputs of a trial with these settings. Raises SpecError if a setting does not exist."""
        there = TrialPaths(self.paths.root, self.paths.apart)
        options = replace(self.options, trial=Trial(self.goal.cell, settings, self.goal.quick))
        detail = PlanCache.of(there).load_desired(options).detail(RunAddress(self.goal.cell, PERFORMANCE).address)
        return {item.name: canonicalise(item.value) for item in detail.inputs if item.value is not None}

    def _find_known(self, wanted: Mapping[str, object]) -> list[TrialRun]:
        """Return the trials that differ from the searched ones only in the rate, and whose evidence matches the newest
        one's."""
        free = {RATE} if self.goal.start is not None else set[str]()
        asked = {name: value for name, value in wanted.items() if name not in free}
        trials = ((run, run.record.inputs.items()) for run in list_trials(self.paths, self.goal.cell))
        found = [run for run, inputs in trials if {n: i.value for n, i in inputs if n not in free} == asked]
        summaries = [summarize(run.record, run.id) for run in found]
        pairs = zip(found, summaries, strict=True)
        return [run for run, summary in pairs if not find_differing_evidence(summaries[-1], summary)]


def searches_rate(scenario: str) -> bool:
    """Return True if the rate is what the result claims: LoadGen issues queries at it, and the latency decides."""
    return name_loadgen_scenario(scenario) == "Server"


def propose_settings(goal: Goal, best: BestRate | BestMetric | NotFound) -> Settings:
    """Propose the settings for the spec from the result."""
    if isinstance(best, NotFound):
        return ()
    chosen = goal.candidates[best.candidate]
    if isinstance(best, BestRate):
        return (*chosen, (RATE, show_rate(best.found.rate)))
    if goal.cell.scenario == "Offline":
        return (*chosen, (RATE, show_rate(best.mean)))  # determines the size of the one query
    return chosen


def show_rate(rate: float) -> str:
    """Format a rate for a spec, rounded down to significant digits."""
    number = Decimal(repr(rate))
    return show_decimal(number.quantize(Decimal(1).scaleb(number.adjusted() - _DIGITS + 1), rounding=ROUND_DOWN))


def _find_shortest(runs: Sequence[TrialRun], rate: float) -> float | None:
    """Return the seconds of the shortest run at the rate, measured by LoadGen's clock."""
    here = [run for run in runs if float(str(run.record.inputs[RATE].value)) == rate]
    lasted = [float(margin.measured) for run in here for margin in run.margins if margin.name == "duration"]
    return min(lasted, default=None)


def _read_metric(run: TrialRun, *, lower: bool) -> float:
    worst = math.inf if lower else -math.inf
    return run.metric[0] if run.valid and run.metric else worst
