"""Run one step of a plan, from its empty folder to its finished attempt."""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs
from msgspec.structs import replace

from harness.contract import Fact, Progress, Result
from reconciler.desired.detail import Detail
from reconciler.errors import ReconcilerError
from reconciler.execute.attempt import Attempt, Intent, MachineFacts, ServerAccess, create, make_attempt_id
from reconciler.execute.attempt_record import build_record
from reconciler.execute.child import STALL, Detached, Watch, follow_submission, read_last_lines, run_child
from reconciler.execute.commands import has_command
from reconciler.execute.executors.executor import PATIENCE, read_handle
from reconciler.execute.executors.table import Executors
from reconciler.execute.outcome import Outcome, Status
from reconciler.execute.record_clock import RecordClock
from reconciler.execute.requests import make_request, make_score_request
from reconciler.execute.run_code import pack_run_code
from reconciler.loadgen.log_files import ACCURACY_LOG, ACCURACY_TEXT, BASELINE, COMPLIANCE, DETAIL, SUMMARY
from reconciler.plan.plan import Step
from reconciler.resource.canonical import canonicalise
from reconciler.resource.inputs import CODE, REVISIONS
from reconciler.resource.kinds import AUDIT, PERFORMANCE, Kind
from reconciler.resource.quantities import join_listing, show_size
from reconciler.resource.records import (
    CODE_CHANGED,
    CODE_WRITTEN,
    NOT_HANDED_ON,
    Artifact,
    Record,
    Summary,
)
from reconciler.resource.settings import COMMAND
from reconciler.rules.compliance.definition import AuditVerdict, MissingLogError, Part, RunLogs, VerdictInputs
from reconciler.rules.compliance.entries import read_entries
from reconciler.rules.compliance.judging import collect_verdict_inputs, find_test
from reconciler.rules.results.format import KeptFile
from reconciler.rules.results.table import find_format
from reconciler.storage.event_log import facts
from reconciler.storage.files import RepositoryPaths, hash_file, link, offer, remove
from reconciler.storage.files import replace as write
from reconciler.storage.storage_errors import PARTIAL, refuse_storage_error
from reconciler.storage.untrusted_files import walk_files

# Prepared datasets that the repositories on this machine share, in the scratch space: a folder for each key.
#
# An entry is complete or absent, and is verified by the digests recorded when it was made. If two passes prepare the
# same entry at once, both finish and the first entry stays. Losing all entries costs only time.

PREPARED = "dataset.prepared"
TAKEN = "taken_from_scratch"  # in the values of a record whose files another repository prepared
_RESULT = "result.json"
_MANIFEST = "manifest.json"  # written after the digests of everything else were computed
_FILES = "files"
_LOGGER = logging.getLogger(__name__)
_MOST_NAMED = 100  # maximum number of changed code files that a record names


def find_prepared(attempt: Attempt) -> Path | None:
    """Return the entry for the files that this attempt makes; None if it is not shared."""
    intent = attempt.intent
    folder = intent.locations.get(PREPARED)
    if intent.address.kind is not Kind.DATASET or not folder or has_command(attempt):
        return None
    return Path(folder) / intent.key


