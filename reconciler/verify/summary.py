"""The summary for people against the detail log of the same run: LoadGen writes both from the same numbers."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.check.demands import OURS, Complaints
from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.summary import SummaryLog, find_differing
from reconciler.loadgen.text_log import PASSED_OVER
from reconciler.resource.rules import rule
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.values import read_value, show_value
from reconciler.tree.reading.view import CellView, RunView
from reconciler.verify.premises import RELEASE_IS_KNOWN

_FEW = 3  # more differences than this: the summary is of another run


@rule(
    "summary.contradicts",
    "the summary says otherwise than the detail log",
    sources=(OURS,),
    cause="other-summary",
    premises=(RELEASE_IS_KNOWN,),
)
def verify_summaries(view: CellView) -> Complaints:
    """LoadGen writes both files from the same numbers, MultiStream's per query; they are compared to the digits that
    are shown, and a summary that differs in many is one finding. Estimates of early stopping are left out where tokens
    are measured, since a summary has several of one name. Errors missing from the detail log are a question: the
    official filter takes such lines out, and LoadGen may meet one after it closed the log.
    """
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
    known = len(log.errors) + len(log.list_entries(PASSED_OVER))
    if summary.errors is not None and summary.errors != known:
        line = log.errors[0].line if log.errors else log.find_line_number(keys.NUM_ERRORS)
        yield Complaint(
            Place(summary.file),
            f"{summary.errors} of LoadGen's errors counted",
            f"{known} ERROR lines in the detail log",
            cause="lines were filtered out of the detail log, or LoadGen met an error after it had closed the log",
            other=Place(log.file, line),
            doubt="the official filter takes lines of errors out of a detail log",
            mechanism="uncounted-errors",
        )


def _complaint(summary: SummaryLog, log: DetailLog, name: str, key: str, said: str) -> Complaint:
    return Complaint(
        Place(summary.file, summary.number(name)),
        f"{name}: {show_value(said)}",
        f"{key} {show_value(read_value(log, key))} in the detail log",
        other=Place(log.file, log.find_line_number(key)),
    )


SUMMARY_RULES = (verify_summaries,)
