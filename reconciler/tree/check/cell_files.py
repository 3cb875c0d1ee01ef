"""Which files a scenario folder must and may hold, and what measurements.json must say (submission rules: layout)."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.mlperf.log_names import ACCURACY_LOG, ACCURACY_TEXT, DETAIL, SUMMARY
from reconciler.tree.check import listing
from reconciler.tree.check.demands import NEW, OLD, OURS, Complaints
from reconciler.tree.findings import Complaint, Place, Rule, Severity
from reconciler.tree.reading.cell import README, USER_CONF
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import shown
from reconciler.tree.reading.view import CellView

_LOGS_ALONE = "LoadGen's files only"
_POWER = ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log")


def run_files(view: CellView) -> Complaints:
    """run_1 and accuracy/ hold their logs."""
    files = view.files
    yield from listing.missing(files.performance.folder, (SUMMARY, DETAIL))
    yield from listing.missing(files.accuracy.folder, (SUMMARY, DETAIL, ACCURACY_LOG, ACCURACY_TEXT))


def extra_files(view: CellView) -> Complaints:
    files = view.files
    power = {"spl.txt"} if is_power(view) else set()
    yield from listing.unlisted(files.performance.folder, {SUMMARY, DETAIL, *listing.TOLERATED, *power}, _LOGS_ALONE)
    yield from listing.unlisted(
        files.accuracy.folder, {SUMMARY, DETAIL, ACCURACY_TEXT, *listing.TOLERATED}, _LOGS_ALONE
    )


def documents(view: CellView) -> Complaints:
    """user.conf (not of endpoints runs) and README.md, neither empty."""
    folder = view.files.measurements_folder
    for name in (README,) if view.files.endpoints else (USER_CONF, README):
        size = folder.size(name)
        if size is None:
            yield Complaint(Place(f"{folder.shown}/{name}"), "missing", "a file that is not empty")
        elif size == 0:
            yield Complaint(Place(f"{folder.shown}/{name}"), "empty", "a file that is not empty")


def measurements(view: CellView) -> Complaints:
    found = view.files.measurements
    if found.absent:
        wanted = f"{view.cell.system}*.json" if view.files.legacy else "measurements.json"
        yield Complaint(Place(found.file), "missing", wanted)


def measurements_fields(view: CellView) -> Complaints:
    found = view.files.measurements
    if found.value is None:
        return
    for name in view.ruleset.measurements_fields:
        if name not in found.value.values:
            yield Complaint(Place(found.file), f"no field {name}", "a value")
        elif not found.value.get(name):
            value = found.value.get(name)
            place = Place(found.file, found.value.lines.get(name, 0))
            yield Complaint(place, f"{name} is {shown(value) or 'empty'}", "a value that says something")


def readable(view: CellView) -> Complaints:
    """Every file that is there can be read."""
    for found in _read(view):
        if found.problem:
            yield Complaint(
                Place(found.file, found.line), found.problem, "a file that can be read", cause=_broken(found)
            )


def _read(view: CellView) -> Iterator[Read[object]]:
    files = view.files
    if files.endpoints:
        yield from (files.config, files.result_summary, files.accuracy_results, files.measurements)
        return
    for run in files.runs():
        yield from (run.detail, run.summary)
    yield from (files.user_conf, files.measurements, files.accuracy_text)


def _broken(found: Read[object]) -> str:
    return "the file was cut or edited" if found.line else ""


def empty_logs(view: CellView) -> Complaints:
    """A summary without a single result line, and an accuracy log without bytes, are as good as missing."""
    for run in view.files.runs():
        if run.summary.value is not None and not run.summary.value.values and run.summary.value.errors is None:
            yield Complaint(Place(run.summary.file), "no line of LoadGen's summary", "a summary that LoadGen wrote")


def further_runs(view: CellView) -> Complaints:
    folder = view.files.results / "performance"
    for name in folder.folders():
        if name.startswith("run_") and name != "run_1":
            yield Complaint(Place(f"{folder.shown}/{name}"), "a further run", "run_1 alone", fix="only run_1 is read")


def power_files(view: CellView) -> Complaints:
    """A power submission has the power folder, and logs of the ranging run beside those of the testing run."""
    if not is_power(view):
        return
    performance = view.files.results / "performance"
    yield from listing.missing(performance / "run_1", ("spl.txt",))
    yield from listing.missing(performance / "ranging", (SUMMARY, DETAIL, "spl.txt"))
    yield from listing.missing(performance / "power", _POWER)


def is_power(view: CellView) -> bool:
    return (view.files.results / "performance" / "power").exists


def scenario_name(view: CellView) -> Complaints:
    folder, proper = view.files.place.folder, view.cell.scenario
    if folder != proper:
        yield Complaint(
            Place(view.files.results.shown),
            f"folder {folder}",
            proper,
            cause="the checker takes such a result for an inferred one",
            fix=f"rename the folder to {proper}",
        )


LOADGEN_FILE_RULES = (
    (Rule("files.missing", "the logs are there", (f"{NEW}: loader", f"{OLD}: file lists")), run_files),
    (Rule("files.extra", "no other files beside the logs", (f"{OLD}: file lists",)), extra_files),
    (Rule("files.empty-log", "summaries are LoadGen's", (OURS,)), empty_logs),
    (Rule("files.power", "the files of a power submission", (f"{NEW}: power check", OLD)), power_files),
    (Rule("files.runs", "only run_1 is read", (OURS,), Severity.NOTE), further_runs),
)
FILE_RULES = (
    (Rule("files.readable", "every file can be read", (NEW, OURS)), readable),
    (Rule("files.document", "user.conf and README.md", (f"{NEW}: measurements check", OLD)), documents),
    (Rule("files.scenario-name", "the scenario folder's name", (OURS,), Severity.WARNING), scenario_name),
    (Rule("measurements.missing", "the measurements file", (f"{NEW}: measurements check", OLD)), measurements),
    (Rule("measurements.fields", "the mandatory fields", (f"{NEW}: measurements check", OLD)), measurements_fields),
)
