"""A detail log against itself, and the runs of a cell against each other."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.tree.check.accuracy import count_key
from reconciler.tree.check.demands import OURS, Complaints
from reconciler.tree.findings import Complaint, Place, Rule, Severity
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import at, began, ended, number, shown, value
from reconciler.tree.reading.view import CellView, RunView

_SLACK = 1.0  # seconds, for the resolution of LoadGen's clock
_FAR = 30 * 86400.0  # seconds between two runs that people make together


def runs_of(view: CellView) -> Iterator[RunView]:
    for run in (view.performance, view.accuracy, *view.test_views.values()):
        if run is not None:
            yield run


def duration(view: CellView) -> Complaints:
    """LoadGen says that the minimum duration was kept, and its own clock that it cannot have been."""
    for run in runs_of(view):
        start, end = began(run.log), ended(run.log)
        least = number(run.log, "effective_min_duration_ms")
        met = value(run.log, "result_min_duration_met") is True
        if not met or start is None or end is None or least is None:
            continue
        lasted = (end - start).total_seconds()
        if lasted + _SLACK < float(least) / 1000:
            yield Complaint(
                at(run.log, "effective_min_duration_ms"),
                f"a minimum duration of {float(least) / 1000:g} s that was met",
                f"{lasted:g} s between power_begin and power_end",
                cause="a log that was edited, or put together from two",
                other=at(run.log, "power_end"),
            )


def validity(view: CellView) -> Complaints:
    """VALID, with a condition that is not met."""
    for run in runs_of(view):
        failed = [key for key in _CONDITIONS if value(run.log, key) is False]
        if run.log.validity == "VALID" and failed:
            place, other = at(run.log, "result_validity"), at(run.log, failed[0])
            yield Complaint(place, "VALID", f"{failed[0]} false in the same log", cause="an edited log", other=other)


_CONDITIONS = (
    "result_perf_constraints_met",
    "result_min_duration_met",
    "result_min_queries_met",
    "early_stopping_met",
)


def seeds(view: CellView) -> Complaints:
    """All runs of a cell carry the seeds of one round."""
    run = view.performance
    for other in runs_of(view):
        if run is None or other.name == "performance" or other.log.seeds == run.log.seeds:
            continue
        own = view.audit_settings(other.name)
        differing = (n for n in run.log.seeds if n not in own and other.log.seeds.get(n) != run.log.seeds[n])
        name = next(differing, "")
        if name:
            key = f"effective_{name}"
            yield Complaint(
                at(other.log, key),
                f"{name} {shown(value(other.log, key))}",
                f"{run.log.seeds[name]}, the seed of the performance run",
                cause="a log of another round, or made with another LoadGen",
                other=at(run.log, key),
            )


def versions(view: CellView) -> Complaints:
    run = view.performance
    for other in runs_of(view):
        if run is not None and other.name != "performance" and other.log.version != run.log.version:
            yield Complaint(
                at(other.log, "loadgen_version"),
                f"LoadGen {shown(other.log.version or None)}",
                f"{shown(run.log.version or None)}, as in the performance run",
                other=at(run.log, "loadgen_version"),
            )


def dates(view: CellView) -> Complaints:
    """A log far older than its neighbours was often left from an earlier campaign."""
    run = view.performance
    start = began(run.log) if run else None
    if run is None or start is None:
        return
    for other in runs_of(view):
        theirs = began(other.log)
        if theirs is None or abs((theirs - start).total_seconds()) <= _FAR:
            continue
        days = round((theirs - start).total_seconds() / 86400)
        yield Complaint(
            at(other.log, "power_begin"),
            f"{other.name} of {theirs:%Y-%m-%d}",
            f"a run near {start:%Y-%m-%d}, when the performance run was made",
            cause=f"a log {abs(days)} days {'newer' if days > 0 else 'older'} than its neighbour",
            other=at(run.log, "power_begin"),
        )


def datasets(view: CellView) -> Complaints:
    """Performance and compliance runs load from the dataset that the accuracy run covers, unless the round says so."""
    accuracy, run = view.accuracy, view.performance
    if accuracy is None or run is None:
        return
    ours, theirs = number(run.log, _TOTAL), number(accuracy.log, _TOTAL)
    if ours is None or theirs is None or ours == theirs:
        return
    covered = number(accuracy.log, count_key(accuracy))
    wanted = view.rules.value("exact_accuracy_sample_count", view.cell.scenario) if view.rules else None
    if covered is not None and covered == wanted:
        return
    yield Complaint(
        at(accuracy.log, _TOTAL),
        f"a dataset of {theirs} samples",
        f"{ours}, as in the performance run",
        cause="the accuracy run of another benchmark or dataset",
        other=at(run.log, _TOTAL),
    )


_TOTAL = "qsl_reported_total_count"


def names(view: CellView) -> Complaints:
    run = view.performance
    ours = value(run.log, "sut_name") if run else None
    for other in runs_of(view):
        theirs = value(other.log, "sut_name")
        if run is not None and theirs != ours:
            place = at(other.log, "sut_name")
            wanted = f"{shown(ours)}, as in the performance run"
            yield Complaint(place, f"SUT {shown(theirs)}", wanted, other=at(run.log, "sut_name"))


def unreadable(view: CellView) -> Complaints:
    """Files that are there and cannot be compared with anything."""
    files = view.files
    reads: list[Read[object]] = [files.user_conf, files.measurements, files.accuracy_text]
    if files.endpoints:
        reads = [files.config, files.result_summary, files.accuracy_results, files.measurements]
    for run in files.runs():
        reads += [run.detail, run.summary]
    for read in reads:
        if read.problem:
            yield Complaint(Place(read.file, read.line), read.problem, "a file that can be read")


NOTE = Severity.NOTE
RUN_CONTRADICTIONS = (
    (Rule("files.readable", "every file can be read", (OURS,)), unreadable),
    (Rule("log.duration", "a duration that cannot be", ("LoadGen", OURS)), duration),
    (Rule("log.validity", "VALID against its own conditions", ("LoadGen", OURS)), validity),
    (Rule("runs.seeds", "runs of different rounds", (OURS,)), seeds),
    (Rule("runs.dataset", "runs over different datasets", (OURS,), Severity.WARNING), datasets),
    (Rule("runs.loadgen", "runs of different LoadGens", (OURS,), NOTE), versions),
    (Rule("runs.dates", "a log older or newer than its neighbours", (OURS,), NOTE), dates),
    (Rule("runs.sut", "runs of differently named SUTs", (OURS,), NOTE), names),
)
