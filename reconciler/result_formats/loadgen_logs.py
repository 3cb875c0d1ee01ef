"""LoadGen's own logs: what our harness leaves, and every command that drives LoadGen."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from decimal import Context, Decimal
from functools import cache
from pathlib import Path

from msgspec.structs import asdict, replace

from harness.catalog import CLOCK_SET
from reconciler.errors import ReconcilerError
from reconciler.files import replace as write
from reconciler.foreign import describe_strange, read_regular
from reconciler.mlperf.accuracy import check_bars, find_impossible, parse_accuracy
from reconciler.mlperf.compliance.judging import find_test
from reconciler.mlperf.loadgen.answers import count_answered, find_wrong_answers
from reconciler.mlperf.loadgen.compare import Asked, find_conf_contradictions, find_contradictions
from reconciler.mlperf.loadgen.consistency import find_inconsistencies
from reconciler.mlperf.loadgen.efficiency import compute_efficiency
from reconciler.mlperf.loadgen.inconsistency import Inconsistency
from reconciler.mlperf.loadgen.log import DetailLog, parse_detail
from reconciler.mlperf.loadgen.settings import SEEDS, find_setting, list_ruled, list_settings, select_conf_settings
from reconciler.mlperf.loadgen.user_conf import audit_settings
from reconciler.mlperf.loadgen.verdict import judge_accuracy, judge_performance
from reconciler.mlperf.log_files import (
    ACCURACY_LOG,
    ACCURACY_TEXT,
    DETAIL,
    SUMMARY,
    TRUNCATED,
    split_answers,
    truncate_text,
)
from reconciler.mlperf.rules.context import InferredMetric, RuleContext
from reconciler.mlperf.rules.values import AccuracyLogRule
from reconciler.quantities import parse_decimal
from reconciler.resource.canonical import show_decimal
from reconciler.resource.kinds import ACCURACY, PERFORMANCE
from reconciler.result_formats.clocks import judge_dates, judge_speeds
from reconciler.result_formats.format import KeptFile, Recheck, RecordValues, RunFiles, ShownFiles, Verdict
from reconciler.result_formats.log_set import find_excess_time, find_foreign_files
from reconciler.storage_errors import refuse_storage_error

NAME = "loadgen"
LEAVES = "LoadGen's logs"
DECLARE = "take `harness: {results: …}` out"
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
    user_conf="user.conf",
    answers=ACCURACY_LOG,
    answers_shown=TRUNCATED,
    score=ACCURACY_TEXT,
)
_SAMPLED = "audit.accuracy_log_sampling_target"


def is_shown(has: Callable[[str], bool]) -> bool:
    """By either log alone: what else the folder has is then an addition."""
    return has(f"performance/run_1/{DETAIL}") or has(f"accuracy/{DETAIL}")


def list_asked(mode: str, scenario: str, _: Container[str]) -> tuple[str, ...]:
    return _list_asked(mode, scenario)


@cache
def _list_asked(mode: str, scenario: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*list_settings(mode, scenario), *list_ruled(scenario))))


def judge_run(run: RunFiles) -> Verdict:
    for name in (SUMMARY, ACCURACY_LOG):
        if what := describe_strange(run.output / name):
            return Verdict({}, f"the run left no readable {name}: it is {what}", "backend", "see what the command does")
    try:
        log = parse_detail(read_regular(run.output / DETAIL), DETAIL)
    except (OSError, ReconcilerError) as error:
        refuse_storage_error(error, run.output / DETAIL)
        problem = f"the run left no readable {DETAIL}: {error}{_ending(run.said)}"
        return Verdict({}, problem, "backend", "see the child's log")
    own = find_own_contradictions(log, rehearsal=run.rehearsal)
    late = list(find_excess_time(log, run.seconds)) if run.by_command else []
    others = [
        *map(str, find_contradictions(log, collect_asked(run.inputs, run.mode))),
        *_conf_contradictions(run, log),
        # Only a run that ended has left all of its files.
        *(find_foreign_files(run.output, log, answers=_logs_answers(run)) if log.complete else ()),
    ]
    differing = [*others, *map(str, own), *late]
    if differing and not others and all(item.dated for item in own):
        return judge_dates(log, differing, float(run.said.get(CLOCK_SET, 0)))
    if differing:
        ended = _ending(run.said) if run.by_command else ""
        problem = f"LoadGen did not run what was asked for: {'; '.join(differing)}{ended}"
        checked = "what the command does" if run.by_command else "LoadGen's version and the round"
        fix = f"the logs are kept; check {checked}, then run again"
        return Verdict({"contradictions": differing}, problem, "contradiction", fix)
    if log.complete and (apart := judge_speeds(log)):
        return apart
    if run.mode == ACCURACY:
        problem = "; ".join(judge_accuracy(log).reasons)
        return Verdict(run.said, problem, "backend" if problem else "", "see the child's log" if problem else "")
    measured = measure_performance(log, run.rules)
    if not run.rules.performance_checked:
        # A test that ends after a fixed number of queries may be too short for LoadGen, and nobody asks.
        measured = {name: measured[name] for name in ("metric", "loadgen_version")}
    return Verdict({**run.said, **measured, **_add_efficiency(run.said, log, measured)})


def _add_efficiency(said: RecordValues, log: DetailLog, measured: RecordValues) -> RecordValues:
    """To what the child says of the power of its run."""
    power = said.get("power")
    if not power:
        return {}
    found = compute_efficiency(log, measured["metric"], power["watts"])
    return {"power": {**power, "efficiency": found}} if found else {}


def find_denials(log: DetailLog, asked: Asked, *, rehearsal: bool) -> list[str]:
    """Where a log is not of the run that was asked for, and where it contradicts itself."""
    own = find_own_contradictions(log, rehearsal=rehearsal)
    return [*map(str, find_contradictions(log, asked)), *map(str, own)]


def find_own_contradictions(log: DetailLog, *, rehearsal: bool) -> tuple[Inconsistency, ...]:
    # The dataset of a rehearsal may be smaller than the one for which a round sets the counts of samples.
    return find_inconsistencies(log, judge_library=not rehearsal)


def _logs_answers(run: RunFiles) -> bool:
    """Whether LoadGen leaves a log of answers: that of an accuracy run, or of a test that samples them."""
    return run.mode == ACCURACY or _SAMPLED in run.inputs


def _ending(said: RecordValues) -> str:
    """How a command ended: no proof of anything, but where it failed the first thing to look at."""
    status = said.get("exit_status")
    if not isinstance(status, int) or not status:
        return ""
    return f" (the command ended with {f'signal {-status}' if status < 0 else f'status {status}'})"


def _conf_contradictions(run: RunFiles, log: DetailLog) -> list[str]:
    """A user.conf that a command wrote itself must be the one its run was made with."""
    if not run.own_conf:
        return []
    key, scenario = str(run.inputs.get("model_key", "*")), str(run.inputs["scenario"])
    overridden = audit_settings(run.inputs)
    found = find_conf_contradictions(read_regular(run.user_conf), log, key, scenario, overridden)
    return [f"user.conf: {item}" for item in found]


def collect_asked(values: Mapping[str, object], mode: str) -> Asked:
    """What a run's identity inputs ask of LoadGen; a compliance test's audit settings win."""
    scenario, audit = str(values["scenario"]), audit_settings(values)
    values = {**values, **audit}
    ruled = {n: values[n] for n in list_ruled(scenario) if find_setting(n, scenario) and values.get(n) is not None}
    seeds = {name: int(str(values[name])) for name in SEEDS if values.get(name) is not None}
    settings = {**select_conf_settings(values, mode, scenario), **ruled}
    return Asked(scenario, mode, settings, seeds, audit=bool(audit), audited=audit, whole=True)


def find_asked_elsewhere(values: Mapping[str, object], mode: str) -> Asked:
    """Of an accuracy run no rule asks for seeds, samples in memory or targets, and elsewhere they often differ."""
    wanted = collect_asked(values, mode)
    if mode == PERFORMANCE:
        return wanted
    own = {name: value for name, value in wanted.settings.items() if name == "accuracy_sample_count"}
    return replace(wanted, seeds={}, settings=own)


def measure_performance(log: DetailLog, rules: RuleContext) -> RecordValues:
    """What a performance run's record says of its log."""
    verdict = judge_performance(log, rules.metric)
    inferred = _derive_inferred(log, rules.inferred)
    return {
        "validity": verdict.word,
        "reasons": list(verdict.reasons),
        "metric": {"value": verdict.metric, "unit": verdict.unit} if verdict.metric else None,
        "margins": [asdict(margin) for margin in verdict.margins],
        "suggestion": asdict(verdict.suggestion) if verdict.suggestion else None,
        "loadgen_version": log.version,
        **({"inferred": inferred} if inferred else {}),
        **({"lasting": True} if verdict.lasting else {}),
    }


