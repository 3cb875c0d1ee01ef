"""Turns an attempt that has a result into its record. Everything comes from the attempt's folder: no clock, no
spec, so that the pass that started it and a later one that harvests it write the same bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from harness.contract import Result
from reconciler.errors import ReconcilerError
from reconciler.execute.attempt import Attempt
from reconciler.execute.commands import has_command
from reconciler.execute.log_set import find_excess_time, find_foreign_files
from reconciler.execute.results import (
    find_result_contradictions,
    has_results,
    list_result_files,
    measure_results,
    read_left,
    score_results,
)
from reconciler.files import hash_file, replace
from reconciler.mlperf.accuracy import check_bars, find_impossible, parse_accuracy
from reconciler.mlperf.compliance.judging import find_test
from reconciler.mlperf.loadgen.answers import count_answered
from reconciler.mlperf.loadgen.compare import Asked, find_conf_contradictions, find_contradictions
from reconciler.mlperf.loadgen.consistency import find_inconsistencies
from reconciler.mlperf.loadgen.log import DetailLog, parse_detail
from reconciler.mlperf.loadgen.settings import list_ruled, select_conf_settings
from reconciler.mlperf.loadgen.user_conf import audit_settings
from reconciler.mlperf.loadgen.verdict import judge_accuracy, judge_performance
from reconciler.mlperf.log_files import (
    ACCURACY_LOG,
    ACCURACY_RESULTS,
    ACCURACY_TEXT,
    DETAIL,
    SUMMARY,
    TRUNCATED,
    truncate_text,
)
from reconciler.mlperf.rules.context import RuleContext
from reconciler.mlperf.rules.values import AccuracyLogRule, Metric
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Kind
from reconciler.resource.records import (
    CHILD_LOG,
    LOG_LIMIT,
    SERVICE_LOG,
    Artifact,
    Ended,
    Record,
    RecordedFact,
    RecordedInput,
)

OUTPUTS = "outputs"  # folder of what a harness command left beside its logs
SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file to keep: ``in_git`` when the tree needs it."""

    path: Path
    name: str
    in_git: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an attempt came to. ``problem`` not empty: it failed, whatever its child said."""

    values: dict[str, Any]
    problem: str = ""
    problem_class: str = ""
    fix: str = ""


def build_record(attempt: Attempt) -> tuple[Record, tuple[KeptFile, ...]]:
    """The record of an attempt, and the files to store before the record is written (artifacts name them by digest)."""
    result = Result.read(attempt.result)
    verdict = _judge(attempt, result) if result.done else _failed(result)
    kept = tuple(_kept(attempt, failed=bool(verdict.problem)))
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
        | _made_from(attempt)
        | intent.machine.facts(),
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
    """A log too large for git is in the store alone, and its record says so."""
    size = item.path.stat().st_size
    place = "logs" if item.in_git and size <= LOG_LIMIT else "objects"
    name = os.fsencode(item.name).decode(errors="backslashreplace")  # a file system takes any bytes, a record text
    return Artifact(name, hash_file(item.path), size, place)


def _made_from(attempt: Attempt) -> dict[str, RecordedFact]:
    """The bytes that a run really used are evidence: runs of one cell must have used the same engine."""
    return {name: RecordedFact(sha256, Role.EVIDENCE) for name, sha256 in attempt.intent.made_from.items()}


def _failed(result: Result) -> Verdict:
    values = {"log": result.values["log"]} if "log" in result.values else {}
    return Verdict(values, result.problem or "the child gave no reason", result.problem_class or "crash", result.fix)


def _judge(attempt: Attempt, result: Result) -> Verdict:
    kind = attempt.intent.address.kind
    if kind in (Kind.RUN, Kind.COMPLIANCE_TEST):
        return _judge_run(attempt, result)
    if kind is Kind.SCORE:
        return _judge_score(attempt, result)
    return Verdict({name: value for name, value in result.values.items() if name != "marks"})


def _judge_run(attempt: Attempt, result: Result) -> Verdict:
    """Exit status is never trusted: the LoadGen log decides what ran, and whether it is what was asked."""
    values = {name: value for name, (value, _) in attempt.intent.inputs.items()}
    mode = str(values["mode"])
    if has_results(attempt.intent.settings):
        return _judge_results(attempt, result, values)
    try:
        log = parse_detail((attempt.output / DETAIL).read_bytes(), DETAIL)
    except (OSError, ReconcilerError) as error:
        return Verdict(
            {}, f"the run left no readable {DETAIL}: {error}{_ending(result)}", "backend", "see the child's log"
        )
    differing = [
        *map(str, find_contradictions(log, collect_asked(values, mode))),
        *map(str, find_inconsistencies(log)),
        *_conf_contradictions(attempt, log, values),
        *(find_excess_time(log, result.seconds) if has_command(attempt) else ()),
        # Only a run that ended has left all of its files.
        *(find_foreign_files(attempt.output, log, answers=_logs_answers(attempt)) if log.complete else ()),
    ]
    if differing:
        ended = _ending(result) if has_command(attempt) else ""
        problem = f"LoadGen did not run what was asked for: {'; '.join(differing)}{ended}"
        checked = "what the command does" if has_command(attempt) else "LoadGen's version and the round"
        fix = f"the logs are kept; check {checked}, then run again"
        return Verdict({"contradictions": differing}, problem, "contradiction", fix)
    kept = {name: value for name, value in result.values.items() if name != "marks"}
    if mode == "accuracy":
        judged = judge_accuracy(log)
        problem = "; ".join(judged.reasons)
        fix = "see the child's log" if problem else ""
        return Verdict(kept, problem, "backend" if problem else "", fix)
    measured = measure_performance(log, attempt.intent.ruling.metric)
    if not attempt.intent.ruling.performance_checked:
        # A test that ends after a fixed number of queries may be too short for LoadGen, and nobody asks.
        measured = {name: measured[name] for name in ("metric", "loadgen_version")}
    return Verdict({**kept, **measured})


def _logs_answers(attempt: Attempt) -> bool:
    """Whether LoadGen leaves a log of answers: that of an accuracy run, or of a test that samples them."""
    inputs = attempt.intent.inputs
    return inputs["mode"][0] == "accuracy" or "audit.accuracy_log_sampling_target" in inputs


def _ending(result: Result) -> str:
    """How a command ended: no proof of anything, but where it failed the first thing to look at."""
    status = result.values.get("exit_status")
    if not isinstance(status, int) or not status:
        return ""
    return f" (the command ended with {f'signal {-status}' if status < 0 else f'status {status}'})"


def _judge_results(attempt: Attempt, result: Result, values: Mapping[str, Any]) -> Verdict:
    """The same for results of the endpoints harness."""
    try:
        left = read_left(attempt.output)
    except ValueError as error:
        return Verdict({}, f"the run left no readable results: {error}", "backend", "see the command's log")
    differing = find_result_contradictions(left, values, result.seconds)
    if differing:
        problem = f"the endpoints harness did not run what was asked for: {'; '.join(differing)}"
        fix = "the results are kept; check the command and its configuration, then run again"
        return Verdict({"contradictions": differing}, problem, "contradiction", fix)
    kept = {name: value for name, value in result.values.items() if name != "marks"}
    if values["mode"] == "accuracy":
        return Verdict(kept)
    return Verdict({**kept, **measure_results(left, attempt.intent.ruling, int(values.get("min_duration") or 0))})


def _conf_contradictions(attempt: Attempt, log: DetailLog, values: Mapping[str, Any]) -> list[str]:
    """A user.conf that a command wrote itself must be the one its run was made with."""
    if attempt.intent.settings.text("harness.user_conf") != "harvested":
        return []
    key, scenario = str(values.get("model_key", "*")), str(values["scenario"])
    found = find_conf_contradictions(attempt.user_conf.read_bytes(), log, key, scenario)
    return [f"user.conf: {item}" for item in found]


def collect_asked(values: Mapping[str, Any], mode: str) -> Asked:
    """What a run's identity inputs ask of LoadGen; a compliance test's audit settings win."""
    scenario, audit = str(values["scenario"]), audit_settings(values)
    values = {**values, **audit}
    names = ("target_latency_percentile", "samples_per_query", "sample_concatenate_permutation", "use_token_latencies")
    ruled = {n: values[n] for n in list_ruled(scenario) if n in names and values.get(n) is not None}
    seeds = {name: int(values[name]) for name in SEEDS if values.get(name) is not None}
    settings = {**select_conf_settings(values, mode, scenario), **ruled}
    return Asked(scenario, mode, settings, seeds, audit=bool(audit), audited=audit, whole=True)


def measure_performance(log: DetailLog, metric: Metric) -> dict[str, Any]:
    """What a performance run's record says of its log."""
    verdict = judge_performance(log, metric)
    return {
        "validity": verdict.word,
        "reasons": list(verdict.reasons),
        "metric": {"value": verdict.metric, "unit": verdict.unit} if verdict.metric else None,
        "margins": [asdict(margin) for margin in verdict.margins],
        "suggestion": asdict(verdict.suggestion) if verdict.suggestion else None,
        "loadgen_version": log.version,
    }


