"""Results of the official Endpoints client: a performance or accuracy run of one point of a curve."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.endpoints.results.accuracy import judge_accuracy_scores, read_sample_count, show_plain
from reconciler.endpoints.results.audits import CACHING
from reconciler.endpoints.results.client import find_config_differences, find_place_differences, list_client_settings
from reconciler.endpoints.results.harness_format import (
    AUDIT,
    find_excess_time,
    find_wrong_results,
    is_timed,
    keep_files,
    parse_audits,
    read_files,
    read_summary,
)
from reconciler.endpoints.results.harness_format import find_missing as find_missing
from reconciler.endpoints.results.harness_format import list_kept_answers as list_kept_answers
from reconciler.endpoints.rules.curve_rules import load_endpoints_rules
from reconciler.endpoints.rules.event_log import LoggedRun, find_wrong_summary, parse_events
from reconciler.endpoints.rules.judge import PointFinding, find_differences, judge_agentic, judge_logged, judge_point
from reconciler.endpoints.rules.point import AGENTIC_PATTERN, OFFLINE_PATTERN, MeasuredPoint
from reconciler.endpoints.rules.regions import compute_regions
from reconciler.endpoints.rules.results import UnreadablePointError, parse_point, parse_scores
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import ACCURACY_RESULTS, CONFIG, RESULT_SUMMARY
from reconciler.loadgen.settings import read_min_duration
from reconciler.resource.kinds import ACCURACY, PERFORMANCE
from reconciler.resource.quantities import parse_decimal, parse_number
from reconciler.resource.records import LogFinding
from reconciler.resource.ruled_values import Bar
from reconciler.resource.rules import Severity
from reconciler.resource.settings import AGENTIC, DEDICATED_OFFLINE
from reconciler.rules.context import RuleContext
from reconciler.rules.results.format import AttemptVerdict, Kept, KeptFile, Recheck, RecordValues, RunFiles, ShownFiles
from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.storage.untrusted_files import open_regular, read_regular

NAME = "points"
LEAVES = "results of the official Endpoints client"
DECLARE = "write `program: endpoints` in spec"
LOGS = "*"
SCORES_ITSELF = True
TESTS_ITSELF = True
READS_CONF = False
NAMES_MODEL = True
SCORED_BY = "the client scored it"
TIES_ACCURACY = True
SHOWN = ShownFiles(performance=(RESULT_SUMMARY,), accuracy=(ACCURACY_RESULTS,), configuration=CONFIG)
EVENTS = "outputs/events.jsonl"  # every request of a run, as logged by the client
JUDGED: tuple[str, ...] = (CONFIG, RESULT_SUMMARY, ACCURACY_RESULTS, EVENTS, f"{AUDIT}/*")
_MILLISECONDS = 1000


def is_shown(_: Callable[[str], bool]) -> bool:
    """Return True for a point. Points have a separate tree instead of scenario folders."""
    return False


def list_asked(mode: str, _: str, declared: Container[str]) -> tuple[str, ...]:
    return list_client_settings(mode, declared if isinstance(declared, Iterable) else ())


def judge_run(run: RunFiles) -> AttemptVerdict:
    try:
        return _judge(read_files(run.output), run)
    except OSError as error:
        refuse_storage_error(error, run.output)
        return AttemptVerdict({}, f"the results cannot be read: {error}", "backend", "see the client's log")
    except (UnreadablePointError, ValueError, RecursionError) as error:
        return AttemptVerdict({}, f"the run wrote no readable results: {error}", "backend", "see the client's log")


def _judge(files: Mapping[str, bytes], run: RunFiles) -> AttemptVerdict:
    differing = [*find_other_point(files, run.inputs), *_find_moved(files, run.user_conf)]
    if differing:
        problem = f"the client did not run what was asked for: {'; '.join(differing)}"
        fix = "the results are kept; check the client and its version, then run again"
        return AttemptVerdict({"contradictions": differing}, problem, "contradiction", fix)
    if run.mode != PERFORMANCE:
        return AttemptVerdict(run.reported)
    logged, point = _read_events(run.output / EVENTS), _parse(files, run.inputs)
    found = [*_find_all_shortcomings(files, point, run.inputs, rehearsal=run.rehearsal)]
    size, least = _read_size_and_seconds(run.inputs)
    found += judge_logged(logged, point, load_endpoints_rules(), dataset_size=size, least_seconds=least)
    return AttemptVerdict({**run.reported, **_describe_run(point, found)})


def _find_moved(files: Mapping[str, bytes], earlier: Path) -> Iterator[str]:
    """Find results that were copied from another run: the client records its own folder."""
    if earlier.is_file():
        yield from find_place_differences(_parse_config(files), parse_json_object(read_regular(earlier)))


def _read_events(path: Path) -> LoggedRun:
    """Raises ValueError if the client wrote no events."""
    try:
        with open_regular(path) as lines:
            return parse_events(lines)
    except FileNotFoundError:
        raise ValueError(f"there is no {path.name}, which lists every request of the run") from None


def _parse(files: Mapping[str, bytes], inputs: Mapping[str, object]) -> MeasuredPoint:
    """Parse a point. The concurrency of a dedicated Offline run is the size of its dataset, which only the request
    states."""
    own = (CONFIG, RESULT_SUMMARY, *([ACCURACY_RESULTS] if inputs.get(AGENTIC) else []))
    chosen = {name: data for name, data in files.items() if name in own}
    return parse_point(chosen, int(str(inputs["point.concurrency"])))


def _read_size_and_seconds(inputs: Mapping[str, object]) -> tuple[int, int]:
    """Read the size of the dataset and the required seconds, each 0 if not declared."""
    size, least = (int(str(inputs.get(name) or 0)) for name in (keys.PERFORMANCE_SAMPLE_COUNT, "point.least_duration"))
    return size, least // _MILLISECONDS


def find_other_point(
    files: Mapping[str, bytes], inputs: Mapping[str, object], *, foreign: bool = False
) -> Iterator[str]:
    """Yield every field in which the results differ from those of the requested run. ``foreign``: it was made
    elsewhere. Raises ValueError or UnreadablePointError for unreadable files."""
    config = _parse_config(files)
    yield from find_config_differences(config, inputs, foreign=foreign)
    if inputs["mode"] == PERFORMANCE:
        pattern = OFFLINE_PATTERN if inputs.get(DEDICATED_OFFLINE) else "concurrency"
        pattern = AGENTIC_PATTERN if inputs.get(AGENTIC) else pattern
        point, model = _parse(files, inputs), str(inputs.get("harness.model_name") or "")
        concurrency = int(str(inputs["point.concurrency"]))
        yield from find_differences(point, concurrency, pattern, model, read_min_duration(inputs))
        return
    if ACCURACY_RESULTS not in files:
        raise ValueError(f"there is no {ACCURACY_RESULTS}")
    counted = _count_scored(files[ACCURACY_RESULTS])
    asked, least = (inputs.get(name) for name in (keys.ACCURACY_SAMPLE_COUNT, "point.least_accuracy_samples"))
    shown = "nothing" if counted is None else counted
    if asked is not None and counted != int(str(asked)):
        yield f"accuracy_sample_count: expected {asked}, {ACCURACY_RESULTS} says {shown}"
    elif least is not None and (counted is None or counted < int(str(least))):
        yield f"accuracy_sample_count: the rules ask at least {least}, {ACCURACY_RESULTS} says {shown}"


def _count_scored(data: bytes) -> Decimal | None:
    """Count the samples of all accuracy datasets with repetitions, by any name that clients have used for them."""
    stated = read_sample_count(parse_json_object(data))
    issued = sum(score.issued for score in parse_scores(data) if not score.inline)
    return stated if stated is not None else Decimal(issued) if issued else None


def _parse_config(files: Mapping[str, bytes]) -> ResultDocument:
    if CONFIG not in files:
        raise ValueError(f"there is no {CONFIG}")
    return parse_yaml_mapping(files[CONFIG])


def measure_point(files: Mapping[str, bytes], inputs: Mapping[str, object], *, rehearsal: bool) -> RecordValues:
    """Measure a point for a performance run's record, as far as its summary allows."""
    point = _parse(files, inputs)
    return _describe_run(point, list(_find_all_shortcomings(files, point, inputs, rehearsal=rehearsal)))


