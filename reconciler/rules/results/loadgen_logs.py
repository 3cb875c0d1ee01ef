"""LoadGen's own logs, from this project's harness and from any command that drives LoadGen."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Context
from functools import cache
from pathlib import Path

from msgspec.structs import asdict, replace

from reconciler.errors import LogError, ReconcilerError
from reconciler.loadgen import keys
from reconciler.loadgen.answers import find_wrong_answers
from reconciler.loadgen.compare import Asked, find_conf_contradictions, find_contradictions
from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.inconsistency import CLOCK_KEPT
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_files import (
    ACCURACY_LOG,
    ACCURACY_TEXT,
    DETAIL,
    SUMMARY,
    TRUNCATED,
    split_answers,
    truncate_text,
)
from reconciler.loadgen.settings import (
    LOADGEN_MODE,
    RELEASES,
    find_setting,
    list_ruled,
    list_settings,
    select_conf_settings,
)
from reconciler.loadgen.summary import find_differing, parse_summary
from reconciler.loadgen.user_conf import parse_user_conf, select_audit_settings
from reconciler.loadgen.verdict import compute_efficiency, judge_accuracy, judge_performance
from reconciler.resource.canonical import show_decimal
from reconciler.resource.kinds import ACCURACY, PERFORMANCE
from reconciler.resource.quantities import parse_decimal
from reconciler.resource.records import LogFinding
from reconciler.resource.ruled_values import AccuracyLogRule
from reconciler.resource.settings import COMMAND
from reconciler.rules.accuracy import check_bars, find_impossible, parse_accuracy
from reconciler.rules.compliance.judging import find_test
from reconciler.rules.context import InferredMetric, RuleContext
from reconciler.rules.results.format import AttemptVerdict, Kept, KeptFile, Recheck, RecordValues, RunFiles, ShownFiles
from reconciler.storage.files import replace as write
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.storage.untrusted_files import describe_special, read_regular

NAME = "loadgen"
USER_CONF = "user.conf"
LEAVES = "LoadGen's logs"
DECLARE = "remove `harness: {results: …}`"
LOGS = "mlperf_log_*"
SCORES_ITSELF = False
TESTS_ITSELF = False
READS_CONF = True
NAMES_MODEL = False
TIES_ACCURACY = False
SCORED_BY = "the scorer wrote it"
SHOWN = ShownFiles(
    performance=(SUMMARY, DETAIL),
    accuracy=(SUMMARY, DETAIL),
    user_conf=USER_CONF,
    answers=ACCURACY_LOG,
    answers_shown=TRUNCATED,
    score=ACCURACY_TEXT,
)
JUDGED: tuple[str, ...] = (DETAIL, SUMMARY, USER_CONF, ACCURACY_LOG, TRUNCATED, ACCURACY_TEXT)
_RESOLUTION = 0.001  # seconds; LoadGen logs milliseconds
_SAMPLED = "audit.accuracy_log_sampling_target"


def is_shown(has: Callable[[str], bool]) -> bool:
    """Return True if either log exists, whatever other files the folder contains."""
    return has(f"performance/run_1/{DETAIL}") or has(f"accuracy/{DETAIL}")


def list_asked(mode: str, scenario: str, _: Container[str]) -> tuple[str, ...]:
    return _list_asked(mode, scenario)


@cache
def _list_asked(mode: str, scenario: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*list_settings(mode, scenario), *list_ruled(scenario))))


def judge_run(run: RunFiles) -> AttemptVerdict:
    for name in (SUMMARY, ACCURACY_LOG):
        if what := describe_special(run.output / name):
            problem = f"the run wrote no readable {name}: it is {what}"
            return AttemptVerdict({}, problem, "backend", "see what the command does")
    try:
        log = parse_detail(read_regular(run.output / DETAIL), DETAIL)
    except (OSError, ReconcilerError) as error:
        refuse_storage_error(error, run.output / DETAIL)
        problem = f"the run wrote no readable {DETAIL}: {error}{_describe_ending(run.reported)}"
        return AttemptVerdict({}, problem, "backend", "see the child's log")
    asked = collect_asked(run.inputs, run.mode)
    differing = [
        *map(str, find_contradictions(log, asked)),
        # Only a completed run has written all of its files.
        *(find_broken_files(run.output, log, answers=logs_answers(run.inputs, run.mode)) if log.complete else ()),
    ]
    if differing:
        ended = _describe_ending(run.reported) if run.by_command else ""
        problem = f"LoadGen did not run as requested; {DETAIL} shows: {'; '.join(differing)}{ended}"
        passes = f"that the command gives {{user_conf}} and the model name {run.inputs.get('model_key')} to FromConfig"
        checked = passes if run.by_command else "LoadGen's version and the round"
        fix = f"the logs are kept; {_explain_seeds(log.seeds, asked.seeds) or f'check {checked}'}, then run again"
        return AttemptVerdict({"contradictions": differing}, problem, "contradiction", fix)
    if run.mode == ACCURACY:
        return AttemptVerdict(run.reported)
    measured = {**run.reported, **measure_run(log, run.rules)}
    if power := run.reported.get("power"):
        found = compute_efficiency(log, measured["metric"], power["watts"])
        measured |= {"power": {**power, "efficiency": found}} if found else {}
    return AttemptVerdict(measured)


def _explain_seeds(logged: Mapping[str, int], asked: Mapping[str, int]) -> str:
    """Name the LoadGen of the requested round if the logged seeds belong to another round; else return ""."""
    from reconciler.rules.rounds import list_rounds, load_ruleset

    if logged == asked:
        return ""
    rounds = {tuple(load_ruleset(name).seeds().items()): name for name in list_rounds()}
    other, own = (rounds.get(tuple(seeds.items()), "") for seeds in (logged, asked))
    if not other or not own:
        return ""
    release = f", such as mlcommons-loadgen {RELEASES[own]}" if own in RELEASES else ""
    return f"its seeds are those of round {other}: install the LoadGen of round {own}{release} where the command runs"


def find_missing(kept: Kept) -> str:
    needed = DETAIL if kept.metrics is None else ACCURACY_TEXT
    return "" if needed in kept.files else needed


def judge_kept(kept: Kept) -> Iterator[LogFinding]:
    log = parse_detail(read_regular(kept.files[DETAIL]), DETAIL) if DETAIL in kept.files else None
    if kept.metrics is not None:
        text = read_regular(kept.files[ACCURACY_TEXT]).decode()
        report = parse_accuracy(text, kept.metrics)
        for item in find_impossible(text, report, _count_samples(log)):
            yield LogFinding("accuracy.impossible", f"{item.stated}{item.why}", ACCURACY_TEXT, item.line)
        return
    assert log is not None
    yield from _judge_log(log, rehearsal=kept.rehearsal)
    if SUMMARY in kept.files:
        yield from find_other_summary(kept.files[SUMMARY], log)
    if USER_CONF in kept.files and _may_differ(kept):
        yield from _judge_conf(read_regular(kept.files[USER_CONF]), kept.inputs, log)
    whole, short = kept.files.get(ACCURACY_LOG), kept.files.get(TRUNCATED)
    if whole is not None:
        with whole.open("rb") as stream:
            yield from (LogFinding("answers.differ", text, ACCURACY_LOG) for text in find_wrong_answers(stream, log))
    elif short is not None:
        lines, complete = split_answers(read_regular(short))
        found = find_wrong_answers(lines, log, whole=complete)
        yield from (LogFinding("answers.differ", text, ACCURACY_LOG) for text in found)
    if COMMAND in kept.inputs and not kept.imported:
        yield from find_excess_time(log, kept)
        yield from _judge_date(kept, log)
    if kept.clock_set:
        way = "forward" if kept.clock_set > 0 else "back"
        text = f"the machine's clock was set {way} by {abs(kept.clock_set):.6g} s during the run"
        yield LogFinding("run.clock", text, DETAIL, 0, CLOCK_KEPT)


def _judge_date(kept: Kept, log: DetailLog) -> Iterator[LogFinding]:
    """Yield a finding if a log is older than its attempt: either that machine's clock is slow, or the log is from an
    earlier run."""
    began = log.started
    if began is not None and kept.started:
        early = (datetime.fromisoformat(kept.started) - began).total_seconds()
        if early > _RESOLUTION and not kept.clock_set:
            text = f"LoadGen logged a start {early:.6g} s before that of the attempt"
            premise = "the clocks of both machines show the same time"
            yield LogFinding("run.dated-before", text, DETAIL, log.find_line_number(keys.POWER_BEGIN), premise)


def _judge_log(log: DetailLog, *, rehearsal: bool) -> Iterator[LogFinding]:
    # The dataset of a rehearsal may be smaller than the one for which a round defines sample counts.
    for item in find_inconsistencies(log, judge_library=not rehearsal):
        yield LogFinding(item.rule, str(item), DETAIL, item.line, item.premise)
    if log.mode == LOADGEN_MODE[ACCURACY]:  # LoadGen's verdict is only about performance runs
        verdict = judge_accuracy(log)
        for number, text in verdict.errors:
            yield LogFinding("log.errors", f"ERROR: {text}", DETAIL, number, lasting=verdict.lasting)


def _may_differ(kept: Kept) -> bool:
    """Return True if a command may have written its user.conf or changed the one it received. A test's setting takes
    precedence over the file."""
    given = COMMAND in kept.inputs and kept.inputs.get("mode") == PERFORMANCE and "test" not in kept.inputs
    return kept.inputs.get("harness.user_conf") == "harvested" or (given and not kept.imported)


def _judge_conf(data: bytes, inputs: Mapping[str, object], log: DetailLog) -> Iterator[LogFinding]:
    """Find differences between a user.conf that a command wrote and the settings that its run used."""
    key, scenario = str(inputs.get("model_key", "*")), str(inputs["scenario"])
    for text in find_conf_contradictions(data, log, key, scenario, select_audit_settings(inputs)):
        setting = find_setting(text.partition(":")[0], scenario)
        line = parse_user_conf(data).get_effective(key, scenario, setting.conf_key) if setting is not None else None
        yield LogFinding("user-conf.differs", text, USER_CONF, line.line if line is not None else 0)


def logs_answers(inputs: Container[str], mode: str) -> bool:
    """Return True if LoadGen writes a log of answers: in accuracy runs, and in tests that sample answers."""
    return mode == ACCURACY or _SAMPLED in inputs


def _describe_ending(reported: RecordValues) -> str:
    """Describe how a command ended. This proves nothing, but a failure is where to look first."""
    status = reported.get("exit_status")
    if not isinstance(status, int) or not status:
        return ""
    return f" (the command ended with {f'signal {-status}' if status < 0 else f'status {status}'})"


def collect_asked(values: Mapping[str, object], mode: str) -> Asked:
    """Collect the LoadGen settings that a run's identity inputs request; a compliance test's audit settings win."""
    scenario, audit = str(values["scenario"]), select_audit_settings(values)
    values = {**values, **audit}
    ruled = {n: values[n] for n in list_ruled(scenario) if find_setting(n, scenario) and values.get(n) is not None}
    seeds = {name: int(str(values[name])) for name in keys.SEEDS if values.get(name) is not None}
    settings = {**select_conf_settings(values, mode, scenario), **ruled}
    return Asked(scenario, mode, settings, seeds, audit=bool(audit), audited=audit, whole=True)


def find_asked_elsewhere(values: Mapping[str, object], mode: str) -> Asked:
    """Collect the settings that a run made elsewhere must match. No rule requires seeds, samples in memory or targets
    of an accuracy run, and there they often differ."""
    wanted = collect_asked(values, mode)
    if mode == PERFORMANCE:
        return wanted
    own = {name: value for name, value in wanted.settings.items() if name == keys.ACCURACY_SAMPLE_COUNT}
    return replace(wanted, seeds={}, settings=own)


def measure_run(log: DetailLog, rules: RuleContext) -> RecordValues:
    """Measure a performance run or a test. A run with a fixed number of queries may be too short for LoadGen, which
    does not matter."""
    measured = measure_performance(log, rules)
    if rules.performance_checked:
        return measured
    return {name: measured[name] for name in ("metric", keys.LOADGEN_VERSION)}


def measure_performance(log: DetailLog, rules: RuleContext) -> RecordValues:
    """Compute the values of a performance run for its record, from its log."""
    verdict = judge_performance(log, rules.metric)
    inferred = _derive_inferred(log, rules.inferred)
    return {
        "validity": verdict.word,
        "reasons": list(verdict.reasons),
        "metric": {"value": verdict.metric, "unit": verdict.unit} if verdict.metric else None,
        "margins": [asdict(margin) for margin in verdict.margins],
        "suggestion": asdict(verdict.suggestion) if verdict.suggestion else None,
        keys.LOADGEN_VERSION: log.version,
        **({"inferred": inferred} if inferred else {}),
        **({"lasting": True} if verdict.lasting else {}),
    }


_DIGITS = Context(prec=12)


def _derive_inferred(log: DetailLog, metrics: Iterable[InferredMetric]) -> RecordValues:
    """Derive the metrics by scenario. LoadGen writes 0, or nothing, if too few queries leave an estimate unknown."""
    known = ((item, parse_decimal(log.get(item.rule.key))) for item in metrics)
    return {
        item.rule.scenario: {"value": show_decimal(_DIGITS.plus(item.rule.derive(value))), "unit": item.unit}
        for item, value in known
        if value is not None and value > 0
    }


def judge_score(output: Path, _: Path, rules: RuleContext, reported: RecordValues) -> AttemptVerdict:
    try:
        text = read_regular(output / ACCURACY_TEXT).decode()
    except (OSError, ValueError) as error:
        refuse_storage_error(error, output / ACCURACY_TEXT)
        return _refuse_score(error)
    return judge_text(text, rules, reported)


def _refuse_score(error: Exception) -> AttemptVerdict:
    problem = f"the scorer wrote no readable accuracy.txt: {error}"
    return AttemptVerdict({}, problem, "backend", "see the child's log")


def _count_samples(log: DetailLog | None) -> int:
    """Return how many samples LoadGen requested according to the log of an accuracy run; 0 if it does not state
    this."""
    asked = log.get(keys.EFFECTIVE_ACCURACY_SAMPLE_COUNT) if log is not None else None
    return asked if isinstance(asked, int) else 0


def judge_text(text: str, rules: RuleContext, own: RecordValues) -> AttemptVerdict:
    """Compare accuracy.txt with the round's bars. ``own``: values that the record contains anyway."""
    try:
        report = parse_accuracy(text, [bar.metric for bar in rules.bars])
    except ValueError as error:
        return _refuse_score(error)
    checks = check_bars(report, list(rules.bars))
    silent = [check.bar.metric for check in checks if check.measured is None]
    if silent:
        fix = "the benchmark's score() must write the lines that the checker reads"
        return AttemptVerdict({}, f"accuracy.txt does not state {', '.join(silent)}", "backend", fix)
    first = checks[0] if checks else None
    values = dict(own)
    values["metric"] = {"value": str(first.measured), "unit": first.bar.metric} if first else None
    values["bars"] = [check.bar.describe(str(check.measured), met=check.met) for check in checks]
    values["accuracy_met"] = all(check.met for check in checks) or not rules.bars_bind
    return AttemptVerdict(values)


