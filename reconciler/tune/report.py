"""Render trials and the result of a search as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reconciler.loadgen import keys
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.documents import (
    convert_decimal_text,
    convert_margin,
    convert_number,
    convert_setting,
    make_metric_document,
)
from reconciler.render.table import render_table
from reconciler.resource.quantities import show_count, show_duration
from reconciler.resource.records import QUICK
from reconciler.tune.candidate_search import BestMetric, BestRate
from reconciler.tune.records import TrialRun
from reconciler.tune.search import NotFound
from reconciler.tune.session import RequestedTrial, Settings, Tuned

_SHORT = 10.0  # seconds that a server can fall behind and still answer in time


def render_settings(settings: Settings) -> str:
    return ", ".join(f"{name}: {value}" for name, value in settings) or "the settings of the spec"


def render_settings_part(settings: Settings) -> dict[str, Any]:
    return {name: convert_decimal_text(value) for name, value in settings}


def render_try_text(run: TrialRun, settings: Settings, paint: Paint = show_plain) -> str:
    values = run.record.values
    cell = str(run.record.address.cell)
    lines = [f"{cell} with {render_settings(settings)}: {render_trial(run, paint)}"]
    lines += [f"  {reason}" for reason in values.get("reasons", ())]
    lines += [f"  {margin}" for margin in run.margins]
    if suggestion := values.get("suggestion"):
        lines.append(f"  next: {suggestion['setting']}: {suggestion['value']} {suggestion['unit']}".rstrip())
    if QUICK in run.record.marks:
        lines.append("  a quick run: shorter than the round requires; a full run may differ")
    return "\n".join([*lines, f"Saved as trial {run.id}; it is never published, and the spec is unchanged."])


def render_trial(run: TrialRun, paint: Paint = show_plain) -> str:
    """Render one trial on one line."""
    word = paint("VALID", Tone.GOOD) if run.valid else paint("INVALID", Tone.BAD)
    metric = f"{run.metric[0]:.6g} {run.metric[1]}" if run.metric else "no result"
    pressure = run.find_pressure()
    used = f", latency at {pressure:.0%} of its limit" if pressure is not None else ""
    return f"{word}, {metric}{used}, in {show_duration(run.record.seconds)}"


def render_asked_text(asked: RequestedTrial) -> str:
    return f"Trial {asked.number}: {render_settings(asked.trial.settings)} ({asked.why})"


def render_tuned_text(tuned: Tuned, patch: str) -> str:
    trials = show_count(tuned.made, "trial")
    before = f", {show_count(tuned.known, 'one', 'ones')} of before" if tuned.known else ""
    lines = [f"{tuned.goal.cell}: {_describe(tuned)}", f"{trials}{before}."]
    if tuned.goal.quick and tuned.settings:
        lines.append("The trials were quick: try the settings in a full run before you commit them.")
    if tuned.lasted is not None and tuned.lasted < _SHORT:
        lasted = show_duration(tuned.lasted)
        lines.append(f"Its run lasted {lasted}: too short to be conclusive. Raise min_duration, and search again.")
    if patch:
        lines += ["", patch.rstrip("\n")]
    elif not isinstance(tuned.best, NotFound):
        lines.append("The spec already has these settings." if tuned.settings else "Nothing to change.")
    return "\n".join(lines)


def _describe(tuned: Tuned) -> str:
    match tuned.best:
        case BestRate(candidate=candidate, found=found):
            chosen = _show_candidate(tuned, candidate)
            above = f", INVALID at {found.above:.6g}" if found.above is not None else ""
            ended = "" if found.settled else f" So far, since {tuned.why or found.why}."
            return f"{chosen}VALID at {found.rate:.6g} queries/s{above}.{_explain_margin(tuned)}{ended}"
        case BestMetric(candidate=candidate, mean=mean, spread=spread, runs=runs):
            ended = f" So far, since {tuned.why}." if tuned.why else ""
            noise = f", one run differs from the next by {spread:.1%}" if spread else ""
            return f"{_show_candidate(tuned, candidate)}{mean:.6g} over {show_count(runs, 'run')}{noise}.{ended}"
        case NotFound(why=why):
            return f"nothing was VALID: {tuned.why or why}"


def _show_candidate(tuned: Tuned, candidate: int) -> str:
    settings = tuned.goal.candidates[candidate]
    return f"{render_settings(settings)}: " if len(tuned.goal.candidates) > 1 else ""


def _explain_margin(tuned: Tuned) -> str:
    margin = measure_margin(tuned)
    if margin is None or not isinstance(tuned.best, BestRate):
        return ""
    noise = tuned.best.found.noise.of_rate
    moves = f"; from run to run the limit moves by {noise:.1%}" if noise else ""
    return f" That is {margin:.1%} below; the capacity is about {tuned.best.found.capacity:.5g}{moves}."


def measure_margin(tuned: Tuned) -> float | None:
    """Return how far the proposed rate is below the first INVALID one; None if there is none."""
    if not isinstance(tuned.best, BestRate) or tuned.best.found.above is None:
        return None
    return 1 - float(dict(tuned.settings)[keys.TARGET_QPS]) / tuned.best.found.above


def render_tuned_part(tuned: Tuned, patch: str, trials: Sequence[TrialRun]) -> dict[str, Any]:
    best = tuned.best
    found = best.found if isinstance(best, BestRate) else None
    metric = best if isinstance(best, BestMetric) else None
    return {
        "cell": tuned.goal.cell,
        "settings": render_settings_part(tuned.settings),
        "settled": not tuned.why and not isinstance(best, NotFound),
        "why": tuned.why or (best.why if isinstance(best, NotFound) else ""),
        "rate": found.rate if found else None,
        "capacity": found.capacity if found else None,
        "invalid_at": found.above if found else None,
        "margin": measure_margin(tuned),
        "noise": found.noise.of_rate if found else metric.spread if metric else None,
        "mean": metric.mean if metric else None,
        "lasted": tuned.lasted,
        "quick": bool(tuned.goal.quick),
        "made": tuned.made,
        "known": tuned.known,
        "patch": patch,
        "trials": [render_trial_part(run) for run in trials],
    }


def render_trial_part(run: TrialRun) -> dict[str, Any]:
    record = run.record
    metric, suggestion = record.values.get("metric"), record.values.get("suggestion")
    own = (name for name in record.inputs if name.startswith("run."))
    names = (keys.TARGET_QPS, keys.MIN_DURATION, keys.MIN_QUERY_COUNT, *own)
    return {
        "id": run.id,
        "started": record.started,
        "seconds": record.seconds,
        "validity": record.values.get("validity"),
        "metric": make_metric_document((metric["value"], metric["unit"]) if metric else None),
        "reasons": record.values.get("reasons", []),
        "margins": list(map(convert_margin, record.values.get("margins", ()))),
        "suggestion": {**suggestion, "value": convert_number(suggestion["value"])} if suggestion else None,
        "marks": list(record.marks),
        "settings": {name: convert_setting(name, record.inputs[name].value) for name in names if name in record.inputs},
    }


def render_trials_text(cell: str, runs: Sequence[TrialRun], paint: Paint = show_plain) -> str:
    """Render every trial of a cell; none of them is published."""
    if not runs:
        return f"{cell}\n  no trials: `reconcile try` and `reconcile tune` make them"
    rows = [
        (
            run.record.started[:16].replace("T", " "),
            run.id.rpartition("-")[2][:8],
            render_settings(tuple((n, str(v)) for n, v in render_trial_part(run)["settings"].items())),
            render_trial(run),
            ", ".join(mark for mark in run.record.marks if mark == QUICK),
        )
        for run in runs
    ]
    return "\n".join([f"{cell}: trials, none of them published", *render_table(rows, 2, width=paint.width)])