_DIGITS = Context(prec=12)


def _derive_inferred(log: DetailLog, metrics: Iterable[InferredMetric]) -> RecordValues:
    """By scenario. LoadGen writes 0, or nothing, where too few queries leave an estimate unknown."""
    known = ((item, parse_decimal(log.get(item.rule.key))) for item in metrics)
    return {
        item.rule.scenario: {"value": show_decimal(_DIGITS.plus(item.rule.derive(value))), "unit": item.unit}
        for item, value in known
        if value is not None and value > 0
    }


def judge_score(output: Path, run: Path, rules: RuleContext, said: RecordValues) -> Verdict:
    try:
        text = read_regular(output / ACCURACY_TEXT).decode()
    except (OSError, ValueError) as error:
        refuse_storage_error(error, output / ACCURACY_TEXT)
        return Verdict({}, f"the scorer left no readable accuracy.txt: {error}", "backend", "see the child's log")
    return judge_text(text, rules, said, _count_answered(run / ACCURACY_LOG))


def _count_answered(log: Path) -> int:
    """Of the accuracy run that is scored; 0 where its whole log is not here."""
    if not log.is_file():
        return 0
    with log.open("rb") as stream:
        return count_answered(stream)


def _count_asked(run: Mapping[str, bytes]) -> int:
    """How many samples the log of a recorded accuracy run says that it asked for; 0 where it does not say so."""
    log = parse_detail(run[DETAIL], DETAIL) if DETAIL in run else None
    asked = log.get("effective_accuracy_sample_count") if log is not None else None
    return asked if isinstance(asked, int) else 0