def list_kept(run: RunFiles) -> Iterator[KeptFile]:
    """List the kept files; the answers of an accuracy run, or of a test that samples any, come last."""
    yield KeptFile(run.user_conf, USER_CONF, in_git=True)
    for name in (SUMMARY, DETAIL):
        yield KeptFile(run.output / name, name, in_git=True)


def list_kept_answers(run: RunFiles) -> Iterator[KeptFile]:
    """Store the complete log in git if a verdict reads it and it is small enough, so that a clone of the repository can
    repeat the verdict."""
    log = run.output / ACCURACY_LOG
    if not (logs_answers(run.inputs, run.mode) and log.exists()):
        return
    tested = "test" in run.inputs and bool(find_test(str(run.inputs["test"])).reads_answers)
    short = run.scratch / TRUNCATED
    write(short, shorten_log(log, run.rules.accuracy_log))
    yield KeptFile(short, TRUNCATED, in_git=True)
    yield KeptFile(log, ACCURACY_LOG, in_git=run.rules.answers_compared or tested)


def shorten_log(log: Path, rule: AccuracyLogRule) -> bytes:
    """Return an accuracy log as published in the tree, without reading all of it."""
    size = log.stat().st_size
    with log.open("rb") as stream:
        head = stream.read(max(rule.keep, rule.whole_below) if size < rule.whole_below else rule.keep)
        stream.seek(max(0, size - rule.keep))
        tail = stream.read()
    return truncate_text(head, tail, size, rule)


