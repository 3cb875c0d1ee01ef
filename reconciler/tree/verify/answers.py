"""The accuracy log and accuracy.txt against what LoadGen asked, and against what a scorer can find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.mlperf.accuracy import METRIC_LINES, find_impossible, parse_accuracy
from reconciler.mlperf.loadgen.answers import find_wrong_answers
from reconciler.mlperf.log_files import ACCURACY_LOG, split_answers
from reconciler.tree.check.demands import OURS, Complaints
from reconciler.tree.findings import Complaint, Place, Rule
from reconciler.tree.reading.cell import Folder
from reconciler.tree.reading.files import LOG_LIMIT
from reconciler.tree.reading.values import find_at
from reconciler.tree.reading.view import CellView, RunView
from reconciler.tree.verify.judging import read_answers

_TOTAL = "qsl_reported_total_count"


def verify_answers(view: CellView) -> Complaints:
    """An accuracy run answers each sample once, and no run answers one that its library does not have. Of a truncated
    log its two ends are read where no archive has the whole one."""
    for run, folder in _answering(view):
        if not run.log.complete:
            continue
        parts, whole = _read_parts(view, folder)
        for found in find_wrong_answers(parts, run.log, whole=whole):
            yield Complaint(
                Place(f"{folder.shown}/{ACCURACY_LOG}"),
                found.removeprefix("answers: "),
                "an answer to each sample that LoadGen asked for, once",
                cause="a log of answers that was edited, or of another run",
                other=find_at(run.log, _TOTAL),
            )


def _read_parts(view: CellView, folder: Folder) -> tuple[Iterable[bytes], bool]:
    """The log of answers in parts, and whether they are all of it."""
    if (data := view.files.whole_answers(folder)) is not None:
        return (data,), True
    archived = read_answers(view, folder)
    if archived is not None:
        return archived(), True
    return split_answers(view.files.content(folder, ACCURACY_LOG, LOG_LIMIT) or b"")[0], False


def _answering(view: CellView) -> Iterator[tuple[RunView, Folder]]:
    if view.accuracy is not None:
        yield view.accuracy, view.files.accuracy.folder
    for test, run in view.test_views.items():
        yield run, view.files.tests[test] / "accuracy"


def verify_possible(view: CellView) -> Complaints:
    """What no scorer can have found: a value beyond its metric, an accuracy that is not that of its own counts."""
    read = view.files.accuracy_text
    if read.value is None or view.rules is None:
        return
    known = [bar.metric for bar in view.rules.bars(view.cell.scenario) if bar.metric in METRIC_LINES]
    for item in find_impossible(read.value, parse_accuracy(read.value, known, read.file)):
        yield Complaint(
            Place(item.file, item.line),
            f"{item.stated}{item.why}",
            "a value that a scorer can find",
            cause="accuracy.txt was edited",
        )


ANSWER_RULES = (
    (Rule("accuracy.answers", "answers to other samples than were asked", ("LoadGen", OURS)), verify_answers),
    (Rule("accuracy.possible", "an accuracy that no scorer finds", (OURS,)), verify_possible),
)