def judge_text(text: str, rules: RuleContext, own: RecordValues, samples: int = 0) -> Verdict:
    """accuracy.txt against the round's bars. ``own``: values that the record has anyway; ``samples``: how many the
    scored run answered, 0 where that is not known."""
    try:
        report = parse_accuracy(text, [bar.metric for bar in rules.bars])
    except ValueError as error:
        return Verdict({}, f"the scorer left no readable accuracy.txt: {error}", "backend", "see the child's log")
    if wrong := [str(item) for item in find_impossible(text, report, samples)]:
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


def list_kept(run: RunFiles) -> Iterator[KeptFile]:
    """The answers last, of an accuracy run and of a test that samples any."""
    yield KeptFile(run.user_conf, "user.conf", in_git=True)
    for name in (SUMMARY, DETAIL):
        yield KeptFile(run.output / name, name, in_git=True)


def list_kept_answers(run: RunFiles) -> Iterator[KeptFile]:
    """The log goes whole into git where a verdict reads it and it is small enough: whoever has the repository can take
    the verdict again."""
    log = run.output / ACCURACY_LOG
    if not (_logs_answers(run) and log.exists()):
        return
    tested = "test" in run.inputs and bool(find_test(str(run.inputs["test"])).reads_answers)
    short = run.scratch / TRUNCATED
    write(short, shorten_log(log, run.rules.accuracy_log))
    yield KeptFile(short, TRUNCATED, in_git=True)
    yield KeptFile(log, ACCURACY_LOG, in_git=run.rules.answers_compared or tested)


def shorten_log(log: Path, rule: AccuracyLogRule) -> bytes:
    """An accuracy log as the tree shows it, without reading all of it."""
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
    return Recheck(
        DETAIL,
        differing=(*find_denials(log, wanted, rehearsal=rehearsal), *_find_wrong_answers(files, log)),
        shown=f"LoadGen's log shows every setting{', and the seeds' * bool(wanted.seeds)}",
        values=measure_performance(log, rules) if timed else {},
    )


def _find_wrong_answers(files: Mapping[str, bytes], log: DetailLog) -> Iterator[str]:
    """Of the log of answers as it is in git: whole, or its two ends."""
    kept = files.get(ACCURACY_LOG, files.get(TRUNCATED))
    if kept is not None and log.complete:
        lines, whole = split_answers(kept)
        yield from find_wrong_answers(lines, log, whole=whole)


def recheck_score(files: Mapping[str, bytes], run: Mapping[str, bytes], rules: RuleContext) -> Recheck:
    if ACCURACY_TEXT not in files:
        return Recheck(ACCURACY_TEXT, missing=(ACCURACY_TEXT,))
    again = judge_text(files[ACCURACY_TEXT].decode(errors="replace"), rules, {}, _count_asked(run))
    return Recheck(ACCURACY_TEXT, values=again.values, problem=again.problem)