def recheck_run(
    inputs: Mapping[str, object],
    files: Mapping[str, bytes],
    rules: RuleContext,
    *,
    timed: bool,
    foreign: bool,
    rehearsal: bool,
) -> Recheck:
    if DETAIL not in files:
        return Recheck(DETAIL, missing=(DETAIL,))
    mode = str(inputs["mode"])
    wanted = find_asked_elsewhere(inputs, mode) if foreign else collect_asked(inputs, mode)
    log = parse_detail(files[DETAIL], DETAIL)
    differing = [str(found) for found in find_contradictions(log, wanted)]
    # Beyond doubt, which what follows from a premise is not.
    differing += [item.text for item in _judge_log(log, rehearsal=rehearsal) if not item.premise]
    kept = files.get(ACCURACY_LOG, files.get(TRUNCATED))
    if kept is not None and log.complete:  # the log of answers in git, which is complete or consists of its two ends
        lines, whole = split_answers(kept)
        differing += find_wrong_answers(lines, log, whole=whole)
    return Recheck(
        DETAIL,
        differing=tuple(differing),
        shown=f"LoadGen's log shows every setting{', and the seeds' * bool(wanted.seeds)}",
        values=measure_performance(log, rules) if timed else {},
    )


def recheck_score(files: Mapping[str, bytes], run: Mapping[str, bytes], rules: RuleContext) -> Recheck:
    if ACCURACY_TEXT not in files:
        return Recheck(ACCURACY_TEXT, missing=(ACCURACY_TEXT,))
    text = files[ACCURACY_TEXT].decode(errors="replace")
    again = judge_text(text, rules, {})
    log = parse_detail(run[DETAIL], DETAIL) if DETAIL in run else None
    report = parse_accuracy(text, [bar.metric for bar in rules.bars]) if not again.problem else None
    if report and (wrong := [str(item) for item in find_impossible(text, report, _count_samples(log))]):
        return Recheck(ACCURACY_TEXT, problem=f"no scorer writes {'; '.join(wrong)}")
    return Recheck(ACCURACY_TEXT, values=again.values, problem=again.problem)


