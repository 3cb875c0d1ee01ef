"""Turn an attempt that has a result into its record. Everything is read from the attempt's folder, without a clock or
a spec, so that the pass that started it and a later pass that harvests it write the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from harness.contract import Result
from reconciler.execute.attempt import Attempt, read_placement
from reconciler.execute.commands import has_command
from reconciler.execute.run_code import take_launched_code
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Kind
from reconciler.resource.records import (
    CHILD_LOG,
    LOG_LIMIT,
    POWER_CHECK,
    REHEARSAL,
    SERVICE_LOG,
    SESSION,
    TELEMETRY_LOG,
    Artifact,
    Ended,
    Record,
    RecordedFact,
    RecordedInput,
)
from reconciler.resource.settings import BACKGROUND
from reconciler.rules.results.format import AttemptVerdict, KeptFile, RecordValues, RunFiles
from reconciler.rules.results.table import find_format
from reconciler.storage.files import hash_file
from reconciler.storage.untrusted_files import is_sparse

OUTPUTS = "outputs"  # folder of the files that a harness command left next to its logs


def build_record(attempt: Attempt) -> tuple[Record, tuple[KeptFile, ...]]:
    """Build the record of an attempt, and list the files to store before the record is written (artifacts refer to them
    by digest)."""
    result = Result.read(attempt.result)
    verdict = _judge(attempt, result) if result.done else _make_failed_verdict(result)
    kept = tuple(_list_kept(attempt, failed=bool(verdict.problem)))
    intent = attempt.intent
    marks = tuple(sorted({*intent.marks, *result.values.get("marks", ())}))
    record = Record(
        address=intent.address,
        key=intent.key,
        revision=intent.revision,
        ended=Ended.FAILED if verdict.problem else Ended.DONE,
        started=intent.started,
        seconds=round(result.seconds, 3),
        attempt=intent.id,
        inputs={name: RecordedInput(value, origin) for name, (value, origin) in intent.inputs.items()},
        facts={n: RecordedFact(f.value, Role(f.role)) for n, f in result.facts.items()}
        | _list_source_facts(attempt)
        | read_placement(attempt.placed).collect_facts()
        | intent.machine.collect_facts(),
        artifacts=tuple(describe_artifact(item) for item in kept),
        values=verdict.values,
        upstream=intent.upstream,
        spec=intent.spec,
        dirty=intent.dirty,
        marks=marks,
        problem=verdict.problem,
        problem_class=verdict.problem_class,
        fix=verdict.fix,
        supersedes=intent.supersedes,
        shared=intent.shared,
        tool=intent.tool,
    )
    return record, kept


def describe_artifact(item: KeptFile) -> Artifact:
    """Describe a kept file. A log too large for git is only in the store, and its record says so."""
    size = item.path.stat().st_size
    place = "logs" if item.in_git and size <= LOG_LIMIT else "objects"
    name = os.fsencode(item.name).decode(errors="backslashreplace")  # a file name may be any bytes; a record is text
    return Artifact(name, hash_file(item.path), size, place)


def _list_source_facts(attempt: Attempt) -> dict[str, RecordedFact]:
    """Return the digests of the files that a run really used. They are evidence, because all runs of a cell must have
    used the same engine; the files of background loads are not, because they do not belong to the cell."""
    return {
        name: RecordedFact(sha256, Role.NOTE if name.startswith(BACKGROUND) else Role.EVIDENCE)
        for name, sha256 in attempt.intent.made_from.items()
    }


def _make_failed_verdict(result: Result) -> AttemptVerdict:
    values = {"log": result.values["log"]} if "log" in result.values else {}
    return AttemptVerdict(
        values, result.problem or "the child gave no reason", result.problem_class or "crash", result.fix
    )


def _judge(attempt: Attempt, result: Result) -> AttemptVerdict:
    kind = attempt.intent.address.kind
    reported = {name: value for name, value in result.values.items() if name != "marks"}
    results = find_format(attempt.intent.settings)
    if kind in (Kind.RUN, Kind.COMPLIANCE_TEST):
        found = results.judge_run(_make_run_files(attempt, reported))
        refused = (
            {"power": reported["power"], **found.values} if found.problem and "power" in reported else found.values
        )
        return replace(found, values=refused)
    if kind is Kind.SCORE:
        return results.judge_score(attempt.output, attempt.inputs / "run", attempt.intent.ruling, reported)
    return AttemptVerdict(reported)


def _make_run_files(attempt: Attempt, reported: RecordValues | None = None) -> RunFiles:
    return RunFiles(
        output=attempt.output,
        inputs={name: value for name, (value, _) in attempt.intent.inputs.items()},
        rules=attempt.intent.ruling,
        rehearsal=REHEARSAL in attempt.intent.marks,
        reported=reported or {},
        user_conf=attempt.user_conf,
        scratch=attempt.folder,
        by_command=has_command(attempt),
    )


def _list_kept(attempt: Attempt, *, failed: bool) -> Iterator[KeptFile]:
    kind = attempt.intent.address.kind
    if failed:
        pattern = find_format(attempt.intent.settings).LOGS
        logs = sorted(filter(_has_content, attempt.output.rglob(pattern)))
        yield from (KeptFile(path, path.relative_to(attempt.output).as_posix()) for path in logs)
        yield from (KeptFile(p, p.name) for p in (attempt.user_conf,) if p.exists() and logs and has_command(attempt))
        yield from (KeptFile(p, p.name) for p in (attempt.log, attempt.service_log) if p.exists())
        yield from _list_session(attempt, in_git=False)
        return
    if kind in (Kind.RUN, Kind.COMPLIANCE_TEST):
        yield from _list_run_files(attempt)
    else:
        shown = kind in (Kind.SCORE, Kind.VERDICT)
        for path in sorted(p for p in attempt.output.rglob("*") if p.is_file()):
            yield KeptFile(path, path.relative_to(attempt.output).as_posix(), in_git=shown)
    if attempt.log.exists() and attempt.log.stat().st_size:
        yield KeptFile(attempt.log, CHILD_LOG)
    if attempt.service_log.exists():
        yield KeptFile(attempt.service_log, SERVICE_LOG)
    if attempt.telemetry.exists():
        yield KeptFile(attempt.telemetry, TELEMETRY_LOG)


def _list_session(attempt: Attempt, *, in_git: bool) -> Iterator[KeptFile]:
    if attempt.session.is_dir():
        for path in sorted(p for p in attempt.session.rglob("*") if p.is_file()):
            yield KeptFile(path, SESSION + path.relative_to(attempt.session).as_posix(), in_git=in_git)
        if attempt.power_check.exists():
            yield KeptFile(attempt.power_check, POWER_CHECK)


def _has_content(path: Path) -> bool:
    return path.is_file() and (status := path.stat()).st_size > 0 and not is_sparse(status)


def _list_run_files(attempt: Attempt) -> Iterator[KeptFile]:
    results, run = find_format(attempt.intent.settings), _make_run_files(attempt)
    yield from results.list_kept(run)
    for path in sorted(p for p in (attempt.output / OUTPUTS).rglob("*") if p.is_file()):
        yield KeptFile(path, path.relative_to(attempt.output).as_posix())
    take_launched_code(attempt.code, attempt.launched_code)
    for path in (attempt.code, attempt.requirements):
        if path.exists():
            yield KeptFile(path, path.name, in_git=True)
    yield from _list_session(attempt, in_git=True)
    if attempt.intent.address.kind is Kind.COMPLIANCE_TEST:
        yield KeptFile(attempt.audit_file, attempt.audit_file.name, in_git=True)
    yield from results.list_kept_answers(run)