def _judge_score(attempt: Attempt, result: Result) -> Verdict:
    if has_results(attempt.intent.settings):
        try:
            return Verdict(score_results(read_left(attempt.inputs / "run"), attempt.intent.ruling))
        except ValueError as error:
            return Verdict({}, f"{ACCURACY_RESULTS} is not a score: {error}", "backend", "repeat the accuracy run")
    try:
        text = (attempt.output / ACCURACY_TEXT).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        return Verdict({}, f"the scorer left no readable accuracy.txt: {error}", "backend", "see the child's log")
    own = {name: value for name, value in result.values.items() if name != "marks"}
    return judge_text(text, attempt.intent.ruling, own, _count_answered(attempt))


def _count_answered(attempt: Attempt) -> int:
    """Of the accuracy run that is scored; 0 where its whole log is not here."""
    log = attempt.inputs / "run" / ACCURACY_LOG
    if not log.is_file():
        return 0
    with log.open("rb") as stream:
        return count_answered(stream)


def judge_text(text: str, rules: RuleContext, own: Mapping[str, Any], samples: int = 0) -> Verdict:
    """accuracy.txt against the round's bars. ``own``: values that the record has anyway; ``samples``: how many the
    scored run answered, 0 where that is not known."""
    try:
        report = parse_accuracy(text, [bar.metric for bar in rules.bars])
    except ValueError as error:
        return Verdict({}, f"the scorer left no readable accuracy.txt: {error}", "backend", "see the child's log")
    if wrong := list(find_impossible(text, report, samples)):
        fix = "no scorer can have found that: see what wrote the file"
        return Verdict({"contradictions": wrong}, f"accuracy.txt cannot be: {'; '.join(wrong)}", "contradiction", fix)
    checks = check_bars(report, list(rules.bars))
    silent = [check.bar.metric for check in checks if check.measured is None]
    if silent:
        fix = "the benchmark's score() must write the lines that the checker reads"
        return Verdict({}, f"accuracy.txt does not state {', '.join(silent)}", "backend", fix)
    first = checks[0] if checks else None
    values = dict(own)
    values["metric"] = {"value": str(first.measured), "unit": first.bar.metric} if first else None
    values["bars"] = [
        {
            "metric": check.bar.metric,
            "measured": str(check.measured),
            "least": _text(check.bar.least),
            "most": _text(check.bar.most),
            "met": check.met,
        }
        for check in checks
    ]
    values["accuracy_met"] = all(check.met for check in checks) or not rules.bars_bind
    return Verdict(values)