def _describe_run(point: MeasuredPoint, findings: Sequence[PointFinding]) -> RecordValues:
    reasons, warnings = (
        [f"{finding.rule}: {finding.text}" for finding in findings if finding.severity is severity]
        for severity in (Severity.ERROR, Severity.WARNING)
    )
    return {
        "validity": "INVALID" if reasons else "VALID",
        "reasons": reasons,
        "warnings": warnings,
        "metric": {"value": show_plain(point.system_tps), "unit": "tokens/s"},
        "margins": [],
        "suggestion": None,
        "harness_version": point.client,
        "point": _describe(point),
    }


def _find_all_shortcomings(
    files: Mapping[str, bytes], point: MeasuredPoint, inputs: Mapping[str, object], *, rehearsal: bool
) -> Iterator[PointFinding]:
    """Find the shortcomings of the point itself, and of the test that the client ran after it."""
    yield from _find_shortcomings(point, inputs, rehearsal=rehearsal)
    stated = parse_audits(files).stated.get(CACHING)
    if stated is None and inputs.get("client.audit.samples"):
        text = f"the spec asks for the client's {CACHING}, and the run wrote no audit_{CACHING}.json"
        yield PointFinding("audit", Severity.ERROR, text)
    elif stated is not None and stated.get("passed") is not True:
        text = f"{CACHING} failed: {stated.get('reason') or 'it gives no reason'}"
        yield PointFinding("audit", Severity.ERROR, text)