def take_prepared(attempt: Attempt, entry: Path) -> bool:
    """Take the entry's files and result for the attempt; return False if there are none. An entry whose files have
    changed is removed."""
    try:
        result = Result.read(entry / _RESULT)
        expected = dict(result.values["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    folder = entry / _FILES
    wrong = _find_wrong(folder, expected)
    if wrong:
        _LOGGER.warning("a prepared dataset is damaged and is prepared again", extra=facts(path=str(wrong)))
        with contextlib.suppress(OSError):
            remove(entry)
        return False
    for name in (*expected, _MANIFEST):
        link(folder / name, attempt.output / name)
    result.values[TAKEN] = True
    result.write(attempt.result)
    _LOGGER.info("took a prepared dataset from the scratch space", extra=facts(path=str(entry)))
    return True


def _find_wrong(folder: Path, expected: dict[str, str]) -> Path | None:
    try:
        there = {path.relative_to(folder).as_posix() for path in walk_files(folder)}
        if there != {*expected, _MANIFEST}:
            return folder
        return next((folder / name for name, sha256 in expected.items() if hash_file(folder / name) != sha256), None)
    except OSError:
        return folder


def offer_prepared(attempt: Attempt, entry: Path) -> None:
    """Share the files that the attempt made. If the scratch space cannot take it, nothing is lost."""
    if entry.exists() or not attempt.result.is_file():
        return
    result = Result.read(attempt.result)
    if not result.done or "files" not in result.values:
        return
    aside = entry.with_name(f".{entry.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        for path in walk_files(attempt.output):
            link(path, aside / _FILES / path.relative_to(attempt.output))
        result.write(aside / _RESULT)
        aside.rename(entry)
    except (OSError, ReconcilerError) as error:  # read-only or full, or another pass was first
        _LOGGER.info(
            "a prepared dataset was not stored in the scratch space", extra=facts(path=str(entry), why=str(error))
        )
        with contextlib.suppress(OSError):
            remove(aside)


# Interruptions by a queue: not the step's fault, so retried without counting as an attempt.
INTERRUPTED = frozenset({"preempted", "node-failure", "requeued", "lost"})
TRANSIENT = frozenset({"resources"}) | INTERRUPTED


# Called while a step waits and before it begins (False), and several times a second while it runs (True). An exception
# that it raises drops the step and ends the pass.
Check = Callable[[Step, bool], None]


def skip_check(_: Step, __: bool) -> None:
    """Check nothing: every step is wanted to its end."""


class AttemptContext(Struct, frozen=True):
    """The context shared by all attempts of a pass. ``path`` returns a stored artifact's file, ``load`` a record by its
    id; ``stall``: seconds without progress after which a run counts as hung. ``nodes``: system → the facts about the
    nodes behind its launcher for the records of its runs; ``shared_with``: other users of this run's machine.
    ``server``: the one that it queries; ``lost``: how a run's server ended. ``clock``: UTC, of this machine; ``order``:
    the times that a record must follow. ``under_way``: key → an earlier pass's attempt that is still running.
    ``installed``: system → the packages where its commands run, with their versions. ``written``: location of a
    command's code → files that commands created there; ``hash_code``: the digest of the code at a location, and of each
    of its files."""

    paths: RepositoryPaths
    executors: Executors
    tool: str
    spec: Mapping[str, str]
    dirty: bool
    clock: Callable[[], datetime]
    keep_open: tuple[int, ...]
    path: Callable[[Artifact], Path]
    load: Callable[[str], Record]
    stall: float = STALL
    check: Check = skip_check
    nodes: Mapping[str, MachineFacts] = field(default_factory=dict)
    shared_with: str = ""
    server: ServerAccess | None = None
    lost: Callable[[], Result | None] = lambda: None
    order: RecordClock = field(default_factory=RecordClock)
    under_way: dict[str, Attempt] = field(default_factory=dict)
    installed: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    written: dict[str, set[str]] = field(default_factory=dict)
    hash_code: Callable[[str], tuple[str, Mapping[str, str]]] = lambda _: ("", {})


class Finished(Struct):
    """A finished attempt, with what to store and record before its folder is removed.

    ``seconds``: lifetime of its child process, including start-up. ``lives``: it is a server that keeps running.
    """

    attempt: Attempt
    record: Record
    kept: tuple[KeptFile, ...] = field(default_factory=tuple)
    seconds: float = 0.0
    lives: bool = False


def begin(step: Step, detail: Detail, upstream: Mapping[str, Summary], context: AttemptContext) -> Attempt:
    """Create the folder of an attempt, including upstream files; a run that follows another reads none of them."""
    now = context.clock()
    change = step.change
    files = {
        f"{name}.{artifact.name}": artifact
        for name, summary in upstream.items()
        for artifact in summary.artifacts
        if artifact.name not in NOT_HANDED_ON and not (change.address.kind is summary.address.kind is Kind.RUN)
    }
    machine = MachineFacts(shared_with=context.shared_with)
    if change.address.is_run and change.address.cell is not None:
        seen = context.nodes.get(change.address.cell.system, machine)
        machine = replace(seen, shared_with=context.shared_with)
    known, response = None, ""
    if change.address.kind is Kind.VERDICT:
        files = {name: artifact for name, artifact in files.items() if context.path(artifact).exists()}
        known = find_known_answers(change.previous, upstream, context.load)
        response = find_response_type(upstream, context.load)
    intent = Intent(
        id=make_attempt_id(now),
        address=change.address,
        key=change.key,
        revision=REVISIONS[change.address.kind],
        started=context.order.choose_start(
            (change.address, *step.shared), now, [made.started for made in upstream.values()]
        ),
        clock=now.isoformat(),
        inputs={i.name: (canonicalise(i.value), str(i.origin)) for i in detail.inputs if i.value is not None},
        settings=detail.settings,
        rules=detail.rules,
        machine=machine,
        server=context.server,
        known_answers=known,
        response_dtype=response,
        locations=detail.locations,
        upstream={name: summary.id for name, summary in upstream.items()},
        made_from={name: artifact.sha256 for name, artifact in files.items()},
        spec=context.spec,
        dirty=context.dirty,
        marks=tuple(sorted({*detail.marks, *(mark for s in upstream.values() for mark in s.marks)})),
        supersedes=change.previous,
        shared=step.shared,
        tool=context.tool,
    )
    attempt = create(context.paths.attempts, intent)
    if change.address.mode == PERFORMANCE and keep_code(attempt, context.paths.root, context.written):
        _keep_requirements(attempt, context)
    for name, artifact in files.items():
        folder, _, file = name.partition(".")
        offer(context.path(artifact), attempt.inputs / folder / file)
    return attempt


def keep_code(attempt: Attempt, root: Path, written: Mapping[str, Collection[str]]) -> bool:
    """Store the code as it is when the run begins. Return False if it cannot be read, which the run itself will
    report."""
    intent = attempt.intent
    try:
        archive = pack_run_code(intent.settings, intent.locations, root, written)
    except OSError as error:
        refuse_storage_error(error, attempt.folder)
        return False
    if archive:
        write(attempt.code, archive)
    return True


def _keep_requirements(attempt: Attempt, context: AttemptContext) -> None:
    intent = attempt.intent
    cell = intent.address.cell
    installed = context.installed.get(cell.system) if cell is not None else None
    if installed and COMMAND not in intent.settings:
        lines = (f"{name}=={version}\n" for name, version in sorted(installed.items()))
        write(attempt.requirements, "".join(lines).encode())


def find_known_answers(
    previous: str, upstream: Mapping[str, Summary], load: Callable[[str], Record]
) -> Mapping[str, Any] | None:
    """Return an earlier verdict's comparison of the answers of the very same runs. It is used if their logs are not
    here."""
    if not previous:
        return None
    record = load(previous)
    same = all(upstream[name].id == record.upstream.get(name) for name in ("audit", "accuracy") if name in upstream)
    return record.values.get("answers") if same else None


def find_response_type(upstream: Mapping[str, Summary], load: Callable[[str], Record]) -> str:
    """Return the type of the audit run's answers, if its harness reported it."""
    found = load(upstream[AUDIT].id).values.get("response", {}) if AUDIT in upstream else {}
    return str(found.get("dtype", ""))


def perform(
    step: Step,
    detail: Detail,
    upstream: Mapping[str, Summary],
    context: AttemptContext,
    moved: Callable[[Progress], None],
) -> Finished:
    """Run one attempt to its end, or follow one that an earlier pass started and that is still running.

    KeyboardInterrupt leaves no result, so no incomplete attempt is ever harvested.
    """
    earlier = context.under_way.pop(step.change.key, None)
    attempt = earlier or begin(step, detail, upstream, context)
    code = attempt.intent.settings.harness_code if CODE in attempt.intent.inputs else ""
    _, before = context.hash_code(code) if code else ("", {})
    try:
        stall = _choose_stall(attempt, detail, context)
        began = time.monotonic()
        start = context.executors.choose_for_system(attempt.intent.settings).get_capacity(attempt.intent.settings).start
        watch = Watch(
            moved, stall, start, context.keep_open, check=lambda: context.check(step, True), lost=context.lost
        )
        handle = read_handle(attempt.folder) if earlier else None
        if handle is not None:
            follow_submission(context.executors.by_name[handle.executor], handle, attempt, watch)
        elif step.change.address.kind is Kind.VERDICT:
            judge_attempt(attempt, context.paths, watch, context.executors)
        elif step.change.address.kind is Kind.SCORE and find_format(attempt.intent.settings).SCORES_ITSELF:
            Result(done=True, seconds=0.0).write(attempt.result)  # its accuracy run has already scored itself
        else:
            _make(attempt, context, watch, step.seconds)
        seconds = time.monotonic() - began
        _refuse_changed_code(attempt, before, context)
        record, kept = build_record(attempt)
    except Detached:
        raise
    except BaseException:
        if not attempt.result.exists():
            remove(attempt.folder)
        raise
    return Finished(attempt, record, kept, seconds)


def is_code_changed(detail: Detail, context: AttemptContext) -> bool:
    """Return True if the code of a step's command is no longer the code that the step's key contains."""
    planned = detail.collect_values().get(CODE)
    return planned is not None and context.hash_code(detail.settings.harness_code)[0] not in ("", planned)


def _refuse_changed_code(attempt: Attempt, before: Mapping[str, str], context: AttemptContext) -> None:
    """Make an attempt fail if files of its command's code changed during it. Files that it created are not code.
    ``before``: the digests of the code's files, none if no key has them."""
    result = Result.read(attempt.result)
    if (created := result.facts.get(CODE_WRITTEN)) is not None:
        context.written.setdefault(created.value["location"], set()).update(created.value["names"])
    digest, after = context.hash_code(attempt.intent.settings.harness_code) if before else ("", {})
    names = [name for name, known in before.items() if after.get(name) != known]
    if names and result.done:
        fact = Fact(value={"after": digest, "names": names[:_MOST_NAMED]}, role="note")
        result.edit(
            done=False,
            facts={**result.facts, CODE_CHANGED: fact},
            problem=f"files of the command's own code changed during the run: {join_listing(names)}",
            problem_class="code",
            fix="let the command write below {run_dir} or build/, let git ignore such a file, or remove it (git rm) if "
            "the command makes it anew; if you edited it, repeat the run (--rerun)",
        ).write(attempt.result)


def _make(attempt: Attempt, context: AttemptContext, watch: Watch, seconds: float | None) -> None:
    """Make the resource in a child, unless another repository on this machine has already prepared it."""
    prepared = find_prepared(attempt)
    if prepared is not None and take_prepared(attempt, prepared):
        return
    run_child(attempt, make_request(attempt, context.paths), watch, context.executors, seconds)
    if prepared is not None:
        offer_prepared(attempt, prepared)


def _choose_stall(attempt: Attempt, detail: Detail, context: AttemptContext) -> float:
    if has_command(attempt):
        return 0.0  # a silent command may be working; harness.timeout limits it
    if attempt.intent.address.is_run:
        return detail.settings.get_seconds("run.stall_timeout", context.stall)
    return PATIENCE


def derive_outcome(step: Step, finished: Finished) -> Outcome:
    record = finished.record
    if record.problem:
        status = Status.RETRY if record.problem_class in TRANSIENT else Status.FAILED
        log = str(record.values.get("log", "")) or read_last_lines(finished.attempt.log)
        return Outcome(step, status, record.problem, record.fix, record, finished.seconds, log)
    return Outcome(step, Status.DONE, _summarize(record), "", record, finished.seconds)


def _summarize(record: Record) -> str:
    """Return one line for people: the metric and verdict of a run or score, or the size of what was built."""
    metric, validity = record.values.get("metric"), record.values.get("validity", "")
    parts = [f"{metric['value']} {metric['unit']}"] if metric else []
    if validity:
        parts.append(str(validity))
    if power := record.values.get("power"):
        parts.append(f"{power['watts']} W")
        if efficiency := power.get("efficiency"):
            parts.append(f"{efficiency['value']} {efficiency['unit']}")
        if power["check"] != "passed":
            parts.append(f"the power kit's check: {power['check']}")
    if "passed" in record.values:
        parts.append("TEST PASS" if record.values["passed"] else f"TEST FAIL: {'; '.join(record.values['reasons'])}")
        parts += record.values["notes"]
    if validity == "INVALID":
        parts += record.values.get("reasons", [])
        suggestion = record.values.get("suggestion")
        if suggestion:
            parts.append(f"try {suggestion['setting']}: {suggestion['value']} {suggestion['unit']}".rstrip())
    if record.address.kind is Kind.SERVICE:
        parts.append("ready")
    if record.address.kind in (Kind.DATASET, Kind.MODEL, Kind.ENGINE):
        parts.append(show_size(sum(a.size for a in record.artifacts)))
    return ", ".join(parts)


# Judges a compliance test from stored logs. Only a verdict that depends on accuracy starts children: the scorer's.


def judge_attempt(attempt: Attempt, paths: RepositoryPaths, watch: Watch, executors: Executors) -> None:
    """Write the verify files to the attempt's output and, last of all, its result."""
    began = time.monotonic()
    try:
        verdict, answers, taken_over = _judge(attempt, paths, watch, executors)
    except MissingLogError as error:
        problem = f"the complete accuracy log of the {error} run is not on this machine"
        where = "run this on the machine that made that run, or copy .reconcile/objects from it"
        fix = f"{where}; recorded verdicts stay valid"
        result = Result(done=False, seconds=0.0, problem=problem, problem_class="missing", fix=fix)
    except _ScorerFailedError as error:
        result = error.result
    except (ReconcilerError, OSError, ValueError) as error:
        refuse_storage_error(error, attempt.folder)
        fix = "repeat the run whose log this is: reconcile apply --rerun cell=…"
        result = Result(done=False, seconds=0.0, problem=str(error), problem_class="input", fix=fix)
    else:
        for name, text in verdict.files.items():
            write(attempt.output / name, text.encode("utf-8", "surrogateescape"))
        values = _list_values(verdict, answers, taken_over=taken_over)
        result = Result(done=True, seconds=time.monotonic() - began, values=values)
    result.write(attempt.result)


class _ScorerFailedError(Exception):
    """The scorer failed. ``result``: its child's result, reported as the verdict's own."""

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


def _judge(
    attempt: Attempt, paths: RepositoryPaths, watch: Watch, executors: Executors
) -> tuple[AuditVerdict, Part | None, bool]:
    """Return the verdict, TEST01's comparison of answers, and whether the comparison comes from an earlier verdict."""
    values = {name: value for name, (value, _) in attempt.intent.inputs.items()}
    test, question = find_test(str(values["test"])), _collect_question(attempt, values)
    answers, taken_over, reports = None, False, dict[str, str]()
    if test.compare_answers is not None:
        answers = test.compare_answers(question)
        here = question.audit.answers is not None and question.accuracy.answers is not None
        taken_over = not here
        if not answers.passed and here:
            reports = _score_both(attempt, paths, watch, executors)
        unread = RunLogs(question.audit.detail, question.audit.summary)
        question = structs.replace(question, audit=unread, known_answers=answers)
    elif test.scored:
        question.audit.read_entries("audit")  # it must be available
        reports = {COMPLIANCE: _score(attempt, paths, watch, executors, COMPLIANCE, _find_log(attempt, "audit"))}
    verdict = test.judge(structs.replace(question, reports=reports))
    for name, text in reports.items() if test.compare_answers is not None else ():
        write(attempt.output / name, text.encode("utf-8", "surrogateescape"))
    return verdict, answers, taken_over


def _collect_question(attempt: Attempt, values: Mapping[str, object]) -> VerdictInputs:
    intent, cell = attempt.intent, attempt.intent.address.cell
    return collect_verdict_inputs(
        values,
        {run: _read_logs(attempt, run) for run in (AUDIT, "performance", "accuracy")},
        cell.scenario if cell else "",
        (bar.metric for bar in intent.rules.bars) if intent.rules else (),
        intent.response_dtype,
        intent.known_answers,
    )


def _find_log(attempt: Attempt, run: str) -> Path:
    return attempt.inputs / run / ACCURACY_LOG


def _read_logs(attempt: Attempt, run: str) -> RunLogs:
    folder, whole = attempt.inputs / run, _find_log(attempt, run)
    return RunLogs(
        _read_bytes(folder / DETAIL),
        _read_bytes(folder / SUMMARY),
        partial(_read_lines, whole) if whole.exists() else None,
    )


def _read_bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _read_lines(path: Path) -> Iterator[bytes]:
    """Read a log line by line, since it may be larger than memory."""
    with path.open("rb") as stream:
        yield from stream


def _score_both(attempt: Attempt, paths: RepositoryPaths, watch: Watch, executors: Executors) -> dict[str, str]:
    """Return reports on the audit run's answers, and on the accuracy run's answers to the same samples."""
    audit, subset = _find_log(attempt, "audit"), attempt.folder / "baseline.json"
    logged = {entry.index for entry in read_entries(_read_lines(audit))}
    entries = (e for e in read_entries(_read_lines(_find_log(attempt, "accuracy"))) if e.index in logged)
    with subset.open("w", encoding="ascii") as stream:
        stream.write("[\n")
        for number, entry in enumerate(entries):
            item = {"seq_id": number, "qsl_idx": entry.index, "data": entry.data.hex().upper()}
            stream.write((",\n" if number else "") + json.dumps(item))
        stream.write("\n]\n")
    logs = {BASELINE: subset, COMPLIANCE: audit}
    return {name: _score(attempt, paths, watch, executors, name, log) for name, log in logs.items()}


def _score(attempt: Attempt, paths: RepositoryPaths, watch: Watch, executors: Executors, name: str, log: Path) -> str:
    """Score a log with the benchmark's scorer. Raises _ScorerFailedError if it fails."""
    child = Attempt(attempt.folder / Path(name).stem, attempt.intent)
    child.output.mkdir(parents=True)
    request = make_score_request(child, paths, {"dataset": str(attempt.inputs / "dataset")}, log)
    result = run_child(child, request, watch, executors)
    if not result.done:
        raise _ScorerFailedError(log.name, result)
    return (child.output / ACCURACY_TEXT).read_text(encoding="utf-8", errors="surrogateescape")


def _list_values(verdict: AuditVerdict, answers: Part | None, *, taken_over: bool) -> dict[str, Any]:
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
