"""What a finished run proves: VALID or INVALID with reasons, the metric, the margin to each constraint, a next target.

VALID is LoadGen's own word: duration, query count, performance constraint and early stopping all met. An ERROR line
does not change LoadGen's word, but no submission may contain one, so that it makes a run invalid here.
"""

from __future__ import annotations

from decimal import Decimal

from msgspec import Struct

from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_line import LogLine
from reconciler.loadgen.margins import Margin, compute_margins
from reconciler.loadgen.suggestions import Suggestion, suggest
from reconciler.resource.canonical import show_decimal
from reconciler.resource.ruled_values import Metric

_REASONS = {
    keys.RESULT_PERF_CONSTRAINTS_MET: "the latency constraint is not met",
    keys.RESULT_MIN_DURATION_MET: "the run is shorter than its minimum duration",
    keys.RESULT_MIN_QUERIES_MET: "fewer queries than the minimum were issued",
    keys.EARLY_STOPPING_MET: "early stopping: too few queries to prove the percentile",
}
_MISUSED = "error_invalid_config"  # of LoadGen's test_settings_internal.cc and loadgen.cc: read with the settings


class RunVerdict(Struct, frozen=True):
    """The judgement of one run.

    ``metric`` is decimal text in ``unit``, empty when the log holds none. ``suggestion`` is set when the run is INVALID
    for its settings, or needlessly slack. ``errors`` are LoadGen's ERROR lines as (line, text). ``lasting``: LoadGen
    refuses how it was set up, so that a repeat with the same settings, or another target, would end alike.
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
    reasons = _reasons(log)
    value = log.get(metric.key)
    number = Decimal(value) / metric.divisor if isinstance(value, (int, Decimal)) else Decimal(0)
    # LoadGen writes 0 for an early-stopping latency that too few queries leave unknown.
    known = number > 0
    if not known and not reasons:
        reasons = (f"the log has no {metric.key}",)
    found = compute_margins(log)
    lasting = any(entry.key == _MISUSED for entry in log.errors)
    return RunVerdict(
        valid=not reasons,
        reasons=reasons,
        metric=show_decimal(number) if known else "",
        unit=metric.unit,
        margins=found,
        suggestion=None if lasting else suggest(log, found, valid=not reasons),
        errors=_errors(log),
        lasting=lasting,
    )


def judge_accuracy(log: DetailLog) -> RunVerdict:
    """Judge the log of an accuracy run: it came to its end and has no ERROR lines. Its score is judged elsewhere."""
    reasons = [] if log.complete else [f"the log ends at line {log.length} without a result"]
    reasons += _error_reasons(log)
    return RunVerdict(not reasons, tuple(reasons), "", "", errors=_errors(log))


def _reasons(log: DetailLog) -> tuple[str, ...]:
    if not log.complete:
        return (f"the log ends at line {log.length} without a result", *_error_reasons(log))
    reasons = [text for key, text in _REASONS.items() if log.get(key) is False]
    if log.validity != "VALID" and not reasons:
        reasons.append(f"LoadGen says {log.validity}: {log.get('result_invalid_reason', 'no reason given')}".strip())
    return (*reasons, *_error_reasons(log))


def _error_reasons(log: DetailLog) -> list[str]:
    errors = log.errors
    if not errors:
        return []
    more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
    return [f"ERROR in line {errors[0].line}: {_text(errors[0])}{more}"]


def _errors(log: DetailLog) -> tuple[tuple[int, str], ...]:
    return tuple((entry.line, _text(entry)) for entry in log.errors)


def _text(entry: LogLine) -> str:
    return " ".join(str(entry.value).split())
