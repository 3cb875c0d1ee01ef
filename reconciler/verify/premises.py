"""Premises that several rules share, each with a function that checks whether the tree shows it."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.resource.rules import Premise
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.findings import Complaint
from reconciler.tree.reading.files import UnreadableError, read_bytes
from reconciler.tree.reading.view import CellView

_NEWEST_RELEASE = 6  # newest LoadGen release whose code was compared with the rules
_VERSION = keys.LOADGEN_VERSION  # LoadGen writes one, so contradictions about it do not depend on the release
OWN_SCENARIO = "tests-of-own-scenario"  # the cause of doubts about tests whose published run is of another scenario
_POINTERS = (b"version https://git-lfs.github.com/", b"/annex/objects/")
_POINTER_SIZE = 1024


def _doubt_round(_: Complaint, view: object) -> str:
    ruleset: Ruleset = view.ruleset  # type: ignore[attr-defined]
    return "" if ruleset.is_known else "the rules of this tree's round are unknown"


def _doubt_release(complaint: Complaint, view: CellView) -> str:
    if complaint.aspect == _VERSION:
        return ""
    for log in _list_logs(complaint, view):
        if log.release > _NEWEST_RELEASE and len(log.list_entries(_VERSION)) == 1:
            return f"LoadGen {log.version} is newer than {_NEWEST_RELEASE}, the newest release that the rules cover"
    return ""


def _list_logs(complaint: Complaint, view: CellView) -> Iterator[DetailLog]:
    """Yield the detail logs that a complaint refers to, directly or through their summaries; by default, the published
    run's."""
    files = {complaint.place.file, complaint.other.file if complaint.other else ""}
    folders = {file.rpartition("/")[0] for file in files}
    logs = [run.log for run in view.list_runs()]
    named = [log for log in logs if log.file.rpartition("/")[0] in folders]
    yield from named or logs[:1]


def _doubt_copy(complaint: Complaint, view: CellView) -> str:
    """Doubt a file that is only a git pointer, which a checkout may contain instead of the file."""
    shown = view.files.submitter.shown
    if not complaint.place.file.startswith(f"{shown}/"):
        return ""
    try:
        data = read_bytes(f"{view.files.submitter.path}{complaint.place.file[len(shown) :]}", _POINTER_SIZE)
    except UnreadableError:
        return ""
    if data is not None and any(mark in data for mark in _POINTERS):
        return "it is a git pointer to a large file, which is not in this copy"
    return ""


def find_doubt_of_inference(view: CellView, test: str) -> str:
    """Doubt a test of the folder's own scenario if the published run is of another one: the test is in the right
    folder, and the result may have been inferred after it."""
    run, tested = view.performance, view.test_views.get(test)
    if run is None or tested is None or not run.inferred or tested.inferred:
        return ""
    return f"{test} and its folder are of {tested.log.scenario}, but the published run is of {run.log.scenario}"


def are_one_name(one: str, other: str) -> bool:
    """Return True if two spellings may be one name: ignoring case, spaces and punctuation, they are equal, or one
    begins with the other."""
    first, second = ("".join(filter(str.isalnum, name)).casefold() for name in (one, other))
    return bool(first and second) and (first.startswith(second) or second.startswith(first))


ROUND_IS_KNOWN = Premise("The rules of the round are known.", _doubt_round)
RELEASE_IS_KNOWN = Premise("The log is from a LoadGen release whose code was compared with the rule.", _doubt_release)
RUN_IS_OF_THE_FOLDER = Premise("The published run is of its folder's scenario, if the test is of that scenario.")
FILE_IS_WHOLE = Premise("This copy of the tree has the file itself, not a pointer to it.", _doubt_copy)