def _find_shortcomings(
    point: MeasuredPoint, inputs: Mapping[str, object], *, rehearsal: bool
) -> Iterator[PointFinding]:
    """Find shortcomings that the client does not check itself. The point's duration was fixed when it was declared, so
    its region does not matter here."""
    rules, (size, least) = load_endpoints_rules(), _read_size_and_seconds(inputs)
    timed = replace(rules.shorten(least), rehearsal=rehearsal)
    # The regions of any curve that contains the point serve for every curve: all have the same duration here.
    c_max = max(point.concurrency, rules.values.least_max_concurrency)
    regions = compute_regions(c_max, min(point.concurrency, rules.values.most_ultra_low_concurrency), rules)
    yield from judge_point(point, timed, regions, dataset_size=size)
    if inputs.get(AGENTIC):
        names = ("point.least_inline", "point.least_turn_tokens", "point.most_turn_tokens")
        inline, least_tokens, most_tokens = (parse_decimal(inputs.get(name)) for name in names)
        yield from judge_agentic(point, inline, least_tokens, most_tokens)


def _describe(point: MeasuredPoint) -> dict[str, object]:
    """Return the figures from which curves are drawn."""
    figures = {"tps_per_user": point.tps_per_user, "ttft_p90_ms": point.ttft_p90_ms, "seconds": point.seconds}
    if point.is_agentic:
        figures |= {"interactivity": point.interactivity, "turn_tokens": point.turn_tokens}
        figures |= {"inline": point.inline_share}
    shown = {name: show_plain(Decimal(value)) for name, value in figures.items() if value is not None}
    return {"concurrency": point.concurrency, "issued": point.issued, "completed": point.completed, **shown}


def judge_score(_: Path, run: Path, rules: RuleContext, __: RecordValues) -> AttemptVerdict:
    path = run / ACCURACY_RESULTS
    try:
        return AttemptVerdict(_score_run(path.read_bytes(), rules))
    except OSError as error:
        refuse_storage_error(error, path)
        return AttemptVerdict({}, f"{ACCURACY_RESULTS} cannot be read: {error}", "backend", "repeat the accuracy run")
    except ValueError as error:
        return AttemptVerdict({}, f"{ACCURACY_RESULTS} is not a score: {error}", "backend", "repeat the accuracy run")


