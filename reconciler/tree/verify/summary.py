"""The summary for people against the detail log of the same run: LoadGen writes both from the same numbers."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.mlperf.loadgen.log import DetailLog
from reconciler.mlperf.loadgen.summary import SummaryLog, find_differing
from reconciler.mlperf.loadgen.text_log import PASSED_OVER
from reconciler.tree.check.demands import OURS, Complaints
from reconciler.tree.findings import Complaint, Place, Rule, Severity
from reconciler.tree.reading.values import read_value, show_value
from reconciler.tree.reading.view import CellView, RunView

_FEW = 3  # more differences than this: the summary is of another run


def verify_summaries(view: CellView) -> Complaints:
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
    for reading in summary.list_readings(log):
        for name, key in find_differing(reading, log):
            yield _complaint(reading, log, name, key, reading.get(name))
    yield from _errors(summary, log)


def _errors(summary: SummaryLog, log: DetailLog) -> Iterator[Complaint]:
    known = len(log.errors) + len(log.all_of(PASSED_OVER))
    if summary.errors is not None and summary.errors != known:
        line = log.errors[0].line if log.errors else log.number("num_errors")
        yield Complaint(
            Place(summary.file),
            f"{summary.errors} of LoadGen's errors counted",
            f"{known} ERROR lines in the detail log",
            cause="lines were filtered out of the detail log, or LoadGen met an error after it had closed the log",
            other=Place(log.file, line),
            severity=Severity.NOTE,
            mechanism="uncounted-errors",
        )


def _complaint(summary: SummaryLog, log: DetailLog, name: str, key: str, said: str) -> Complaint:
    return Complaint(
        Place(summary.file, summary.number(name)),
        f"{name}: {show_value(said)}",
        f"{key} {show_value(read_value(log, key))} in the detail log",
        other=Place(log.file, log.number(key)),
    )


SUMMARY_RULES = (
    (Rule("summary.contradicts", "the summary says otherwise than the detail log", (OURS,)), verify_summaries),
)
