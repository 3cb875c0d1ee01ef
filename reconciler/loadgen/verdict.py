"""Verdict on a finished run: VALID or INVALID with reasons, the metric, the margin to each constraint, a next target,
and samples per joule.

VALID is LoadGen's own verdict: duration, query count, performance constraint and early stopping are all met. An ERROR
line does not change that verdict, but no submission may contain one, so it makes a run invalid here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from fractions import Fraction

from msgspec import Struct

from reconciler.loadgen import keys
from reconciler.loadgen.early_stopping import compute_least_queries, compute_queries_at_rate
from reconciler.loadgen.inconsistency import read_integer
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_line import LogLine
from reconciler.loadgen.margins import (
    Margin,
    compute_margins,
    count_needed_queries,
    read_percentile,
    read_seconds,
    show_measured,
)
from reconciler.resource.canonical import show_decimal
from reconciler.resource.quantities import parse_decimal
from reconciler.resource.ruled_values import Metric

_REASONS = {
    keys.RESULT_PERF_CONSTRAINTS_MET: "the latency constraint is not met",
    keys.RESULT_MIN_DURATION_MET: "the run is shorter than its minimum duration",
    keys.RESULT_MIN_QUERIES_MET: "fewer queries than the minimum were issued",
    keys.EARLY_STOPPING_MET: "early stopping: too few queries to prove the percentile",
}
_MISUSED = "error_invalid_config"  # from LoadGen's test_settings_internal.cc and loadgen.cc, on reading the settings


class RunVerdict(Struct, frozen=True):
    """Verdict on one run.

    ``metric`` is decimal text in ``unit``, empty if the log contains none. ``suggestion`` is set if the run is INVALID
    because of its settings, or needlessly slack. ``errors`` are LoadGen's ERROR lines as (line, text). ``lasting``:
    LoadGen rejects the run's setup, so a repeat with the same settings, or with another target, would end the same way.
    """

    valid: bool
    reasons: tuple[str, ...]
    metric: str
    unit: str
    margins: tuple[Margin, ...] = ()
    suggestion: Suggestion | None = None
    errors: tuple[tuple[int, str], ...] = ()
    lasting: bool = False

    @property
    def word(self) -> str:
        return "VALID" if self.valid else "INVALID"


def judge_performance(log: DetailLog, metric: Metric) -> RunVerdict:
    """Judge a performance run. ``metric`` comes from the ruleset: ``BenchmarkRules.metric(scenario)``."""
    reasons = _list_reasons(log)
    value = log.get(metric.key)
    number = Decimal(value) / metric.divisor if isinstance(value, (int, Decimal)) else Decimal(0)
    # LoadGen writes 0 for an early-stopping latency that too few queries leave unknown.
    known = number > 0
    if not known and not reasons:
        reasons = (f"the log has no {metric.key}",)
    found = compute_margins(log)
    lasting = _is_misused(log)
    return RunVerdict(
        valid=not reasons,
        reasons=reasons,
        metric=show_decimal(number) if known else "",
        unit=metric.unit,
        margins=found,
        suggestion=None if lasting else suggest(log, found, valid=not reasons),
        errors=_list_errors(log),
        lasting=lasting,
    )


def judge_accuracy(log: DetailLog) -> RunVerdict:
    """Judge an accuracy run's log: it must be complete and contain no ERROR lines. The score is judged elsewhere."""
    reasons = [] if log.complete else [f"the log ends at line {log.length} without a result"]
    reasons += _list_error_reasons(log)
    return RunVerdict(not reasons, tuple(reasons), "", "", errors=_list_errors(log), lasting=_is_misused(log))


def _is_misused(log: DetailLog) -> bool:
    return any(entry.key == _MISUSED for entry in log.errors)


def _list_reasons(log: DetailLog) -> tuple[str, ...]:
    if not log.complete:
        return (f"the log ends at line {log.length} without a result", *_list_error_reasons(log))
    reasons = [text for key, text in _REASONS.items() if log.get(key) is False]
    if log.validity != "VALID" and not reasons:
        reasons.append(f"LoadGen says {log.validity}: {log.get('result_invalid_reason', 'no reason given')}".strip())
    return (*reasons, *_list_error_reasons(log))