def _score_run(data: bytes, rules: RuleContext) -> RecordValues:
    """Score a run. A metric of the benchmark for which the client has no score counts as not met."""
    results = _convert_to_percent(parse_json_object(data), rules.bars)
    values = judge_accuracy_scores(results, list(rules.bars), single=True, binds=rules.bars_bind)
    whole = len(values["bars"]) == len(rules.bars) or not rules.bars_bind
    counted = _count_scored(data)
    samples = None if counted is None else show_plain(counted)
    return {**values, "samples": samples, "accuracy_met": values["accuracy_met"] and whole}


def _convert_to_percent(results: ResultDocument, bars: Iterable[Bar]) -> ResultDocument:
    """Convert the client's scores from shares to percent, the unit of the bars (checker: accuracy-gate)."""
    scores = results.get("accuracy_scores")
    if not isinstance(scores, list) or not any(bar.least is not None and bar.least > 1 for bar in bars):
        return results
    found = [{**s, "score": _convert_share(s.get("score"))} if isinstance(s, Mapping) else s for s in scores]
    return replace(results, values={**results.values, "accuracy_scores": found})


def _convert_share(score: Any) -> Any:
    if isinstance(score, Mapping):
        return {name: _convert_share(part) for name, part in score.items()}
    number = parse_number(score)
    return number * 100 if number is not None and 0 <= number <= 1 else score


def judge_kept(kept: Kept) -> Iterator[LogFinding]:
    """Compare a run's events where they are stored, since they are not kept in git."""
    if not is_timed(kept):
        return
    summary, audits = read_summary(kept)
    yield from find_wrong_results(summary, audits, drained=False)
    yield from find_excess_time(summary, kept)
    if EVENTS in kept.files and CONFIG in kept.files:
        files = {name: read_regular(kept.files[name]) for name in (CONFIG, RESULT_SUMMARY)}
        for text in find_wrong_summary(_read_events(kept.files[EVENTS]), _parse(files, kept.inputs)):
            yield LogFinding("summary.events", text, RESULT_SUMMARY)


def list_kept(run: RunFiles) -> Iterator[KeptFile]:
    """Keep no events here: like the client's other outputs, they are stored outside git."""
    played = bool(run.inputs.get(AGENTIC)) and run.mode == PERFORMANCE  # it is also scored
    own = ACCURACY_RESULTS if run.mode == ACCURACY else RESULT_SUMMARY
    yield from keep_files(run, own, *([ACCURACY_RESULTS] if played else []))


def recheck_run(
    inputs: Mapping[str, object],
    files: Mapping[str, bytes],
    rules: RuleContext,  # noqa: ARG001 - the rules for a point are among its inputs
    *,
    timed: bool,
    foreign: bool,
    rehearsal: bool,
) -> Recheck:
    own = RESULT_SUMMARY if timed else ACCURACY_RESULTS
    if lost := tuple(file for file in (CONFIG, own) if file not in files):
        return Recheck(own, missing=lost)
    summary = parse_json_object(files[RESULT_SUMMARY]) if timed else None
    own_wrong = () if summary is None else find_wrong_results(summary, parse_audits(files), drained=False)
    return Recheck(
        own,
        differing=(*find_other_point(files, inputs, foreign=foreign), *(item.text for item in own_wrong)),
        shown=f"{CONFIG} shows every setting, and the seeds",
        values=measure_point(files, inputs, rehearsal=rehearsal) if timed else {},
        partial=frozenset({"reasons", "warnings"}),  # the events of a run show more of both
    )


def recheck_score(_: Mapping[str, bytes], run: Mapping[str, bytes], rules: RuleContext) -> Recheck:
    if ACCURACY_RESULTS not in run:
        return Recheck(ACCURACY_RESULTS, missing=(ACCURACY_RESULTS,))
    return Recheck(ACCURACY_RESULTS, values=_score_run(run[ACCURACY_RESULTS], rules))
