"""Verdicts of compliance tests, taken again from the logs in the tree, against what its verify files say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from reconciler.errors import LogError
from reconciler.mlperf.accuracy import is_truncated, parse_accuracy
from reconciler.mlperf.audit_rules import TestRules
from reconciler.mlperf.compliance.former import verify_test04_ab
from reconciler.mlperf.compliance.judging import DTYPES, JUDGES, MissingLogError, Question, RunLogs, judge
from reconciler.mlperf.compliance.verdict import FAIL, PASS, AuditVerdict, Part
from reconciler.mlperf.log import DetailLog
from reconciler.mlperf.log_names import ACCURACY_LOG, ACCURACY_TEXT, BASELINE, COMPLIANCE, VERIFY_ACCURACY
from reconciler.mlperf.summary import SummaryLog
from reconciler.tree.check.compliance import says
from reconciler.tree.check.demands import Complaints
from reconciler.tree.findings import Complaint, Place, Severity
from reconciler.tree.reading.cell import Folder, RunFiles
from reconciler.tree.reading.files import LOG_LIMIT, Read
from reconciler.tree.reading.view import CellView

T = TypeVar("T")
# TEST04 as two runs, before there was one.
_UNIQUE, _SAME = "TEST04-A", "TEST04-B"
# Its verdict depends on the tokenizer, of which the tree says nothing: only a pass can be contradicted.
_UNSURE = frozenset({"TEST06"})


@dataclass(frozen=True, slots=True)
class TreeLogs(RunLogs):
    """The logs of a run in a tree, read already."""

    files: RunFiles | None = None

    def detail_log(self, run: str) -> DetailLog:
        return _there(self.files.detail if self.files else None, run)

    def summary_log(self, run: str) -> SummaryLog:
        return _there(self.files.summary if self.files else None, run)


def disagreements(view: CellView) -> Complaints:
    """A verify file that says another thing than its logs do. Where a log is truncated or absent, nobody can say."""
    for test, folder in view.files.tests.items():
        rules = _rules(view, test)
        for file, again in _judged(view, test, folder, rules):
            read = view.files.text(folder, file)
            if read.value is None:
                continue  # what is absent or cannot be read is a finding of its own
            said, found = (_passes(text, file, rules) for text in (read.value, again.files[file]))
            if said and not found:
                yield _denied(test, read, again, file)
            elif found and not said and test not in _UNSURE:
                place = Place(read.file, _line(read.value, FAIL))
                yield Complaint(
                    place,
                    f"no {PASS}",
                    f"{PASS}: {_figures(again)}",
                    cause="the verdict is of other logs than those beside it",
                    fix=f"run the verification of {test} again on the published logs",
                    severity=Severity.WARNING,
                )


def _denied(test: str, read: Read[str], again: AuditVerdict, file: str) -> Complaint:
    lines = [line.removeprefix(f"{FAIL}: ") for line in again.files[file].splitlines() if line.startswith(FAIL)]
    why = "; ".join(lines or again.reasons)
    return Complaint(
        Place(read.file, _line(read.value or "", PASS)),
        PASS,
        f"a failure, as the logs of {test} say: {why}",
        cause="the verdict was edited, or is of other logs than those beside it",
        fix=f"run the verification of {test} again on the published logs; where it fails, repeat {test}",
    )


def _judged(view: CellView, test: str, folder: Folder, rules: TestRules | None) -> Iterator[tuple[str, AuditVerdict]]:
    """(verify file, verdict) of what can be judged from the tree."""
    for file in _verify_files(test, rules):
        # No file says as what the answers were read: one type that passes is enough.
        tries = DTYPES.get(test, ("",)) if file == VERIFY_ACCURACY else ("",)
        found: list[AuditVerdict] = []
        for dtype in tries:
            try:
                verdict = _judge(view, test, folder, rules, file, dtype)
            except (MissingLogError, LogError, KeyError):
                continue  # KeyError: a limit that the round does not have
            if file in verdict.files:
                found.append(verdict)
        passing = [verdict for verdict in found if _passes(verdict.files[file], file, rules)]
        if found:
            yield file, (passing or found)[0]


def _judge(view: CellView, test: str, folder: Folder, rules: TestRules | None, file: str, dtype: str) -> AuditVerdict:
    runs = view.files.test_runs
    if test == _UNIQUE:
        return verify_test04_ab(*(_there(runs[n].summary if n in runs else None, n) for n in (_UNIQUE, _SAME)))
    metrics = tuple(bar.metric for bar in view.rules.bars(view.cell.scenario)) if view.rules else ()
    reports = {name: view.files.text(folder / "accuracy", name).value for name in (BASELINE, COMPLIANCE)}
    if test == "TEST07":
        reports[COMPLIANCE] = view.files.text(folder, VERIFY_ACCURACY).value  # the scorer's words stand in there
    asks = test != "TEST01" or file == VERIFY_ACCURACY  # its other file is about speed alone
    question = Question(
        audit=TreeLogs(answers=_answers(view, folder / "accuracy") if asks else None, files=runs.get(test)),
        performance=TreeLogs(files=view.files.performance),
        accuracy=TreeLogs(answers=_answers(view, view.files.accuracy.folder) if asks else None),
        scenario=view.cell.scenario,
        dtype=dtype,
        limits={name: str(value.value) for name, value in rules.limits.items()} if rules else {},
        metrics=metrics,
        reports={name: text for name, text in reports.items() if text is not None},
        known_answers=None if asks else Part(),
    )
    return judge(test, question)


def _rules(view: CellView, test: str) -> TestRules | None:
    try:
        return view.rules.test(test, view.cell.scenario) if view.rules else None
    except KeyError:
        return None


def _verify_files(test: str, rules: TestRules | None) -> tuple[str, ...]:
    if test == _UNIQUE:
        return ("verify_performance.txt",)
    if test not in JUDGES or rules is None:
        return ()
    return tuple(dict.fromkeys(expected.file for expected in rules.expected))


def _passes(text: str, file: str, rules: TestRules | None) -> bool:
    lines = text.splitlines()
    expected = [item for item in rules.expected if item.file == file] if rules else []
    if not expected:
        return PASS in (line.strip() for line in lines)
    return all(says(item, lines) for item in expected)


def _answers(view: CellView, folder: Folder) -> Callable[[], Iterable[bytes]] | None:
    """The lines of the whole accuracy log: in the tree where it was small, else in the archive, if there is one."""
    data = view.files.bytes(folder, ACCURACY_LOG, LOG_LIMIT)
    if data and not is_truncated(data):
        return lambda: iter(data.splitlines())
    digest = parse_accuracy(view.files.text(folder, ACCURACY_TEXT).value or "", ()).hash
    path = view.original(digest.lower()) if view.original is not None and digest else None
    return None if path is None else lambda: _lines(path)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        yield from stream


def _there(read: Read[T] | None, run: str) -> T:
    if read is None or read.value is None:
        raise MissingLogError(run)
    return read.value


def _line(text: str, words: str) -> int:
    return next((n for n, line in enumerate(text.split("\n"), 1) if words in line), 0)


def _figures(verdict: AuditVerdict) -> str:
    return ", ".join(f"{name} {value}" for name, value in verdict.figures.items())