# Companions of a detail log: LoadGen writes one set, and a submission publishes all of it.

_SLACK = 1.0  # seconds by which the clocks of the log and the command may differ
_ENDS = 64  # bytes at each end of an accuracy log, including LoadGen's brackets
MEASURED = "the clock of its machine was not set, and is that by which the command was timed"


def find_broken_files(folder: Path, log: DetailLog, *, answers: bool) -> Iterator[str]:
    """Yield each file of a complete run that is missing from ``folder`` or ends early. ``answers``: includes a log of
    answers."""
    path = folder / SUMMARY
    if not path.is_file():
        yield f"summary: expected that of the run, but there is no {SUMMARY} next to {DETAIL}"
    else:
        summary = parse_summary(path.read_bytes())
        if summary.errors is None or (log.validity and not summary.validity):
            yield f"summary: expected that of the run, {SUMMARY} is {'cut short' if path.stat().st_size else 'empty'}"
    if answers:
        yield from find_broken_answers(folder / ACCURACY_LOG)


def find_other_summary(path: Path, log: DetailLog) -> Iterator[LogFinding]:
    """Find values that differ in the summary and the detail log, since ``PerformanceSummary::LogSummary`` and
    ``LogDetail`` (results.cc at v5.1.1) print the same ones."""
    summary = parse_summary(path.read_bytes())
    for reading in summary.list_readings(log):
        for name, key in find_differing(reading, log):
            where = f"{SUMMARY} says {reading.get(name)} (line {reading.find_line_number(name)})"
            text = f"summary: {name}: {where}, {DETAIL} {log.get(key)} (line {log.find_line_number(key)})"
            yield LogFinding("summary.differs", text, SUMMARY, reading.find_line_number(name))