def _list_error_reasons(log: DetailLog) -> list[str]:
    errors = log.errors
    if not errors:
        return []
    more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
    return [f"ERROR in line {errors[0].line}: {_show_text(errors[0])}{more}"]


def _list_errors(log: DetailLog) -> tuple[tuple[int, str], ...]:
    return tuple((entry.line, _show_text(entry)) for entry in log.errors)


def _show_text(entry: LogLine) -> str:
    return " ".join(str(entry.value).split())


# The next value to try after an INVALID or needlessly slack performance run. It is suggested to the user, never
# applied.
#
# The rules are LoadGen's; the factors are our first guesses, close enough that a second run usually is VALID.

_SATURATED = Decimal("0.98")  # share of the scheduled rate; below it, completions fall behind
_SLACK_LATENCY = Decimal("0.5")
_SLACK_DURATION = Decimal("1.5")
_MOST_QUERIES = 10**8  # more than any practical run has


class Suggestion(Struct, frozen=True):
    """``setting``: its spec name; ``value``: text in ``unit`` (queries/s, ms, queries); "" means: unset it."""

    setting: str
    value: str
    unit: str
    why: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.value or 'leave it out'} {self.unit}".rstrip() + f" ({self.why})"


def suggest(log: DetailLog, found: Sequence[Margin], *, valid: bool) -> Suggestion | None:
    """Suggest a next value; None if no better settings than those of this run are known."""
    if not log.complete:
        return None
    if not valid:
        for key, name in ((keys.MAX_QUERY_COUNT, keys.MAX_QUERY_COUNT), ("max_duration_ms", keys.MAX_DURATION)):
            # LoadGen ends such a run early with an ERROR line.
            if log.get_effective(key) and any("Max" in str(entry.value) for entry in log.errors):
                return Suggestion(name, "", "", f"{name} ended the run early")
    if log.scenario == "Server":
        return _suggest_server_target(log, found, valid)
    return _suggest_offline_target(log, valid) if log.scenario == "Offline" else _suggest_stream_target(log, valid)


def _suggest_server_target(log: DetailLog, found: Sequence[Margin], valid: bool) -> Suggestion | None:
    """target_qps is the claim itself: if it is too high, latency exceeds the limit; if too low, much room remains."""
    target = Decimal(log.get(keys.EFFECTIVE_TARGET_QPS, 0))
    latencies = [margin for margin in found if margin.unit == "ms" and Decimal(margin.limit)]
    if not target or not latencies:
        return None
    ratio = max(Decimal(margin.measured) / Decimal(margin.limit) for margin in latencies)
    if valid:
        if ratio > _SLACK_LATENCY:
            return None
        why = f"{latencies[0].name} uses {show_measured(ratio * 100, 2)}% of its limit"
        return Suggestion(keys.TARGET_QPS, _round(target * Decimal("1.1")), "queries/s", why)
    if all(margin.met for margin in latencies):
        return _suggest_more_queries(log)
    completed = Decimal(log.get(keys.RESULT_COMPLETED_SAMPLES_PER_SEC, 0))
    scheduled = Decimal(log.get(keys.RESULT_SCHEDULED_SAMPLES_PER_SEC, target))
    if 0 < completed < scheduled * _SATURATED:
        why = f"only {show_measured(completed)} of {show_measured(scheduled)} samples/s were completed"
        return Suggestion(keys.TARGET_QPS, _round(completed * Decimal("0.9")), "queries/s", why)
    factor = Decimal("0.95") if ratio <= Decimal("1.2") else Decimal("0.85")
    worst = next(margin for margin in latencies if not margin.met)
    return Suggestion(keys.TARGET_QPS, _round(target * factor), "queries/s", f"{worst.name} is over its limit")


def _suggest_more_queries(log: DetailLog) -> Suggestion | None:
    """The latency limit is met, but too few queries ran to prove it: early stopping needs n(t) of them."""
    queries, over = (read_integer(log, f"result_{name}query_count") or 0 for name in ("", "overlatency_"))
    if log.get(keys.EARLY_STOPPING_MET, True) or not queries:
        return None
    if log.get(keys.REQUESTED_USE_TOKEN_LATENCIES):  # the count over the latency belongs to another one
        least = count_needed_queries(log, queries)
        return Suggestion(keys.MIN_QUERY_COUNT, str(least), "queries", "early stopping needs that many")
    needed = compute_queries_at_rate(Fraction(over, queries), read_percentile(log), _MOST_QUERIES)
    if needed is None:
        return None
    return Suggestion(
        keys.MIN_QUERY_COUNT, str(needed), "queries", f"{over} of {queries} queries were over the latency"
    )


