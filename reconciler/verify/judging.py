"""Recompute the verdicts of compliance tests from the logs in the tree, and compare them with the verify files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from reconciler.check.demands import BENCHMARK_IS_KNOWN, OURS, Complaints
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, VERIFY_PERFORMANCE
from reconciler.loadgen.summary import SummaryLog
from reconciler.resource.rules import Severity, rule
from reconciler.rules.accuracy import parse_accuracy
from reconciler.rules.compliance.definition import FAIL, PASS, MissingLogError, RunLogs
from reconciler.rules.compliance.entries import Entry
from reconciler.rules.compliance.judging import SAME, UNIQUE
from reconciler.rules.compliance.published import Judged, Published, judge_files
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.cell import Folder, RunFolder
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.log_cache import CachedAnswers
from reconciler.tree.reading.view import CellView
from reconciler.verify.premises import OWN_SCENARIO, RELEASE_IS_KNOWN, RUN_IS_OF_THE_FOLDER, find_doubt_of_inference

T = TypeVar("T")
_EMPTY = 64  # bytes of a log without answers
_SMALL = 8 << 20  # bytes of answers that are kept in memory while a test is judged


class TreeLogs(RunLogs, frozen=True):
    """Logs of a run in a tree. ``cached``: its complete log of answers, if small enough to be kept as entries."""

    files: RunFolder | None = None
    cached: CachedAnswers | None = None

    def read_entries(self, run: str) -> Iterable[Entry]:
        """Read the entries of the log. Those of a small log are kept, because a test is judged once for each possible
        answer type."""
        return (self.cached.entries if self.cached is not None else ()) or RunLogs.read_entries(self, run)

    def read_detail_log(self, run: str) -> DetailLog:
        return _require(self.files.detail if self.files else None, run)

    def read_summary_log(self, run: str) -> SummaryLog:
        return _require(self.files.summary if self.files else None, run)


_SCRIPTS = ("compliance scripts", OURS)


@rule(
    "compliance.passes",
    "a verdict that its logs contradict",
    sources=_SCRIPTS,
    cause="denied-verdict",
    premises=(BENCHMARK_IS_KNOWN, RELEASE_IS_KNOWN, RUN_IS_OF_THE_FOLDER),
)
def find_disagreements(view: CellView) -> Complaints:
    """The verdict is computed again from the published logs with the round's limits. Answers are read as every type
    that the script offers, and a type that passes counts. A pass only by a type that is too short for the answers is a
    warning if the complete answers differ. If a log is truncated or absent, no verdict is possible. If a result is
    inferred but its test is of the folder's own scenario, it is a question, because no script compares the two. A
    verify file without a verdict whose logs pass is a warning: the script did not finish.
    """
    for test, folder in view.files.tests.items():
        for item in judge_files(_collect_published(view, test, folder)):
            if item.said is not item.found and item.sure and not _is_of_nothing(item):
                complaint = _make_complaint(test, view.files.read_text(folder, item.file), item)
                compares_runs = item.file == VERIFY_PERFORMANCE and test != UNIQUE
                doubt = find_doubt_of_inference(view, test) if compares_runs and len(item.reasons) == 1 else ""
                yield replace(complaint, doubt=doubt, mechanism=OWN_SCENARIO) if doubt else complaint


@rule("compliance.empty", "a pass without any answers", sources=_SCRIPTS, cause="empty-test", severity=Severity.WARNING)
def find_empty_tests(view: CellView) -> Complaints:
    """TEST06 passed without any logged answers. Its script passes an empty log, so the submitter's verdict is the
    script's output but proves nothing."""
    for test, folder in view.files.tests.items():
        whole = view.files.read_whole_answers(folder / "accuracy")
        short = whole is not None and len(whole.data) <= _EMPTY
        for item in judge_files(_collect_published(view, test, folder)) if short else ():
            if _is_of_nothing(item):
                yield Complaint(
                    Place(view.files.read_text(folder, item.file).file),
                    f"{test} passed without any answers",
                    "answers to the samples that the test logs",
                    cause="the test's answers were not logged, which the script does not notice",
                    fix=f"repeat {test} with its answers logged, and verify them",
                    other=Place(f"{folder.shown}/accuracy/{ACCURACY_LOG}"),
                )


def _is_of_nothing(item: Judged) -> bool:
    return item.said and item.again.figures.get("answers") == "0"


def _make_complaint(test: str, read: Read[str], item: Judged) -> Complaint:
    fix = f"run the verification of {test} again on the published logs"
    cause = "the verification read other logs than the published ones, or used other limits"
    if item.said:
        why = f"a failure according to the logs of {test}: {'; '.join(item.reasons)}"
        place = Place(read.file, _find_line(read, PASS))
        if item.again.by_type:
            cause = "the verification read the answers as a type that is too short for them"
            fix = f"run the verification of {test} again with the answers' own --dtype; if it fails, repeat {test}"
            return Complaint(place, PASS, why, cause=cause, fix=fix, severity=Severity.WARNING)
        return Complaint(place, PASS, why, cause=cause, fix=f"{fix}; if it fails, repeat {test}")
    figures = ", ".join(f"{name} {value}" for name, value in item.again.figures.items())
    place, wanted = Place(read.file, _find_line(read, FAIL)), f"{PASS}: {figures}"
    cause = "the verification did not finish, or read other logs"
    return Complaint(
        place, f"no {PASS}", wanted, cause=cause, fix=fix, severity=Severity.WARNING, mechanism="missing-verdict"
    )


def _collect_published(view: CellView, test: str, folder: Folder) -> Published:
    runs, accuracy = view.files.test_runs, view.files.accuracy
    before, own = (runs.get(UNIQUE), runs.get(SAME)) if test == UNIQUE else (view.files.performance, runs.get(test))
    return Published(
        test=test,
        rules=view.find_test(test),
        scenario=view.cell.scenario,
        metrics=tuple(bar.metric for bar in view.rules.list_bars(view.cell.scenario)) if view.rules else (),
        audit=_audit_logs(view, folder / "accuracy", own),
        performance=TreeLogs(files=before),
        accuracy=TreeLogs(answers=read_answers(view, accuracy.folder), files=accuracy),
        text=partial(_read_text, view, folder),
    )


def _audit_logs(view: CellView, folder: Folder, run: RunFolder | None) -> TreeLogs:
    whole = view.files.read_whole_answers(folder)
    cached = whole if whole is not None and len(whole.data) <= _SMALL else None
    return TreeLogs(answers=read_answers(view, folder), files=run, cached=cached)


def _read_text(view: CellView, folder: Folder, path: str) -> str | None:
    return view.files.read_text(folder, path).value


def read_answers(view: CellView, folder: Folder) -> Callable[[], Iterable[bytes]] | None:
    """Return the lines of the complete accuracy log: from the tree if it is small, otherwise from the archive, if there
    is one."""
    if (whole := view.files.read_whole_answers(folder)) is not None:
        return whole.data.splitlines
    if view.original is None:
        return None
    digest = parse_accuracy(_read_text(view, folder, ACCURACY_TEXT) or "", ()).hash
    path = view.original(digest.lower()) if digest else None
    return None if path is None else lambda: _read_lines(path)


def _read_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        yield from stream


def _require(read: Read[T] | None, run: str) -> T:
    if read is None or read.value is None:
        raise MissingLogError(run)
    return read.value


def _find_line(read: Read[str], words: str) -> int:
    return next((n for n, line in enumerate((read.value or "").split("\n"), 1) if words in line), 0)