def find_excess_time(log: DetailLog, kept: Kept) -> Iterator[LogFinding]:
    """Find a run that took longer than its command. This is only a doubt, since LoadGen may measure with a clock that
    was set forward. If the run also ended before the attempt started, it is a copy of an earlier run."""
    try:
        began, ended = log.started, log.ended
    except LogError:
        return
    logged = (ended - began).total_seconds() if began and ended else 0.0
    if ended and logged > kept.seconds + _SLACK:
        started = datetime.fromisoformat(kept.started) if kept.started else began
        earlier = started is not None and ended < started and not kept.clock_set
        line = log.find_line_number(keys.POWER_END)
        where = f"LoadGen logged {logged:.6g} s (line {line})"
        text = f"duration: expected a run within the {kept.seconds:.6g} s of the command, {where}"
        text += f", and its end before the start of the attempt, {kept.started}" if earlier else ""
        yield LogFinding("run.duration", text, DETAIL, line, "" if earlier else MEASURED)


def find_broken_answers(path: Path) -> Iterator[str]:
    if not path.is_file():
        yield f"answers: expected those of the run, but there is no {ACCURACY_LOG} with {DETAIL}"
        return
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(_ENDS)
        stream.seek(max(0, size - _ENDS))
        tail = stream.read()
    if not (head.lstrip().startswith(b"[") and tail.rstrip().endswith(b"]")):
        yield f"answers: expected those of the run, {ACCURACY_LOG} is {'cut short' if size else 'empty'}"
