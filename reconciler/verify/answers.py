"""The accuracy log and accuracy.txt against what LoadGen asked, and against what a scorer can find."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from reconciler.check.demands import BENCHMARK_IS_KNOWN, OURS, Complaints
from reconciler.loadgen import keys
from reconciler.loadgen.answers import find_wrong_answers
from reconciler.loadgen.log_files import ACCURACY_LOG, VERIFY_ACCURACY, split_answers
from reconciler.resource.rules import Premise, rule
from reconciler.rules.accuracy import METRIC_LINES, find_impossible, parse_accuracy
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.cell import Folder
from reconciler.tree.reading.files import LOG_LIMIT
from reconciler.tree.reading.values import find_at
from reconciler.tree.reading.view import CellView, RunView
from reconciler.verify.counts import MISMATCHES, list_counts
from reconciler.verify.judging import read_answers
from reconciler.verify.premises import FILE_IS_WHOLE, RELEASE_IS_KNOWN

_TOTAL = keys.QSL_REPORTED_TOTAL_COUNT
# The first byte of an answer, or its end: of whatever type the answers are, two that begin otherwise are unequal.
_BEGINNING = re.compile(rb'"qsl_idx"\s*+:\s*+(\d{1,18})\s*+,\s*+"data"\s*+:\s*+"([0-9A-Fa-f]{2}|")')
_COMPARED = "TEST01"


@rule(
    "accuracy.answers",
    "answers to other samples than were asked",
    sources=("LoadGen", OURS),
    cause="impossible-accuracy",
    premises=(
        RELEASE_IS_KNOWN,
        FILE_IS_WHOLE,
        Premise("The answers are of one series, in one mode, where their numbers are compared with what was issued."),
    ),
)
def verify_answers(view: CellView) -> Complaints:
    """LoadGen asks each sample once in an accuracy run (MultiStream fills its last queries up), logs the number of
    samples in the library and numbers what it issues from 0 on, and writes the bytes of an answer in hexadecimal
    (167,757 published answers of v4.1 and v5.1 are so). If only a truncated log is available, the whole entries of its
    two ends are read. A run of both modes numbers several series through while its log counts the first alone, so its
    numbers are not compared.
    """
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
    if (whole := view.files.read_whole_answers(folder)) is not None:
        return (whole.data,), True
    archived = read_answers(view, folder)
    if archived is not None:
        return archived(), True
    return split_answers(view.files.read_content(folder, ACCURACY_LOG, LOG_LIMIT) or b"")[0], False


def _answering(view: CellView) -> Iterator[tuple[RunView, Folder]]:
    if view.accuracy is not None:
        yield view.accuracy, view.files.accuracy.folder
    for test, run in view.test_views.items():
        yield run, view.files.tests[test] / "accuracy"


@rule(
    "compliance.answers",
    "answers that differ from the accuracy run's",
    sources=("compliance scripts", OURS),
    cause="denied-verdict",
    premises=(Premise("The accuracy run answers each sample once."),),
)
def verify_differing(view: CellView) -> Complaints:
    """TEST01 with two truncated logs: the ends of both have an answer to one sample that begins with other bytes, more
    often than the verification counted. The script compares the first value in any type, so it would have counted each.
    162 of the 834 published tests of v4.1 and v5.1 have such samples, 735 in all, and every one of them begins alike;
    MultiStream, which answers some twice, is left out, and so are runs of both modes.
    """
    run, folder = view.accuracy, view.files.tests.get(_COMPARED)
    if run is None or folder is None or run.log.scenario == "MultiStream" or run.log.serves_both:
        return
    read = view.files.read_text(folder, VERIFY_ACCURACY)
    counted = next(((line, value) for line, name, value in list_counts(read) if name in MISMATCHES), None)
    folders = view.files.accuracy.folder, folder / "accuracy"
    if counted is None or all(view.files.read_whole_answers(each) is not None for each in folders):
        return
    accuracy, test = (_read_beginnings(view, each) for each in folders)
    differing = sorted(index for index in accuracy.keys() & test.keys() if accuracy[index] != test[index])
    if len(differing) > counted[1]:
        yield Complaint(
            Place(f"{folders[1].shown}/{ACCURACY_LOG}"),
            f"another answer to sample {differing[0]} than the accuracy run's",
            f"{counted[1]} answers that differ, as the verification counted",
            cause="answers that were edited, or of a run that the verification did not read",
            fix=f"run the verification of {_COMPARED} again on the whole logs, and publish what it wrote",
            other=Place(read.file, counted[0]),
        )


def _read_beginnings(view: CellView, folder: Folder) -> dict[int, bytes]:
    """By the sample."""
    parts = split_answers(view.files.read_content(folder, ACCURACY_LOG, LOG_LIMIT) or b"")[0]
    return {int(found[1]): found[2].lower() for part in parts for found in _BEGINNING.finditer(part)}


@rule(
    "accuracy.possible",
    "an accuracy that no scorer finds",
    sources=(OURS,),
    cause="impossible-accuracy",
    premises=(BENCHMARK_IS_KNOWN,),
)
def verify_possible(view: CellView) -> Complaints:
    """More than 100 % of a metric that is a share, or a value that is not that of the counts, of COCO's table, of the
    error rate, the parts or the second area in the same file: all 164 published scores of retinanet, 536 with counts of
    tokens, 39 of whisper, 84 of 3d-unet and 36 of dlrm in v4.1 and v5.1 agree.
    """
    read = view.files.accuracy_text
    if read.value is None or view.rules is None:
        return
    known = [bar.metric for bar in view.rules.list_bars(view.cell.scenario) if bar.metric in METRIC_LINES]
    for item in find_impossible(read.value, parse_accuracy(read.value, known, read.file)):
        yield Complaint(
            Place(item.file, item.line),
            f"{item.stated}{item.why}",
            "a value that a scorer can find",
            cause="accuracy.txt was edited, or the scorer was",
        )


ANSWER_RULES = (verify_answers, verify_differing, verify_possible)