def _suggest_offline_target(log: DetailLog, valid: bool) -> Suggestion | None:
    """LoadGen sizes one query for 1.1 x min_duration x target_qps: the run is too short if the real rate is higher."""
    rate, lasted = log.get(keys.RESULT_SAMPLES_PER_SECOND), read_seconds(log)
    least = Decimal(log.get(keys.EFFECTIVE_MIN_DURATION_MS, 0)) / 1000
    if not isinstance(rate, (int, Decimal)) or rate <= 0 or lasted is None:
        return None
    if log.get(keys.RESULT_MIN_DURATION_MET) is False:
        why = f"the run lasted {show_measured(lasted)} s of {show_measured(least)} s"
        return Suggestion(keys.TARGET_QPS, _round(Decimal(rate), ROUND_UP), "samples/s", why)
    target, count = Decimal(log.get(keys.EFFECTIVE_TARGET_QPS, 0)), log.get(keys.REQUESTED_MIN_QUERY_COUNT, 0)
    filled = log.get(keys.EFFECTIVE_SAMPLES_PER_QUERY, 0) > count
    if valid and least and filled and lasted > least * _SLACK_DURATION and target > rate:
        why = f"the run lasted {show_measured(lasted)} s where {show_measured(least)} s suffice"
        return Suggestion(keys.TARGET_QPS, _round(Decimal(rate), ROUND_UP), "samples/s", why)
    return None


def _suggest_stream_target(log: DetailLog, valid: bool) -> Suggestion | None:
    """SingleStream and MultiStream generate queries for 2 x min_duration / target_latency in advance, so the run ends
    early if the real latency is under half of the expected one."""
    if valid:
        return None
    kind = "query_latency" if log.scenario == "MultiStream" else "latency"
    mean = log.get(f"result_mean_{kind}_ns")
    if log.get(keys.RESULT_MIN_DURATION_MET) is False and isinstance(mean, (int, Decimal)) and mean > 0:
        # LoadGen's mean excludes its own overhead, so this value is slightly low, which is the safe side.
        why = "LoadGen ran out of queries: the expected latency is over twice the real one"
        return Suggestion(keys.TARGET_LATENCY, _round(Decimal(mean).scaleb(-6)), "ms", why)
    if log.get(keys.EARLY_STOPPING_MET) is False:
        needed = compute_least_queries(1, read_percentile(log))
        return Suggestion(keys.MIN_QUERY_COUNT, str(needed), "queries", "early stopping needs that many")
    return None


def _round(number: Decimal, rounding: str = ROUND_DOWN) -> str:
    """Round to three significant digits, as a person would write a target."""
    return show_decimal(number.quantize(Decimal(1).scaleb(number.adjusted() - 2), rounding=rounding))


# Samples per joule of a measured run, as a round's final report computes them from power and result.

_DIGITS = Context(prec=6)


def compute_efficiency(log: DetailLog, metric: Mapping[str, object] | None, watts: object) -> dict[str, str] | None:
    """Return value and unit; None if the result or the power is unknown. A rate per second is also one per watt-second.
    For a latency, divide the samples of the run by the energy that it used."""
    power = parse_decimal(watts)
    if metric is None or power is None or power <= 0:
        return None
    unit = str(metric["unit"])
    if unit.endswith("/s"):
        rate, unit = parse_decimal(metric["value"]), f"{unit.removesuffix('/s')}/J"
    else:
        rate, unit = _compute_rate(log), "samples/J"
    return {"value": show_decimal(_DIGITS.divide(rate, power)), "unit": unit} if rate else None


def _compute_rate(log: DetailLog) -> Decimal | None:
    """Return the samples per second between power_begin and power_end."""
    queries, group = (
        parse_decimal(log.get(key)) for key in (keys.RESULT_QUERY_COUNT, keys.GENERATED_SAMPLES_PER_QUERY)
    )
    if queries is None or log.started is None or log.ended is None:
        return None
    lasted = Decimal(str((log.ended - log.started).total_seconds()))
    return queries * (group or 1) / lasted if lasted > 0 else None
