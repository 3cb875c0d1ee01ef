"""Rules for the files that a scenario folder must or may contain, and for measurements.json (submission rules:
layout)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from reconciler.check.demands import NEW, OLD, OURS, Complaints, soften
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY, TRACE
from reconciler.resource.rules import Severity, rule
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.cell import Folder
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import show_value
from reconciler.tree.reading.view import CellView

# Files that both checkers accept in each folder of logs.
_ACCEPTED = frozenset({TRACE, "results.json", ".gitkeep"})


def list_missing(folder: Folder, names: Iterable[str]) -> Complaints:
    if not folder.exists:
        yield Complaint(Place(folder.shown), "missing", f"a folder with {', '.join(names)}")
        return
    there = set(folder.list_files())
    for name in names:
        if name not in there:
            yield Complaint(Place(f"{folder.shown}/{name}"), "missing", name)


def list_unlisted(folder: Folder, allowed: Collection[str], wanted: str) -> Complaints:
    """Report files that are neither in ``allowed`` nor accepted everywhere. ``wanted``: the allowed content, in
    words."""
    for name in folder.list_files():
        if name not in allowed and name not in _ACCEPTED:
            yield Complaint(Place(f"{folder.shown}/{name}"), f"a file {name}", wanted, fix="remove it")


_LOGS_ALONE = "LoadGen's files only"
_POWER = ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log")


@rule("files.missing", "the logs exist", sources=(f"{NEW}: loader", f"{OLD}: file lists"))
def check_run_files(view: CellView) -> Complaints:
    """run_1 and accuracy/ contain their logs."""
    files = view.files
    yield from list_missing(files.performance.folder, (SUMMARY, DETAIL))
    yield from list_missing(files.accuracy.folder, (SUMMARY, DETAIL, ACCURACY_LOG, ACCURACY_TEXT))


@rule("files.extra", "no other files next to the logs", sources=(f"{OLD}: file lists",))
def check_extra_files(view: CellView) -> Complaints:
    """Files left by other tools are accepted in rounds whose checker did not look for them."""
    files, mild = view.files, soften(view, "listed_files")
    power = {"spl.txt"} if files.measures_power else set()
    for folder, own in ((files.performance.folder, power), (files.accuracy.folder, {ACCURACY_TEXT})):
        for item in list_unlisted(folder, {SUMMARY, DETAIL, ACCURACY_LOG, *own}, _LOGS_ALONE):
            yield replace(item, severity=mild)


@rule("files.document", "user.conf and README.md", sources=(f"{NEW}: measurements check", OLD))
def check_documents(view: CellView) -> Complaints:
    """The documents that the round requires are present."""
    yield from find_empty(view, view.ruleset.cell_documents)


def find_empty(view: CellView, names: Iterable[str]) -> Complaints:
    """Yield documents of a scenario folder that are missing or empty."""
    folder = view.files.measurements_folder
    for name in names:
        if not (size := folder.get_size(name)):
            said, mild = ("missing", None) if size is None else ("empty", soften(view, "filled_values"))
            yield Complaint(Place(f"{folder.shown}/{name}"), said, "a non-empty file", severity=mild)


@rule("measurements.missing", "the measurements file", sources=(f"{NEW}: measurements check", OLD))
def check_measurements(view: CellView) -> Complaints:
    """Each result has a measurements file."""
    found = view.files.measurements
    if found.absent:
        wanted = f"{view.cell.system}*.json" if view.files.legacy else "measurements.json"
        yield Complaint(Place(found.file), "missing", wanted)


@rule("measurements.fields", "the mandatory fields", sources=(f"{NEW}: measurements check", OLD))
def check_measurements_fields(view: CellView) -> Complaints:
    """Each mandatory field of the measurements file is present and has a value."""
    found = view.files.measurements
    if found.value is None:
        return
    for name in view.ruleset.measurements_fields:
        if name not in found.value.values:
            yield Complaint(Place(found.file), f"no field {name}", "a value")
        elif not found.value.get(name):
            value = found.value.get(name)
            place = Place(found.file, found.value.lines.get(name, 0))
            said, mild = f"{name} is {show_value(value) or 'empty'}", soften(view, "filled_values")
            yield Complaint(place, said, "a meaningful value", severity=mild)


@rule("files.readable", "every file can be read", sources=(NEW, OURS))
def check_readable_logs(view: CellView) -> Complaints:
    """Every existing file can be read."""
    files = view.files
    logs = (log for run in files.list_runs() for log in (run.detail, run.summary))
    yield from find_broken((*logs, files.user_conf, files.measurements, files.accuracy_text))


def find_broken(reads: Iterable[Read[object]]) -> Complaints:
    """Yield files that exist but cannot be read."""
    for found in reads:
        if found.problem:
            cause = "the file was truncated or edited" if found.line else ""
            yield Complaint(Place(found.file, found.line), found.problem, "a readable file", cause=cause)


@rule("files.empty-log", "summaries are LoadGen's", sources=(OURS,))
def check_empty_logs(view: CellView) -> Complaints:
    """A summary without any result line and an empty accuracy log count as missing."""
    for run in view.files.list_runs():
        if run.summary.value is not None and not run.summary.value.values and run.summary.value.errors is None:
            yield Complaint(Place(run.summary.file), "no line of LoadGen's summary", "a summary that LoadGen wrote")


@rule("files.runs", "only run_1 is read", sources=(OURS,), severity=Severity.NOTE)
def check_further_runs(view: CellView) -> Complaints:
    """The checkers read performance/run_1 and no other run."""
    folder = view.files.performance_folder
    for name in folder.list_folders():
        if name.startswith("run_") and name != "run_1":
            yield Complaint(Place(f"{folder.shown}/{name}"), "a further run", "run_1 alone", fix="only run_1 is read")


@rule("files.power", "the files of a power submission", sources=(f"{NEW}: power check", OLD))
def check_power_files(view: CellView) -> Complaints:
    """A power submission has the power folder, and logs of both the ranging run and the testing run."""
    if view.files.measures_power:
        performance = view.files.performance_folder
        yield from list_missing(performance / "run_1", ("spl.txt",))
        yield from list_missing(performance / "ranging", (SUMMARY, DETAIL, "spl.txt"))
        yield from list_missing(performance / "power", _POWER)


LOADGEN_READING_RULES = (check_readable_logs, check_documents)
LOADGEN_FILE_RULES = (check_run_files, check_extra_files, check_empty_logs, check_power_files, check_further_runs)
FILE_RULES = (check_measurements, check_measurements_fields)