def _text(value: Decimal | None) -> str | None:
    return None if value is None else str(value)


def _kept(attempt: Attempt, *, failed: bool) -> Iterator[KeptFile]:
    kind = attempt.intent.address.kind
    if failed:
        pattern = "*" if has_results(attempt.intent.settings) else "mlperf_log_*"
        logs = sorted(path for path in attempt.output.rglob(pattern) if path.is_file() and path.stat().st_size)
        yield from (KeptFile(path, path.relative_to(attempt.output).as_posix()) for path in logs)
        yield from (KeptFile(p, p.name) for p in (attempt.user_conf,) if p.exists() and logs and has_command(attempt))
        yield from (KeptFile(p, p.name) for p in (attempt.log, attempt.service_log) if p.exists())
        return
    if kind is Kind.RUN:
        yield from _kept_of_run(attempt)
    elif kind is Kind.COMPLIANCE_TEST:
        yield from _kept_of_test(attempt)
    else:
        shown = kind in (Kind.SCORE, Kind.VERDICT)
        for path in sorted(p for p in attempt.output.rglob("*") if p.is_file()):
            yield KeptFile(path, path.relative_to(attempt.output).as_posix(), in_git=shown)
    if attempt.log.exists() and attempt.log.stat().st_size:
        yield KeptFile(attempt.log, CHILD_LOG)
    if attempt.service_log.exists():
        yield KeptFile(attempt.service_log, SERVICE_LOG)


