"""Judges a compliance test from stored logs. Only a verdict that rests on accuracy starts children: the scorer's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from harness.contract import Result
from reconciler.errors import ReconcilerError
from reconciler.execute.attempt import Attempt
from reconciler.execute.child import Watch, run_child
from reconciler.execute.executors.table import Executors
from reconciler.execute.requests import make_score_request
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, BASELINE, COMPLIANCE, DETAIL, SUMMARY
from reconciler.resource.kinds import AUDIT
from reconciler.rules.compliance.definition import MissingLogError, RunLogs, VerdictInputs
from reconciler.rules.compliance.entries import read_entries
from reconciler.rules.compliance.judging import collect_verdict_inputs, find_test
from reconciler.rules.compliance.verdict import AuditVerdict, Part
from reconciler.storage.files import RepositoryPaths, replace
from reconciler.storage.storage_errors import refuse_storage_error


def judge_attempt(attempt: Attempt, paths: RepositoryPaths, watch: Watch, executors: Executors) -> None:
    """Leaves the verify files in the attempt's output and, last of all, its result."""
    began = time.monotonic()
    try:
        verdict, answers, taken_over = _judge(attempt, paths, watch, executors)
    except MissingLogError as error:
        result = _missing(str(error))
    except _ScorerFailedError as error:
        result = error.result
    except (ReconcilerError, OSError, ValueError) as error:
        refuse_storage_error(error, attempt.folder)
        fix = "repeat the run whose log this is: reconcile apply --rerun cell=…"
        result = Result(done=False, seconds=0.0, problem=str(error), problem_class="input", fix=fix)
    else:
        for name, text in verdict.files.items():
            replace(attempt.output / name, text.encode("utf-8", "surrogateescape"))
        values = _values(verdict, answers, taken_over=taken_over)
        result = Result(done=True, seconds=time.monotonic() - began, values=values)
    result.write(attempt.result)


class _ScorerFailedError(Exception):
    """``result``: that of its child, reported as the verdict's own."""

    def __init__(self, log: str, child: Result) -> None:
        super().__init__(log)
        self.result = Result(
            done=False,
            seconds=0.0,
            values=child.values,
            problem=f"the scorer failed on {log}: {child.problem}",
            problem_class=child.problem_class,
            fix=child.fix,
        )


def _missing(run: str) -> Result:
    problem = f"the whole accuracy log of the {run} run is not here"
    fix = "judge it where that run was made, or copy .reconcile/objects from there; a recorded verdict stays valid"
    return Result(done=False, seconds=0.0, problem=problem, problem_class="missing", fix=fix)


def _judge(
    attempt: Attempt, paths: RepositoryPaths, watch: Watch, executors: Executors
) -> tuple[AuditVerdict, Part | None, bool]:
    """The verdict; TEST01's comparison of answers, and whether it was taken over from an earlier verdict."""
    values = {name: value for name, (value, _) in attempt.intent.inputs.items()}
    test, question = find_test(str(values["test"])), _question(attempt, values)
    answers, taken_over, reports = None, False, dict[str, str]()
    if test.compare_answers is not None:
        answers = test.compare_answers(question)
        here = question.audit.answers is not None and question.accuracy.answers is not None
        taken_over = not here
        if not answers.passed and here:
            reports = _both_scored(attempt, paths, watch, executors)
        unread = RunLogs(question.audit.detail, question.audit.summary)
        question = structs.replace(question, audit=unread, known_answers=answers)
    elif test.scored:
        question.audit.read_entries("audit")  # it must be at hand
        reports = {COMPLIANCE: _scored(attempt, paths, watch, executors, COMPLIANCE, _log(attempt, "audit"))}
    verdict = test.judge(structs.replace(question, reports=reports))
    for name, text in reports.items() if test.compare_answers is not None else ():
        replace(attempt.output / name, text.encode("utf-8", "surrogateescape"))
    return verdict, answers, taken_over


def _question(attempt: Attempt, values: Mapping[str, object]) -> VerdictInputs:
    intent, cell = attempt.intent, attempt.intent.address.cell
    return collect_verdict_inputs(
        values,
        {run: _logs(attempt, run) for run in (AUDIT, "performance", "accuracy")},
        cell.scenario if cell else "",
        (bar.metric for bar in intent.rules.bars) if intent.rules else (),
        intent.response_dtype,
        intent.known_answers,
    )


def _log(attempt: Attempt, run: str) -> Path:
    return attempt.inputs / run / ACCURACY_LOG


def _logs(attempt: Attempt, run: str) -> RunLogs:
    folder, whole = attempt.inputs / run, _log(attempt, run)
    return RunLogs(_bytes(folder / DETAIL), _bytes(folder / SUMMARY), _lines(whole) if whole.exists() else None)


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _lines(path: Path) -> Callable[[], Iterator[bytes]]:
    """A log may be larger than memory: line by line, from the beginning each time."""

    def read() -> Iterator[bytes]:
        with path.open("rb") as stream:
            yield from stream

    return read


def _both_scored(attempt: Attempt, paths: RepositoryPaths, watch: Watch, executors: Executors) -> dict[str, str]:
    """Reports over the audit run's answers, and over the accuracy run's answers to the same samples."""
    audit, subset = _log(attempt, "audit"), attempt.folder / "baseline.json"
    logged = {entry.index for entry in read_entries(_lines(audit)())}
    entries = (e for e in read_entries(_lines(_log(attempt, "accuracy"))()) if e.index in logged)
    with subset.open("w", encoding="ascii") as stream:
        stream.write("[\n")
        for number, entry in enumerate(entries):
            item = {"seq_id": number, "qsl_idx": entry.index, "data": entry.data.hex().upper()}
            stream.write((",\n" if number else "") + json.dumps(item))
        stream.write("\n]\n")
    logs = {BASELINE: subset, COMPLIANCE: audit}
    return {name: _scored(attempt, paths, watch, executors, name, log) for name, log in logs.items()}


def _scored(attempt: Attempt, paths: RepositoryPaths, watch: Watch, executors: Executors, name: str, log: Path) -> str:
    """Score a log with the benchmark's scorer. Raises _ScorerFailedError when it fails."""
    child = Attempt(attempt.folder / Path(name).stem, attempt.intent)
    child.output.mkdir(parents=True)
    request = make_score_request(child, paths, {"dataset": str(attempt.inputs / "dataset")}, log)
    result = run_child(child, request, watch, executors)
    if not result.done:
        raise _ScorerFailedError(log.name, result)
    return (child.output / ACCURACY_TEXT).read_text(encoding="utf-8", errors="surrogateescape")


def _values(verdict: AuditVerdict, answers: Part | None, *, taken_over: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "passed": verdict.passed,
        "reasons": list(verdict.reasons),
        "notes": list(verdict.notes),
        "figures": dict(verdict.figures),
    }
    if verdict.by_speed:
        values["by_speed"] = True
    if verdict.where:
        values["where"] = verdict.where
    if answers is not None:
        values["answers"] = {"reasons": list(answers.reasons), "figures": dict(answers.figures)}
        values["answers_taken_over"] = taken_over
    return values
