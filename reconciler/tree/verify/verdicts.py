"""Verdicts of compliance tests against the logs they judge, and accuracy.txt against its log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from reconciler.mlperf.log_names import VERIFY_ACCURACY, VERIFY_PERFORMANCE
from reconciler.tree.check import accuracy
from reconciler.tree.check.accuracy import count_key
from reconciler.tree.check.demands import OURS, Complaints
from reconciler.tree.findings import Complaint, Place, Rule, Severity
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import at, number
from reconciler.tree.reading.view import CellView, RunView
from reconciler.tree.verify.summary import same_number

_SCORE = re.compile(r"(?P<which>reference|test) score = (?P<value>[0-9.]+(?:e[+-]?[0-9]+)?)", re.IGNORECASE | re.ASCII)
_COUNT = re.compile(r"(?P<name>num_\w+) = (?P<value>[0-9]+)", re.ASCII)
_PASS = "TEST PASS"  # noqa: S105
# What the verification scripts compare, by the scenario that ran; TEST04 compares rates, also for the streams.
_SCORES = {
    "Offline": "result_samples_per_second",
    "Server": "result_completed_samples_per_sec",
    "SingleStream": "early_stopping_latency_ss",
    "MultiStream": "early_stopping_latency_ms",
}
_TOLERANCE = Decimal("0.001")
_RELAXED = {"SingleStream": 200_000, "MultiStream": 1_600_000}  # ns; quicker than this, 20 % instead of 10


def scores(view: CellView) -> Complaints:
    """The verdict compared the runs that are published."""
    for test, run in view.test_views.items():
        read = view.files.text(view.files.tests[test], VERIFY_PERFORMANCE)
        for line, which, said in _said(read):
            of = view.performance if which == "reference" else run
            logged = _score(of) if of is not None else None
            if of is None or logged is None or _agrees(said, logged, of.log.scenario):
                continue
            key = _SCORES[of.log.scenario]
            yield Complaint(
                Place(read.file, line),
                f"{which} score {said}",
                f"{logged:f}, the {'published run' if which == 'reference' else test + ' run'}'s own",
                cause="the verdict is of another run, repeated since",
                fix=f"run the verification of {test} again on the published logs",
                other=at(of.log, key),
            )


def passes(view: CellView) -> Complaints:
    """TEST PASS, although the numbers beside it or the run itself say otherwise."""
    for test, run in view.test_views.items():
        read = view.files.text(view.files.tests[test], VERIFY_PERFORMANCE)
        if read.value is None or _PASS not in read.value:
            continue
        if run.log.validity == "INVALID":
            place = Place(read.file, _line(read, _PASS))
            yield Complaint(place, _PASS, "a VALID run of the test", other=at(run.log, "result_validity"))
        said = {which: value for _, which, value in _said(read)}
        if len(said) == 2 and not _within(test, run, said["reference"], said["test"]):
            place = Place(read.file, _line(read, _PASS))
            found = f"{_PASS} with {said['test']} against {said['reference']}"
            yield Complaint(place, found, "a difference that passes", other=at(run.log, _SCORES[run.log.scenario]))


def counts(view: CellView) -> Complaints:
    """verify_accuracy.txt counts what it read: mismatches are no pass, the entries are those of the accuracy run."""
    for folder in view.files.tests.values():
        read = view.files.text(folder, VERIFY_ACCURACY)
        found = {name: (line, value) for line, name, value in _counted(read)}
        lines = [text.strip() for text in (read.value or "").splitlines()]
        line, mismatches = found.get("num_perf_log_data_mismatch", (0, 0))
        if mismatches and _PASS in lines:
            place = Place(read.file, line)
            yield Complaint(place, f"{_PASS} with {mismatches} mismatches", "no mismatch", cause="an edited verdict")
        line, entries = found.get("num_acc_log_entries", (0, 0))
        run = view.accuracy
        total = number(run.log, count_key(run)) if run else None
        if run is not None and line and total is not None and entries != total:
            yield Complaint(
                Place(read.file, line),
                f"{entries} entries of the accuracy log",
                f"{total}, the samples of the accuracy run",
                cause="the verdict was made with another, or an already truncated, accuracy log",
                other=at(run.log, count_key(run)),
            )


def scored_samples(view: CellView) -> Complaints:
    """A score over fewer samples than the accuracy run issued."""
    run, read = view.accuracy, view.files.accuracy_text
    total = number(run.log, count_key(run)) if run else None
    if run is None or total is None or read.value is None:
        return
    for line, text in enumerate(read.value.split("\n"), start=1):
        found = re.search(r"'gen_num': (\d+)|\btotal=(\d+)", text, re.ASCII)
        if found and Decimal(found[1] or found[2]) != total:
            yield Complaint(
                Place(read.file, line),
                f"a score over {found[1] or found[2]} samples",
                f"{total}, the samples of the accuracy run",
                cause="accuracy.txt is of another run",
                other=at(run.log, count_key(run)),
            )


def hashes(view: CellView) -> Complaints:
    yield from accuracy.hash_of_log(view)
    yield from accuracy.test_hashes(view)


def _said(read: Read[str]) -> Iterator[tuple[int, str, Decimal]]:
    for line, text in enumerate((read.value or "").split("\n"), start=1):
        if found := _SCORE.match(text.strip()):
            try:
                yield line, found["which"].lower(), Decimal(found["value"])
            except ArithmeticError:
                continue


def _counted(read: Read[str]) -> Iterator[tuple[int, str, int]]:
    for line, text in enumerate((read.value or "").split("\n"), start=1):
        if (found := _COUNT.match(text.strip())) and len(found["value"]) < 20:
            yield line, found["name"], int(found["value"])


def _score(run: RunView) -> Decimal | None:
    return number(run.log, _SCORES.get(run.log.scenario, ""))


def _agrees(said: Decimal, logged: Decimal, scenario: str) -> bool:
    """As the log's number; streams also as queries per second, which is how TEST04 states them."""
    if same_number(str(said), logged) or abs(said - logged) <= abs(logged) * _TOLERANCE:
        return True
    rate = Decimal(10**9) / logged if scenario in _RELAXED and logged else None
    return rate is not None and abs(said - rate) <= rate * _TOLERANCE


def _within(test: str, run: RunView, before: Decimal, after: Decimal) -> bool:
    """TEST01: within 10 % both ways; TEST04: not more than 10 % faster. Very short latencies: 20 %."""
    logged, short = _score(run), _RELAXED.get(run.log.scenario)
    relaxed = short is not None and (test == "TEST04" or (logged is not None and logged <= short))
    part = Decimal("0.2") if relaxed else Decimal("0.1")
    if test == "TEST04":
        return after <= before * (1 + part)
    return before * (1 - part) <= after <= before * (1 + part)


def _line(read: Read[str], text: str) -> int:
    lines = (read.value or "").split("\n")
    return next((n for n, line in enumerate(lines, 1) if text in line), 0)


WARNING = Severity.WARNING
VERDICT_RULES = (
    (Rule("compliance.scores", "a verdict over other runs", (OURS,), WARNING), scores),
    (Rule("compliance.passes", "a pass that its numbers deny", ("compliance scripts", OURS)), passes),
    (Rule("compliance.counts", "counts that do not fit", ("compliance scripts", OURS)), counts),
    (Rule("accuracy.samples", "a score over other samples", (OURS,)), scored_samples),
    (Rule("accuracy.hash", "a hash that is not the log's", ("submission rules: truncation", OURS)), hashes),
)