def _kept_of_run(attempt: Attempt) -> Iterator[KeptFile]:
    mode = attempt.intent.inputs["mode"][0]
    if has_results(attempt.intent.settings):
        for path in list_result_files(attempt.output, mode):
            yield KeptFile(path, path.relative_to(attempt.output).as_posix(), in_git=True)
    else:
        yield KeptFile(attempt.user_conf, "user.conf", in_git=True)
        for name in (SUMMARY, DETAIL):
            yield KeptFile(attempt.output / name, name, in_git=True)
    for path in sorted(p for p in (attempt.output / OUTPUTS).rglob("*") if p.is_file()):
        yield KeptFile(path, path.relative_to(attempt.output).as_posix())
    if mode == "accuracy":
        yield from _kept_answers(attempt, whole=attempt.intent.ruling.answers_compared)


def _kept_of_test(attempt: Attempt) -> Iterator[KeptFile]:
    """As a run, with the audit settings; the answers where the settings sample any."""
    yield from _kept_of_run(attempt)
    yield KeptFile(attempt.audit_settings, attempt.audit_settings.name, in_git=True)
    if "audit.accuracy_log_sampling_target" in attempt.intent.inputs:
        yield from _kept_answers(attempt, whole=bool(find_test(str(attempt.intent.inputs["test"][0])).reads_answers))


def _kept_answers(attempt: Attempt, *, whole: bool = False) -> Iterator[KeptFile]:
    """``whole``: a verdict reads the log, so that it goes into git where it is small enough: whoever has the repository
    can take the verdict again."""
    log = attempt.output / ACCURACY_LOG
    if not log.exists():
        return
    short = attempt.folder / TRUNCATED
    replace(short, shorten_log(log, attempt.intent.ruling.accuracy_log))
    yield KeptFile(short, TRUNCATED, in_git=True)
    yield KeptFile(log, ACCURACY_LOG, in_git=whole)


def shorten_log(log: Path, rule: AccuracyLogRule) -> bytes:
    """An accuracy log as the tree shows it, without reading all of it."""
    size = log.stat().st_size
    with log.open("rb") as stream:
        head = stream.read(max(rule.keep, rule.whole_below) if size < rule.whole_below else rule.keep)
        stream.seek(max(0, size - rule.keep))
        tail = stream.read()
    return truncate_text(head, tail, size, rule)
