"""Verdicts of compliance tests against the logs they judge, and accuracy.txt against its log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from reconciler.check import accuracy
from reconciler.check.accuracy import count_key
from reconciler.check.demands import BENCHMARK_IS_KNOWN, OURS, Complaints
from reconciler.loadgen.log_files import ACCURACY_TEXT, VERIFY_ACCURACY, VERIFY_PERFORMANCE
from reconciler.loadgen.summary import is_same_number
from reconciler.resource.quantities import parse_decimal
from reconciler.resource.rules import Premise, Severity, rule
from reconciler.rules.accuracy import hash_results
from reconciler.rules.accuracy_lines import find_lines
from reconciler.rules.compliance.scores import find_score_key
from reconciler.rules.compliance.verdict import PASS
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import find_at, number
from reconciler.tree.reading.view import CellView, RunView
from reconciler.verify.counts import ENTRIES, list_counts, verify_counts
from reconciler.verify.judging import find_disagreements, find_empty_tests
from reconciler.verify.premises import FILE_IS_WHOLE

# As the official scripts and as our own verdicts write it.
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
_STREAMS = ("SingleStream", "MultiStream")
_TOLERANCE = Decimal("0.001")
_DIGITS = 20
WARNING = Severity.WARNING
# By a word in what they match.
_SCORED = {
    "queries=": re.compile(r"\bqueries=(\d+)", re.ASCII),
    "'gen_num': ": re.compile(r"'gen_num': (\d+)", re.ASCII),
    "'num-samples': ": re.compile(r"'num-samples': (\d+)", re.ASCII),
    "total=": re.compile(r"\btotal=(\d+)", re.ASCII),
}


@rule(
    "compliance.scores",
    "a verdict over other runs",
    sources=(OURS,),
    cause="verdict-of-other-runs",
    severity=WARNING,
)
def verify_scores(view: CellView) -> Complaints:
    """The score in the verify file is none of the published run's, by more than 0.1 %: a run was repeated after its
    verification.
    """
    for test, run in view.test_views.items():
        read = view.files.read_text(view.files.tests[test], VERIFY_PERFORMANCE)
        for line, which, said in _said(read):
            of = view.performance if which in _PUBLISHED else run
            logged = _score(of) if of is not None else None
            if of is None or logged is None or _agrees(said, logged, of.log.scenario):
                continue
            key = find_score_key(of.log)
            yield Complaint(
                Place(read.file, line),
                f"{which} {said}",
                f"{logged:f}, the {'published run' if which in _PUBLISHED else test + ' run'}'s own",
                cause="the verdict is of another run than the one published",
                fix=f"run the verification of {test} again on the published logs",
                other=find_at(of.log, key),
            )


@rule(
    "compliance.figures",
    "a verdict without its figures",
    sources=("compliance scripts", OURS),
    cause="verdict-without-figures",
    severity=WARNING,
)
def verify_figures(view: CellView) -> Complaints:
    """The scripts of TEST01, TEST04 and TEST05 print both scores, that of TEST01 the number of entries, before the
    verdict: all 2,972 published verdicts of them in v4.1 and v5.1 that pass state these.
    """
    for test, names in _FIGURES.items():
        if test not in view.files.tests:
            continue
        for name in names:
            read = view.files.read_text(view.files.tests[test], name)
            lines = [text.strip() for text in (read.value or "").splitlines()]
            if PASS not in lines:
                continue
            if name == VERIFY_PERFORMANCE:
                stated = {which for _, which, _ in _said(read)}
                missing = "" if any(stated.issuperset(pair) for pair in _SCORES) else "the scores of both runs"
            else:
                stated = {name for _, name, _ in list_counts(read)}
                missing = "" if not stated.isdisjoint(ENTRIES) else "the number of entries that were compared"
            if missing:
                yield Complaint(
                    Place(read.file, lines.index(PASS) + 1),
                    f"{PASS} without {missing}",
                    "what the verification of the test prints before its verdict",
                    cause="a verdict that was written by hand, or cut",
                    fix=f"run the verification of {test} again and publish all of its output",
                )


@rule(
    "accuracy.samples",
    "a score over other samples",
    sources=(OURS,),
    cause="accuracy-of-another-run",
    premises=(BENCHMARK_IS_KNOWN,),
)
def verify_scored_samples(view: CellView) -> Complaints:
    """The scorer states how many samples it scored (of DLRM the queries, whose pairs the same line calls its total),
    and LoadGen how many it issued. The scorer of a benchmark that the round does not have may count anything else.
    """
    run, read = view.accuracy, view.files.accuracy_text
    total = number(run.log, count_key(run)) if run else None
    if run is None or total is None or read.value is None:
        return
    for line, text in find_lines(read.value, *_SCORED):
        scored = _scored(text)
        if scored is not None and scored != total:
            yield Complaint(
                Place(read.file, line),
                f"a score over {scored} samples",
                f"{total}, the samples of the accuracy run",
                cause="accuracy.txt is of another run, or of a part of this one",
                other=find_at(run.log, count_key(run)),
            )


def _scored(text: str) -> Decimal | None:
    """How many samples a line of accuracy.txt says it covers."""
    found = next((m for shape in _SCORED.values() if (m := shape.search(text))), None)
    return Decimal(found[1]) if found and len(found[1]) < _DIGITS else None


@rule(
    "accuracy.hash",
    "a hash that is not the log's",
    sources=("submission rules: truncation", OURS),
    cause="hash",
    premises=(
        FILE_IS_WHOLE,
        Premise("The log is whole, or its original is at hand, or the hash is that of another file in the tree."),
    ),
)
def verify_hashes(view: CellView) -> Complaints:
    """Equal files, or a SHA-256 that is the one of a named file. Hashes of truncated logs are never called wrong
    without the original, nor are line ends that git or Windows changed; but two cells that state one hash have logs
    with the same ends, as all 432 published hashes that are in several places do: where they have not, it is not known
    which of the two is right, so that it is a warning.
    """
    yield from accuracy.hash_of_log(view)
    yield from accuracy.check_test_hashes(view)


@rule(
    "accuracy.hashes",
    "two hashes of one accuracy log",
    sources=("submission rules: truncation", OURS),
    cause="hash",
    severity=WARNING,
)
def verify_one_hash(view: CellView) -> Complaints:
    """One file states two SHA-256 of one log that differ. One of them is of another log, or of this one when it had
    been cut, whichever; that is no proof of anything, so that it is a warning.
    """
    for read in (view.files.accuracy_text, *_list_accuracy_texts(view)):
        yield from _deny_second_hash(read)


def _list_accuracy_texts(view: CellView) -> Iterator[Read[str]]:
    return (view.files.read_text(folder / "accuracy", ACCURACY_TEXT) for folder in view.files.tests.values())


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
            f"{first[1][:12]}…, as the same file states",
            cause="the hashes of two accuracy logs, or of one before and after it was cut",
            fix="keep the hash of the accuracy log that is published",
            other=Place(read.file, first[0]),
        )


def _said(read: Read[str]) -> Iterator[tuple[int, str, Decimal]]:
    for line, text in enumerate((read.value or "").split("\n"), start=1):
        if (found := _SCORE.match(text.strip())) and (value := parse_decimal(found["value"])) is not None:
            yield line, found["which"].lower(), value


def _score(run: RunView) -> Decimal | None:
    return number(run.log, find_score_key(run.log))


def _agrees(said: Decimal, logged: Decimal, scenario: str) -> bool:
    """As the log's number; streams also as queries per second, which is how TEST04 states them."""
    if is_same_number(str(said), logged) or abs(said - logged) <= abs(logged) * _TOLERANCE:
        return True
    rate = Decimal(10**9) / logged if scenario in _STREAMS and logged else None
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
