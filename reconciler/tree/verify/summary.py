"""The summary for people against the detail log of the same run: LoadGen writes both from the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from reconciler.mlperf.log import DetailLog
from reconciler.mlperf.summary import SummaryLog
from reconciler.tree.check.demands import OURS, Complaints
from reconciler.tree.findings import Complaint, Place, Rule
from reconciler.tree.reading.values import as_number, shown, value
from reconciler.tree.reading.view import CellView, RunView

_TEXT = {
    "SUT name": "sut_name",
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "Result is": "result_validity",
}
_FLAGS = {
    "Performance constraints satisfied": "result_perf_constraints_met",
    "Min duration satisfied": "result_min_duration_met",
    "Min queries satisfied": "result_min_queries_met",
    "Early stopping satisfied": "early_stopping_met",
}
_NUMBERS = {
    "Samples per second": "result_samples_per_second",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "samples_per_query": "effective_samples_per_query",
    "target_qps": "effective_target_qps",
    "target_latency (ns)": "effective_target_latency_ns",
    "max_async_queries": "effective_max_async_queries",
    "min_duration (ms)": "effective_min_duration_ms",
    "max_duration (ms)": "effective_max_duration_ms",
    "min_query_count": "effective_min_query_count",
    "max_query_count": "effective_max_query_count",
    "qsl_rng_seed": "effective_qsl_rng_seed",
    "sample_index_rng_seed": "effective_sample_index_rng_seed",
    "schedule_rng_seed": "effective_schedule_rng_seed",
    "accuracy_log_rng_seed": "effective_accuracy_log_rng_seed",
    "performance_sample_count": "effective_performance_sample_count",
    "Min latency (ns)": "result_min_latency_ns",
    "Max latency (ns)": "result_max_latency_ns",
    "Mean latency (ns)": "result_mean_latency_ns",
    **{
        f"{p} percentile latency (ns)": f"result_{p}_percentile_latency_ns"
        for p in ("50.00", "90.00", "99.00", "99.90")
    },
}
_FEW = 3  # more differences than this: the summary is of another run


def summaries(view: CellView) -> Complaints:
    """Each difference; a summary that differs in many things is one finding."""
    runs: tuple[RunView | None, ...] = (view.performance, view.accuracy, *view.test_views.values())
    for run in runs:
        summary = run.run.summary.value if run is not None else None
        if run is None or summary is None:
            continue
        found = list(_differences(summary, run.log))
        if len(found) > _FEW:
            first = found[0]
            yield Complaint(
                first.place,
                f"{first.found}, and {len(found) - 1} more values that differ",
                first.wanted,
                cause="the summary of another run",
                other=first.other,
                fix="copy summary and detail log of one run together",
            )
        else:
            yield from found


def _differences(summary: SummaryLog, log: DetailLog) -> Iterator[Complaint]:
    for name, key in _TEXT.items():
        said, logged = summary.get(name), value(log, key)
        if said and isinstance(logged, str) and said != logged.strip():
            yield _complaint(summary, log, name, key, said)
    for name, key in _FLAGS.items():
        said, logged = summary.get(name).lower(), value(log, key)
        if said in ("yes", "no") and isinstance(logged, bool) and (said == "yes") is not logged:
            yield _complaint(summary, log, name, key, said)
    for name, key in _NUMBERS.items():
        said, number = summary.get(name), as_number(value(log, key))
        if said and number is not None and not same_number(said, number):
            yield _complaint(summary, log, name, key, said)
    yield from _errors(summary, log)


def _errors(summary: SummaryLog, log: DetailLog) -> Iterator[Complaint]:
    if summary.errors is not None and summary.errors != len(log.errors):
        line = log.errors[0].line if log.errors else log.number("num_errors")
        yield Complaint(
            Place(summary.file),
            f"{summary.errors} errors",
            f"{len(log.errors)} ERROR lines in the detail log",
            other=Place(log.file, line),
        )


def _complaint(summary: SummaryLog, log: DetailLog, name: str, key: str, said: str) -> Complaint:
    return Complaint(
        Place(summary.file, summary.number(name)),
        f"{name}: {shown(said)}",
        f"{key} {shown(value(log, key))} in the detail log",
        other=Place(log.file, log.number(key)),
    )


def same_number(said: str, logged: Decimal) -> bool:
    """Equal to the digits that are shown: the summary has two decimals where the detail log has six digits."""
    try:
        number = Decimal(said)
    except InvalidOperation:
        return False
    if not number.is_finite():
        return False
    exponent = number.as_tuple().exponent
    last = Decimal(1).scaleb(exponent) if isinstance(exponent, int) and exponent < 0 else Decimal(0)
    return abs(number - logged) <= max(last, abs(logged) * Decimal("0.00001"))


SUMMARY_RULES = ((Rule("summary.contradicts", "the summary says otherwise than the detail log", (OURS,)), summaries),)
