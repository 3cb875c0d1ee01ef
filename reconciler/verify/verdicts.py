"""Compare the verdicts of compliance tests with their logs, and accuracy.txt with its log."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from msgspec.structs import replace

from reconciler.check import accuracy
from reconciler.check.accuracy import find_count_key, list_known_metrics
from reconciler.check.demands import BENCHMARK_IS_KNOWN, OURS, Complaints
from reconciler.loadgen import keys
from reconciler.loadgen.answers import count_padding, find_wrong_answers
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, VERIFY_ACCURACY, VERIFY_PERFORMANCE, split_answers
from reconciler.loadgen.summary import is_same_number
from reconciler.resource.quantities import parse_decimal
from reconciler.resource.rules import Premise, Severity, rule
from reconciler.rules.accuracy import find_impossible, find_lines, hash_results, parse_accuracy
from reconciler.rules.compliance.definition import FAIL, PASS
from reconciler.rules.compliance.scores import find_score_key
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.cell import Folder
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import find_at, read_number
from reconciler.tree.reading.view import CellView, RunView
from reconciler.verify.judging import find_disagreements, find_empty_tests, read_answers
from reconciler.verify.premises import FILE_IS_WHOLE, RELEASE_IS_KNOWN

# Counts in the verification of TEST01's answers, compared with each other and with the logs that it read.

# Format of the official script and of this project's verdicts.
_COUNT = re.compile(r"(?P<name>num_\w+(?= =)|[a-z ]+(?=:))(?: =|:) (?P<value>[0-9]+)", re.ASCII)
MISMATCHES = ("num_perf_log_data_mismatch", "differing")
ENTRIES = ("num_acc_log_entries", "answers in the accuracy run")
_LOGGED = ("num_perf_log_entries", "answers in the audit run")
_MATCHED = ("num_perf_log_qsl_idx_match", "found in the accuracy run")
_MISSING = ("num_missing_qsl_idxs", "not in the accuracy run")
_REPEATED, _UNLIKE = ("num_acc_log_duplicate_keys",), ("num_acc_log_data_mismatch",)
_COMPARED, _ASKS_FOR_ONE = "TEST01", 4  # LoadGen release of the round from which the script requires an answer
_WARNING = Severity.WARNING
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
        Premise("The file has only one verdict, so its counts belong to one comparison."),
        Premise("The counted log is not empty, since LoadGen never writes an empty one."),
    ),
)
def verify_counts(view: CellView) -> Complaints:
    """The script's counts contradict the verdict, each other, or the logs: mismatches with a pass, or no sample
    answered by both runs; a failure although all of these match; another number of answers than in the accuracy run
    (including those that fill MultiStream's queries of eight) or in the test's log; sums that do not add up. The counts
    of all 731 published passes of TEST01 in v4.1 and v5.1 agree with each other and with their logs. If the file also
    has a failure, the pass may be the fallback's, which the rules allow if answers differ. If a number is stated twice,
    the file has two comparisons."""
    for test, folder in view.files.tests.items():
        read = view.files.read_text(folder, VERIFY_ACCURACY)
        found = {name: (line, value) for line, name, value in list_counts(read)}
        if found:
            lines = [text.strip() for text in (read.value or "").splitlines()]
            failed = any(line.startswith(FAIL) for line in lines)
            stated = Counter(name for _, name, _ in list_counts(read))
            twice = "the file has the counts of two comparisons" if max(stated.values()) > 1 else ""
            if PASS in lines:
                doubt = "the file also has a failure, so the pass may be the fallback's" if failed else ""
                yield from _add_doubt(_deny_pass(view, read, found), doubt)
            elif failed and test == _COMPARED:
                yield from _add_doubt(_deny_fail(read, found, lines), twice)
            yield from _add_doubt(_deny_entries(view, read, found), twice)
            if test == _COMPARED:
                yield from _add_doubt(_deny_sums(read, found), twice)
                yield from _add_doubt(_deny_missing(view, read, found), twice)
                yield from _add_doubt(_deny_logged(view, read, found, folder / "accuracy"), twice)


def _add_doubt(complaints: Complaints, doubt: str) -> Complaints:
    return (replace(item, doubt=doubt) for item in complaints) if doubt else complaints


def list_counts(read: Read[str]) -> Iterator[tuple[int, str, int]]:
    """Yield the (line, name, value) of each count in a verification."""
    for line, text in enumerate((read.value or "").split("\n"), start=1):
        if (found := _COUNT.match(text.strip())) and len(found["value"]) < _DIGITS:
            yield line, found["name"], int(found["value"])


def _deny_pass(view: CellView, read: Read[str], found: Counts) -> Complaints:
    """Check that a pass has no differing answer and, since v4.0, at least one to a sample of the accuracy run. Earlier
    scripts also passed an empty log."""
    line, mismatches = _find_any(found, MISMATCHES)
    if mismatches:
        place = Place(read.file, line)
        yield Complaint(
            place, f"{PASS} with {mismatches} mismatches", "no mismatch", cause=_EDITED, mechanism=_CONTRADICTED
        )
    line, matched = _find_any(found, _MATCHED)
    if line and not matched:
        place = Place(read.file, line)
        found_none = f"{PASS} with no answer to a sample of the accuracy run"
        test = view.test_views.get(_COMPARED)
        if test is not None and test.log.version and test.log.release < _ASKS_FOR_ONE:
            cause, severity = "an empty log of answers, which the script of that release passed", _WARNING
            yield Complaint(place, found_none, "at least one", cause=cause, mechanism="empty-test", severity=severity)
        else:
            yield Complaint(place, found_none, "at least one", cause=_EDITED, mechanism=_CONTRADICTED)


def _deny_fail(read: Read[str], found: Counts, lines: Sequence[str]) -> Complaints:
    """Check that a failure has a differing answer, or none to a sample of the accuracy run. In low memory mode, the
    script does not print how many it found."""
    (line, mismatches), (_, matched) = _find_any(found, MISMATCHES), _find_any(found, _MATCHED)
    if line and not mismatches and matched:
        at = next(number for number, text in enumerate(lines, start=1) if text.startswith(FAIL))
        yield Complaint(
            Place(read.file, at),
            f"{FAIL} with 0 mismatches in {matched} answers",
            "a mismatch, or no answer to a sample of the accuracy run",
            cause=_EDITED,
            fix=f"run the verification of {_COMPARED} again and publish its complete output",
            other=Place(read.file, line),
        )


def _deny_sums(read: Read[str], found: Counts) -> Complaints:
    """Check that the answers found and not found in the accuracy run add up to the test's answers, and that only
    repeated ones differ."""
    (line, logged), (other, matched), (_, missing) = (
        _find_any(found, names) for names in (_LOGGED, _MATCHED, _MISSING)
    )
    if line and other and logged != matched + missing:
        yield _make_sum_complaint(
            read, line, other, f"{logged} answers of the test", f"{matched} in the accuracy run, {missing} not"
        )
    (line, unlike), (other, repeated) = _find_any(found, _UNLIKE), _find_any(found, _REPEATED)
    if line and other and unlike > repeated:
        said = f"{unlike} answers that differ from an earlier answer to the same sample"
        yield _make_sum_complaint(read, line, other, said, f"at most {repeated}, the number of repeated answers")


def _make_sum_complaint(read: Read[str], line: int, other: int, found: str, wanted: str) -> Complaint:
    return Complaint(
        Place(read.file, line),
        found,
        wanted,
        cause="an edited verification, or two in one file",
        other=Place(read.file, other),
    )


def _deny_entries(view: CellView, read: Read[str], found: Counts) -> Complaints:
    line, entries = _find_any(found, ENTRIES)
    run = view.accuracy
    total = read_number(run.log, find_count_key(run)) if run else None
    if run is not None and line and total is not None and not total <= entries <= total + count_padding(run.log):
        yield Complaint(
            Place(read.file, line),
            f"{entries} entries of the accuracy log",
            f"{total}, the samples of the accuracy run",
            cause="the verdict was made with another, or an already truncated, accuracy log",
            other=find_at(run.log, find_count_key(run)),
        )


def _deny_missing(view: CellView, read: Read[str], found: Counts) -> Complaints:
    """Check missing answers: if the accuracy run answered all samples of the library, none of the test's can be
    missing."""
    line, missing = _find_any(found, _MISSING)
    (other, entries), (_, repeated) = _find_any(found, ENTRIES), _find_any(found, _REPEATED)
    runs = (view.accuracy, view.test_views.get(_COMPARED))
    libraries = {read_number(run.log, _LIBRARY) for run in runs if run is not None}
    if missing and other and None not in runs and libraries == {Decimal(entries - repeated)}:
        yield Complaint(
            Place(read.file, line),
            f"{missing} answers of the test to samples that the accuracy run does not have",
            f"none: it answered all {entries - repeated} samples of the library",
            cause="the verdict was made with another accuracy log",
            other=Place(read.file, other),
        )


def _deny_logged(view: CellView, read: Read[str], found: Counts, folder: Folder) -> Complaints:
    """Check the number of logged answers: a complete log has all, a truncated one has no more."""
    line, logged = _find_any(found, _LOGGED)
    data = view.files.read_content(folder, ACCURACY_LOG) if line else None
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
            doubt=""
            if data.strip()
            else "the log is empty; LoadGen never writes an empty one, so its content may have been lost",
        )


def _find_any(found: Counts, names: Sequence[str]) -> tuple[int, int]:
    return next((found[name] for name in names if name in found), (0, 0))


# Format of the official scripts and of this project's verdicts.
_SCORE = re.compile(
    r"(?P<which>(?:reference|test) score(?= =)|(?:performance|audit) run(?=:))(?: =|:) "
    r"(?P<value>[0-9.]+(?:e[+-]?[0-9]+)?)",
    re.IGNORECASE | re.ASCII,
)
_PUBLISHED = ("reference score", "performance run")
_SCORES = (("reference score", "test score"), ("performance run", "audit run"))
_FIGURES = {
    "TEST01": (VERIFY_PERFORMANCE, VERIFY_ACCURACY),
    "TEST04": (VERIFY_PERFORMANCE,),
    "TEST05": (VERIFY_PERFORMANCE,),
}
_HASH = re.compile(r"hash=\s*([0-9A-Fa-f]{64})\b", re.ASCII)
_TOLERANCE = Decimal("0.001")
_DIGITS = 20
# Patterns by a word in the text that they match.
_SCORED = {
    "queries=": re.compile(r"\bqueries=(\d+)", re.ASCII),
    "'gen_num': ": re.compile(r"'gen_num': (\d+)", re.ASCII),
    "'num-samples': ": re.compile(r"'num-samples': (\d+)", re.ASCII),
    "total=": re.compile(r"\btotal=(\d+)", re.ASCII),
}


@rule(
    "compliance.scores", "a verdict about other runs", sources=(OURS,), cause="verdict-of-other-runs", severity=_WARNING
)
def verify_scores(view: CellView) -> Complaints:
    """The score in the verify file differs from the published run's by more than 0.1 %: a run was repeated after its
    verification.
    """
    for test, run in view.test_views.items():
        read = view.files.read_text(view.files.tests[test], VERIFY_PERFORMANCE)
        for line, which, said in _read_scores(read):
            of = view.performance if which in _PUBLISHED else run
            logged = read_number(of.log, find_score_key(of.log)) if of is not None else None
            if of is None or logged is None or _agrees(said, logged, of.log.scenario):
                continue
            key = find_score_key(of.log)
            yield Complaint(
                Place(read.file, line),
                f"{which} {said}",
                f"{logged:f}, the {'published run' if which in _PUBLISHED else test + ' run'}'s own",
                cause="the verdict is about another run than the published one",
                fix=f"run the verification of {test} again on the published logs",
                other=find_at(of.log, key),
            )


@rule(
    "compliance.figures",
    "a verdict without its figures",
    sources=("compliance scripts", OURS),
    cause="verdict-without-figures",
    severity=_WARNING,
)
def verify_figures(view: CellView) -> Complaints:
    """The scripts of TEST01, TEST04 and TEST05 print both scores before the verdict, and TEST01's also the number of
    entries. All 2,972 published passes of these tests in v4.1 and v5.1 state them."""
    for test, names in _FIGURES.items():
        if test not in view.files.tests:
            continue
        for name in names:
            read = view.files.read_text(view.files.tests[test], name)
            lines = [text.strip() for text in (read.value or "").splitlines()]
            if PASS not in lines:
                continue
            if name == VERIFY_PERFORMANCE:
                stated = {which for _, which, _ in _read_scores(read)}
                missing = "" if any(stated.issuperset(pair) for pair in _SCORES) else "the scores of both runs"
            else:
                stated = {name for _, name, _ in list_counts(read)}
                missing = "" if not stated.isdisjoint(ENTRIES) else "the number of entries that were compared"
            if missing:
                yield complain_of_pass(test, Place(read.file, lines.index(PASS) + 1), missing)


def complain_of_pass(test: str, place: Place, missing: str) -> Complaint:
    """Complain of a pass without the figures that its verification prints."""
    return Complaint(
        place,
        f"{PASS} without {missing}",
        "the verification's output before its verdict",
        cause="a handwritten or truncated verdict",
        fix=f"run the verification of {test} again and publish its complete output",
    )


@rule(
    "accuracy.samples",
    "a score over another number of samples",
    sources=(OURS,),
    cause="accuracy-of-another-run",
    premises=(BENCHMARK_IS_KNOWN,),
)
def verify_scored_samples(view: CellView) -> Complaints:
    """The scorer states how many samples it scored (for DLRM the queries; the same line has the number of pairs as its
    total), and LoadGen how many it issued. If the round does not have the benchmark, the scorer may count anything
    else."""
    run, read = view.accuracy, view.files.accuracy_text
    total = read_number(run.log, find_count_key(run)) if run else None
    if run is None or total is None or read.value is None:
        return
    for line, text in find_lines(read.value, *_SCORED):
        scored = _count_scored(text)
        if scored is not None and scored != total:
            yield Complaint(
                Place(read.file, line),
                f"a score over {scored} samples",
                f"{total}, the samples of the accuracy run",
                cause="accuracy.txt is from another run, or from part of this one",
                other=find_at(run.log, find_count_key(run)),
            )


def _count_scored(text: str) -> Decimal | None:
    """Return the number of samples that a line of accuracy.txt covers."""
    found = next((m for shape in _SCORED.values() if (m := shape.search(text))), None)
    return Decimal(found[1]) if found and len(found[1]) < _DIGITS else None


@rule(
    "accuracy.hash",
    "a hash of another log",
    sources=("submission rules: truncation", OURS),
    cause="hash",
    premises=(
        FILE_IS_WHOLE,
        Premise("The log is complete, its original is available, or the hash is that of another file in the tree."),
    ),
)
def verify_hashes(view: CellView) -> Complaints:
    """The SHA-256 in accuracy.txt is not that of the log. A truncated log is reported only if its original is available
    or the hash is that of another file in the tree. Line ends changed by git or Windows are not reported. Two cells
    with the same hash must have logs with the same ends, as for all 432 published hashes that occur in several places.
    If the ends differ, it is a warning, because it is unknown which cell is right."""
    yield from accuracy.check_log_hash(view)
    yield from accuracy.check_test_hashes(view)


@rule(
    "accuracy.hashes",
    "two hashes of one accuracy log",
    sources=("submission rules: truncation", OURS),
    cause="hash",
    severity=_WARNING,
)
def verify_one_hash(view: CellView) -> Complaints:
    """The file states two different SHA-256 of one log. One is of another log, or of this one after truncation. A
    warning, because this proves nothing."""
    tests = (view.files.read_text(folder / "accuracy", ACCURACY_TEXT) for folder in view.files.tests.values())
    for read in (view.files.accuracy_text, *tests):
        yield from _deny_second_hash(read)


def _deny_second_hash(read: Read[str]) -> Complaints:
    if (read.value or "").count("hash=") < 2:
        return
    stated = [
        (line, match[1].lower()) for line, text in find_lines(read.value or "", "hash=") if (match := _HASH.match(text))
    ]
    results = hash_results(read.value or "") if len(stated) > 1 else frozenset[str]()
    stated = [item for item in stated if item[1] not in results]
    first = stated[0] if stated else (0, "")
    other = next((item for item in stated if item[1] != first[1]), None)
    if other is not None:
        yield Complaint(
            Place(read.file, other[0]),
            f"hash={other[1][:12]}…",
            f"{first[1][:12]}…, stated in the same file",
            cause="the hashes of two accuracy logs, or of one before and after truncation",
            fix="keep the hash of the published accuracy log",
            other=Place(read.file, first[0]),
        )


def _read_scores(read: Read[str]) -> Iterator[tuple[int, str, Decimal]]:
    for line, text in enumerate((read.value or "").split("\n"), start=1):
        if (found := _SCORE.match(text.strip())) and (value := parse_decimal(found["value"])) is not None:
            yield line, found["which"].lower(), value


def _agrees(said: Decimal, logged: Decimal, scenario: str) -> bool:
    """Compare with the log's number; for the streams, also with queries per second, which TEST04 states."""
    if is_same_number(str(said), logged) or abs(said - logged) <= abs(logged) * _TOLERANCE:
        return True
    rate = Decimal(10**9) / logged if scenario in keys.STREAMS and logged else None
    return rate is not None and abs(said - rate) <= rate * _TOLERANCE


VERDICT_RULES = (
    verify_scores,
    find_disagreements,
    find_empty_tests,
    verify_figures,
    verify_counts,
    verify_scored_samples,
    verify_hashes,
    verify_one_hash,
)


# The accuracy log and accuracy.txt, compared with LoadGen's requests and with possible scorer output.

# The first byte of an answer, or its end: if these differ, the answers differ in any type.
_BEGINNING = re.compile(rb'"qsl_idx"\s*+:\s*+(\d{1,18})\s*+,\s*+"data"\s*+:\s*+"([0-9A-Fa-f]{2}|")')


@rule(
    "accuracy.answers",
    "answers to other samples than requested",
    sources=("LoadGen", OURS),
    cause="impossible-accuracy",
    premises=(
        RELEASE_IS_KNOWN,
        FILE_IS_WHOLE,
        Premise("The run has one mode, if the numbers of answers are compared with the requests."),
    ),
)
def verify_answers(view: CellView) -> Complaints:
    """In an accuracy run, LoadGen requests each sample once (MultiStream fills up its last queries), logs the number of
    samples in the library, numbers its requests from 0, and writes the bytes of an answer in hexadecimal, as in 167,757
    published answers of v4.1 and v5.1. If only a truncated log is available, the complete entries at its two ends are
    read. The numbers of runs of both modes are not compared, because they span several series while the log counts only
    the first.
    """
    for run, folder in _list_answering_runs(view):
        if not run.log.complete:
            continue
        parts, whole = _read_parts(view, folder)
        for found in find_wrong_answers(parts, run.log, whole=whole):
            yield Complaint(
                Place(f"{folder.shown}/{ACCURACY_LOG}"),
                found.removeprefix("answers: "),
                "one answer to each requested sample",
                cause="an edited log of answers, or one of another run",
                other=find_at(run.log, _LIBRARY),
            )


def _read_parts(view: CellView, folder: Folder) -> tuple[Iterable[bytes], bool]:
    """Return the parts of the log of answers, and whether it is complete."""
    if (whole := view.files.read_whole_answers(folder)) is not None:
        return (whole.data,), True
    archived = read_answers(view, folder)
    if archived is not None:
        return archived(), True
    return split_answers(view.files.read_content(folder, ACCURACY_LOG) or b"")[0], False


def _list_answering_runs(view: CellView) -> Iterator[tuple[RunView, Folder]]:
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
    """For TEST01 with two truncated logs: both contain answers to the same samples that begin with different bytes,
    more often than the verification counted. The script compares the first value in any type, so it would have counted
    each. In 162 of the 834 published tests of v4.1 and v5.1, the logs share samples, 735 in all, and every pair begins
    with the same bytes. MultiStream, which answers some samples twice, is skipped, and so are runs of both modes."""
    run, folder = view.accuracy, view.files.tests.get(_COMPARED)
    if run is None or folder is None or run.log.scenario == "MultiStream" or run.log.serves_both:
        return
    read = view.files.read_text(folder, VERIFY_ACCURACY)
    counted = next(((line, value) for line, name, value in list_counts(read) if name in MISMATCHES), None)
    folders = view.files.accuracy.folder, folder / "accuracy"
    if counted is None or all(view.files.read_whole_answers(each) is not None for each in folders):
        return
    accuracy, test = (_read_beginnings(view, each) for each in folders)
    differing = [index for index, data in test.items() if index in accuracy and accuracy[index] != data]
    if len(differing) > counted[1]:
        first = differing[0]
        own, other = (
            _find_answer(view, each, first, found[first]) for each, found in zip(folders, (accuracy, test), strict=True)
        )
        yield Complaint(
            other,
            f"the answer to sample {first} differs between the two logs",
            f"{counted[1]} differing answers, as counted by the verification ({read.file}:{counted[0]})",
            cause="edited answers in one of the two logs, or answers of another run than the verified one",
            fix=f"run the verification of {_COMPARED} again on the complete logs and publish its output",
            other=own,
        )


def _read_beginnings(view: CellView, folder: Folder) -> dict[int, bytes]:
    """Read the first bytes of answers, by sample."""
    parts = split_answers(view.files.read_content(folder, ACCURACY_LOG) or b"")[0]
    return {int(found[1]): found[2].lower() for part in parts for found in _BEGINNING.finditer(part)}


def _find_answer(view: CellView, folder: Folder, sample: int, beginning: bytes) -> Place:
    """Find the line of the answer to a sample that begins with these bytes."""
    log = view.files.read_content(folder, ACCURACY_LOG) or b""
    found = ((int(each[1]), each[2].lower(), each.start()) for each in _BEGINNING.finditer(log))
    at = next((start for index, data, start in found if (index, data) == (sample, beginning)), None)
    return Place(f"{folder.shown}/{ACCURACY_LOG}", log.count(b"\n", 0, at) + 1 if at is not None else 0)


@rule(
    "accuracy.possible",
    "an impossible accuracy",
    sources=(OURS,),
    cause="impossible-accuracy",
    premises=(BENCHMARK_IS_KNOWN,),
)
def verify_possible(view: CellView) -> Complaints:
    """An accuracy above 100 %, or a value that disagrees with the counts, COCO's table, the error rate, the parts or
    the second area in the same file. All 164 published scores of retinanet, 536 with counts of tokens, 39 of whisper,
    84 of 3d-unet and 36 of dlrm in v4.1 and v5.1 agree."""
    read = view.files.accuracy_text
    if read.value is None or view.rules is None:
        return
    for item in find_impossible(read.value, parse_accuracy(read.value, list_known_metrics(view), read.file)):
        yield Complaint(
            Place(item.file, item.line),
            f"{item.stated}{item.why}",
            "a value that a scorer can compute",
            cause="an edited accuracy.txt, or a modified scorer",
        )


ANSWER_RULES = (verify_answers, verify_differing, verify_possible)
