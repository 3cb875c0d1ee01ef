"""Counts in the verification of TEST01's answers, against itself and against the logs that it read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from msgspec.structs import replace

from reconciler.check.accuracy import count_key
from reconciler.check.demands import OURS, Complaints
from reconciler.loadgen import keys
from reconciler.loadgen.answers import count_padding
from reconciler.loadgen.log_files import ACCURACY_LOG, VERIFY_ACCURACY, split_answers
from reconciler.resource.rules import Premise, Severity, rule
from reconciler.rules.compliance.verdict import FAIL, PASS
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.cell import Folder
from reconciler.tree.reading.files import LOG_LIMIT, Read
from reconciler.tree.reading.values import find_at, number
from reconciler.tree.reading.view import CellView

# As the official script and as our own verdict write them.
_COUNT = re.compile(r"(?P<name>num_\w+(?= =)|[a-z ]+(?=:))(?: =|:) (?P<value>[0-9]+)", re.ASCII)
MISMATCHES = ("num_perf_log_data_mismatch", "differing")
ENTRIES = ("num_acc_log_entries", "answers in the accuracy run")
_LOGGED = ("num_perf_log_entries", "answers in the audit run")
_MATCHED = ("num_perf_log_qsl_idx_match", "found in the accuracy run")
_MISSING = ("num_missing_qsl_idxs", "not in the accuracy run")
_REPEATED, _UNLIKE = ("num_acc_log_duplicate_keys",), ("num_acc_log_data_mismatch",)
_COMPARED, _ASKS_FOR_ONE = "TEST01", 4  # LoadGen's release of the round since which its script asks for an answer
_WARNING = Severity.WARNING
_DIGITS = 20
_LIBRARY = keys.QSL_REPORTED_TOTAL_COUNT
_ANSWER = b'"qsl_idx"'
_EDITED = "a verdict that was edited, or the output of two verifications in one file"
_CONTRADICTED = "contradicted-verdict"

Counts = Mapping[str, tuple[int, int]]  # name → line, value


@rule(
    "compliance.counts",
    "counts that do not match",
    sources=("compliance scripts", OURS),
    cause="verdict-of-other-runs",
    premises=(
        Premise("The counts are those of one comparison, whose verdict is the only one in the file."),
        Premise("The log that is counted is one of LoadGen's, which are never empty."),
    ),
)
def verify_counts(view: CellView) -> Complaints:
    """The script's own counts: mismatches with a pass, or no sample that both runs answered; another number of answers
    than the accuracy run gave, queries filled up to MultiStream's eight included, or than the test's log has; sums that
    do not add up. All 731 published passes of TEST01 in v4.1 and v5.1 are of counts that agree with each other and with
    their logs. Where a file has a failure as well, the pass may be that of the fallback, which the rules allow for
    answers that differ; where a number is stated twice, the file has two comparisons.
    """
    for test, folder in view.files.tests.items():
        read = view.files.read_text(folder, VERIFY_ACCURACY)
        found = {name: (line, value) for line, name, value in list_counts(read)}
        if found:
            lines = [text.strip() for text in (read.value or "").splitlines()]
            failed = any(line.startswith(FAIL) for line in lines)
            stated = Counter(name for _, name, _ in list_counts(read))
            twice = "the file has the counts of two comparisons" if max(stated.values()) > 1 else ""
            if PASS in lines:
                doubt = "the file has a failure as well, so that the pass may be that of the fallback" if failed else ""
                yield from _add_doubt(_deny_pass(view, read, found), doubt)
            yield from _add_doubt(_deny_entries(view, read, found), twice)
            if test == _COMPARED:
                yield from _add_doubt(_deny_sums(read, found), twice)
                yield from _add_doubt(_deny_missing(view, read, found), twice)
                yield from _add_doubt(_deny_logged(view, read, found, folder / "accuracy"), twice)


def _add_doubt(complaints: Complaints, doubt: str) -> Complaints:
    return (replace(item, doubt=doubt) for item in complaints) if doubt else complaints


def list_counts(read: Read[str]) -> Iterator[tuple[int, str, int]]:
    """(line, name, value) of what a verification counted."""
    for line, text in enumerate((read.value or "").split("\n"), start=1):
        if (found := _COUNT.match(text.strip())) and len(found["value"]) < _DIGITS:
            yield line, found["name"], int(found["value"])


def _deny_pass(view: CellView, read: Read[str], found: Counts) -> Complaints:
    """The script passes where no answer differs, and since v4.0 where one at least is to a sample of the accuracy run:
    before, it found nothing wrong with none."""
    line, mismatches = _first(found, MISMATCHES)
    if mismatches:
        place = Place(read.file, line)
        yield Complaint(
            place, f"{PASS} with {mismatches} mismatches", "no mismatch", cause=_EDITED, mechanism=_CONTRADICTED
        )
    line, matched = _first(found, _MATCHED)
    if line and not matched:
        place = Place(read.file, line)
        found_none = f"{PASS} with no answer to a sample of the accuracy run"
        test = view.test_views.get(_COMPARED)
        if test is not None and test.log.version and test.log.release < _ASKS_FOR_ONE:
            cause, severity = "a log without answers, with which the script of the time found nothing wrong", _WARNING
            yield Complaint(place, found_none, "at least one", cause=cause, mechanism="empty-test", severity=severity)
        else:
            yield Complaint(place, found_none, "at least one", cause=_EDITED, mechanism=_CONTRADICTED)


def _deny_sums(read: Read[str], found: Counts) -> Complaints:
    """Each answer of the test is to a sample of the accuracy run or to none, and only repeated ones can be unlike."""
    (line, logged), (other, matched), (_, missing) = (_first(found, names) for names in (_LOGGED, _MATCHED, _MISSING))
    if line and other and logged != matched + missing:
        yield _sum_complaint(
            read, line, other, f"{logged} answers of the test", f"{matched} in the accuracy run, {missing} not"
        )
    (line, unlike), (other, repeated) = _first(found, _UNLIKE), _first(found, _REPEATED)
    if line and other and unlike > repeated:
        said = f"{unlike} answers that differ from an earlier one to the same sample"
        yield _sum_complaint(read, line, other, said, f"at most {repeated}, as often as one was repeated")


def _sum_complaint(read: Read[str], line: int, other: int, found: str, wanted: str) -> Complaint:
    return Complaint(
        Place(read.file, line),
        found,
        wanted,
        cause="a verification that was edited, or two in one file",
        other=Place(read.file, other),
    )


def _deny_entries(view: CellView, read: Read[str], found: Counts) -> Complaints:
    line, entries = _first(found, ENTRIES)
    run = view.accuracy
    total = number(run.log, count_key(run)) if run else None
    if run is not None and line and total is not None and not total <= entries <= total + count_padding(run.log):
        yield Complaint(
            Place(read.file, line),
            f"{entries} entries of the accuracy log",
            f"{total}, the samples of the accuracy run",
            cause="the verdict was made with another, or an already truncated, accuracy log",
            other=find_at(run.log, count_key(run)),
        )


def _deny_missing(view: CellView, read: Read[str], found: Counts) -> Complaints:
    """Deny missing answers: where the accuracy run answered all samples of the library, none of the test's is missing
    from it."""
    line, missing = _first(found, _MISSING)
    (other, entries), (_, repeated) = _first(found, ENTRIES), _first(found, _REPEATED)
    runs = (view.accuracy, view.test_views.get(_COMPARED))
    libraries = {number(run.log, _LIBRARY) for run in runs if run is not None}
    if missing and other and None not in runs and libraries == {Decimal(entries - repeated)}:
        yield Complaint(
            Place(read.file, line),
            f"{missing} answers of the test to samples that the accuracy run does not have",
            f"none: it answered all {entries - repeated} of the library",
            cause="the verdict was made with another accuracy log",
            other=Place(read.file, other),
        )


def _deny_logged(view: CellView, read: Read[str], found: Counts, folder: Folder) -> Complaints:
    """A whole log has all answers; a truncated one no more than were logged."""
    line, logged = _first(found, _LOGGED)
    data = view.files.read_content(folder, ACCURACY_LOG, LOG_LIMIT) if line else None
    if data is None:
        return
    lines, whole = split_answers(data)
    there = data.count(_ANSWER) if whole else sum(_ANSWER in text for text in lines)
    if (there != logged) if whole else (there > logged):
        yield Complaint(
            Place(read.file, line),
            f"{logged} answers of the test",
            f"{there}, which its log has",
            cause="the verification of another run",
            other=Place(f"{folder.shown}/{ACCURACY_LOG}"),
            doubt="" if data.strip() else "the log is empty, and LoadGen leaves none so: it may have been lost since",
        )


def _first(found: Counts, names: Sequence[str]) -> tuple[int, int]:
    return next((found[name] for name in names if name in found), (0, 0))
