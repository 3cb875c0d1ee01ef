"""Results of MLCommons' endpoints harness, which a command writes instead of LoadGen's logs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from decimal import Decimal
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from reconciler.endpoints.results.accuracy import judge_accuracy_scores
from reconciler.endpoints.results.audits import Audits, collect_audit_values, find_missing_audits, find_wrong_audits
from reconciler.endpoints.results.measurements import (
    LIMITS,
    MEAN_TOKENS,
    MEAN_TOKENS_LIMITS,
    REQUESTED,
    SEEDS,
    Results,
    find_differences,
    find_excess_duration,
    find_lost_samples,
    find_wrong_rates,
    list_metrics,
    measure_performance,
)
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import ACCURACY_RESULTS, CONFIG, RESULT_SUMMARY
from reconciler.loadgen.settings import list_settings, read_min_duration
from reconciler.resource.kinds import ACCURACY, PERFORMANCE, Cell
from reconciler.resource.quantities import parse_decimal
from reconciler.resource.records import LogFinding
from reconciler.resource.ruled_values import LatencyLimits
from reconciler.rules.context import EndpointsContext, RuleContext
from reconciler.rules.results.format import AttemptVerdict, Kept, KeptFile, Recheck, RecordValues, RunFiles, ShownFiles
from reconciler.rules.ruleset import BenchmarkRules, Ruleset
from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.storage.untrusted_files import read_regular

NAME = "endpoints"
LEAVES = "results of the endpoints harness"
DECLARE = "write `harness: {results: endpoints, model_name: …}`"
LOGS = "*"
SCORES_ITSELF = True
TESTS_ITSELF = True
READS_CONF = False
NAMES_MODEL = True
TIES_ACCURACY = False
SCORED_BY = "the harness scored it"
AUDIT = "audit"  # folder of the tests that the harness ran after the performance run
SHOWN = ShownFiles(performance=(RESULT_SUMMARY,), accuracy=(ACCURACY_RESULTS,), configuration=CONFIG, tests=AUDIT)
JUDGED: tuple[str, ...] = (RESULT_SUMMARY, f"{AUDIT}/*")


def read_results(folder: Path) -> Results:
    """Read a folder whose files have the names of a record's artifacts. Raises ValueError like ``parse_results``."""
    try:
        return parse_results(read_files(folder))
    except OSError as error:
        refuse_storage_error(error, folder)
        raise ValueError(f"{error.filename}: {error.strerror}") from error


def read_files(folder: Path) -> dict[str, bytes]:
    """Read the results and the tests in a folder, by the names of a record's artifacts. Raises OSError."""
    paths = [path for name in (CONFIG, RESULT_SUMMARY, ACCURACY_RESULTS) if (path := folder / name).is_file()]
    paths += sorted((folder / AUDIT).rglob("*.json"))
    return {path.relative_to(folder).as_posix(): read_regular(path) for path in paths}


def parse_results(files: Mapping[str, bytes]) -> Results:
    """Parse ``files``, artifacts by name. Raises ValueError that names a file that is missing or cannot be read."""
    if CONFIG not in files:
        raise ValueError(f"there is no {CONFIG}")
    names = (CONFIG, RESULT_SUMMARY, ACCURACY_RESULTS)
    config, summary, scores = (_parse_document(name, files[name]) if name in files else None for name in names)
    assert config is not None
    return Results(config, summary, scores, parse_audits(files))


def parse_audits(files: Mapping[str, bytes]) -> Audits:
    """Parse the tests among ``files``, artifacts by name. Raises ValueError like ``parse_results``."""
    audits = ((name, data) for name, data in files.items() if name.startswith(f"{AUDIT}/") and name.endswith(".json"))
    named = {PurePosixPath(name): _parse_document(name, data) for name, data in audits}
    stated = {n.stem.removeprefix("audit_"): d for n, d in named.items() if n.name.startswith("audit_")}
    phases = {n.parts[1]: d for n, d in named.items() if n.name == RESULT_SUMMARY and len(n.parts) > 2}
    return Audits(stated, phases)


def _parse_document(name: str, data: bytes) -> ResultDocument:
    try:
        return parse_yaml_mapping(data) if name == CONFIG else parse_json_object(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: {' '.join(str(error).split())}") from error


def find_other_results(left: Results, values: Mapping[str, object]) -> list[str]:
    """List every field in which the results differ from those of the requested run."""
    return [*map(str, find_differences(left, values))]


def find_wrong_results(summary: ResultDocument, audits: Audits, *, drained: bool = True) -> Iterator[LogFinding]:
    """Find contradictions within a performance run's results. ``drained``: no sample is in progress when it ends."""
    lost = find_lost_samples(summary) if drained else ()
    for item in (*lost, *find_wrong_rates(summary)):
        yield LogFinding("summary.counts", str(item), RESULT_SUMMARY, item.line)
    for text in find_wrong_audits(audits):
        yield LogFinding("audit.phases", text, AUDIT)


def measure_results(left: Results, rules: RuleContext, min_duration: int) -> RecordValues:
    """Measure a performance run for its record. ``min_duration``: the requested one, in ms."""
    summary, audits = left.summary, left.audits
    assert summary is not None
    assert rules.endpoints is not None
    values = measure_performance(summary, rules.metric, rules.endpoints.limits, min_duration)
    reasons = [*values["reasons"], *find_missing_audits(audits, rules.endpoints.audits)]
    if (bounds := rules.endpoints.mean_tokens) is not None:
        (least, most), mean = bounds, summary.get_nested("output_sequence_lengths", "avg")
        if not isinstance(mean, (int, float)) or not least <= Decimal(str(mean)) <= most:
            reasons.append(f"TEST09: a mean of {mean} output tokens, between {least} and {most} is required")
    found = {"audits": collect_audit_values(audits)} if audits.stated else {}
    return {**values, "reasons": reasons, "validity": "INVALID" if reasons else "VALID", **found}


def score_results(left: Results, rules: RuleContext) -> RecordValues:
    """Return the scores for a record. Raises ValueError if a dataset has no score."""
    if left.scores is None:
        raise ValueError(f"there is no {ACCURACY_RESULTS}")
    assert rules.endpoints is not None
    single = rules.endpoints.single_score
    return judge_accuracy_scores(left.scores, list(rules.bars), single=single, binds=rules.bars_bind)


def complete_context(
    context: RuleContext, ruleset: Ruleset, rules: BenchmarkRules, cell: Cell, shortest: int
) -> RuleContext:
    """Add the round's rules about these results. ``shortest``: the duration in ms that the rules require, if the cell
    requests none."""
    ruled, scenario = ruleset.endpoints, cell.scenario
    tests = rules.compliance_tests if ruleset.binds(cell.division, "compliance_tests") else ()
    tokens = rules.find_test(MEAN_TOKENS, scenario).limits if MEAN_TOKENS in tests else {}
    bounds = [Decimal(str(tokens[name].value)) for name in MEAN_TOKENS_LIMITS if name in tokens]
    own = EndpointsContext(
        limits=LatencyLimits(*(parse_decimal(rules.get_value(name, scenario)) for name in LIMITS)),
        audits={test: ruled.tests[test] for test in tests if test in ruled.required},
        mean_tokens=(bounds[0], bounds[1]) if bounds else None,
        single_score=rules.name in ruled.single,
        min_duration=shortest,
    )
    return replace(context, metric=ruled.make_metric(rules.name, scenario, context.metric), endpoints=own)


def is_shown(has: Callable[[str], bool]) -> bool:
    """Recognise the results by a file that no other harness writes."""
    signs = (CONFIG, "config.yml", f"performance/{RESULT_SUMMARY}", f"accuracy/{ACCURACY_RESULTS}")
    return any(map(has, signs))


def list_asked(mode: str, scenario: str, declared: Container[str]) -> tuple[str, ...]:
    """List the settings to request. The harness has only two of the round's seeds. A count is requested only if it is
    declared, since the requested duration ends a run."""
    read = {*REQUESTED, keys.ACCURACY_SAMPLE_COUNT}
    names = (name for name in list_settings(mode, scenario) if name in read)
    return (*(name for name in names if name != keys.MIN_QUERY_COUNT or name in declared), *SEEDS)


def judge_run(run: RunFiles) -> AttemptVerdict:
    try:
        left = read_results(run.output)
    except ValueError as error:
        return AttemptVerdict({}, f"the run wrote no readable results: {error}", "backend", "see the command's log")
    differing = find_other_results(left, run.inputs)
    if differing:
        problem = f"the endpoints harness did not run what was asked for: {'; '.join(differing)}"
        fix = "the results are kept; check the command and its configuration, then run again"
        return AttemptVerdict({"contradictions": differing}, problem, "contradiction", fix)
    measured = measure_results(left, run.rules, read_min_duration(run.inputs)) if run.mode == PERFORMANCE else {}
    return AttemptVerdict({**run.reported, **measured})


def judge_score(_: Path, run: Path, rules: RuleContext, __: RecordValues) -> AttemptVerdict:
    try:
        return AttemptVerdict(score_results(read_results(run), rules))
    except ValueError as error:
        return AttemptVerdict({}, f"{ACCURACY_RESULTS} is not a score: {error}", "backend", "repeat the accuracy run")


def find_missing(kept: Kept) -> str:
    return RESULT_SUMMARY if is_timed(kept) and RESULT_SUMMARY not in kept.files else ""


def is_timed(kept: Kept) -> bool:
    """Return True for a performance run. Only a performance run has figures that may contradict each other."""
    return kept.metrics is None and kept.inputs.get("mode") == PERFORMANCE


def judge_kept(kept: Kept) -> Iterator[LogFinding]:
    if is_timed(kept):
        summary, audits = read_summary(kept)
        yield from find_wrong_results(summary, audits)
        yield from find_excess_time(summary, kept)


def read_summary(kept: Kept) -> tuple[ResultDocument, Audits]:
    """Read the summary and the tests. Raises ValueError that names a file that cannot be read."""
    files = {name: read_regular(path) for name, path in kept.files.items() if name.endswith(".json")}
    return _parse_document(RESULT_SUMMARY, files[RESULT_SUMMARY]), parse_audits(files)


def find_excess_time(summary: ResultDocument, kept: Kept) -> Iterator[LogFinding]:
    for item in () if kept.imported else find_excess_duration(summary, kept.seconds):
        yield LogFinding("run.duration", str(item), RESULT_SUMMARY, item.line)


def list_kept(run: RunFiles) -> Iterator[KeptFile]:
    yield from keep_files(run, ACCURACY_RESULTS if run.mode == ACCURACY else RESULT_SUMMARY)


def keep_files(run: RunFiles, *names: str) -> Iterator[KeptFile]:
    """Keep the configuration, the files with these names, and the tests of a performance run."""
    paths = [run.output / name for name in (CONFIG, *names)]
    paths += sorted((run.output / AUDIT).rglob("*.json")) if run.mode == PERFORMANCE else []
    for path in filter(Path.is_file, paths):
        yield KeptFile(path, path.relative_to(run.output).as_posix(), in_git=True)


def list_kept_answers(_: RunFiles) -> Iterator[KeptFile]:
    """Answers are part of the results."""
    yield from ()


def recheck_run(
    inputs: Mapping[str, object],
    files: Mapping[str, bytes],
    rules: RuleContext,
    *,
    timed: bool,
    foreign: bool,  # noqa: ARG001 - the harness always runs elsewhere
    rehearsal: bool,  # noqa: ARG001 - its samples do not depend on this
) -> Recheck:
    own = RESULT_SUMMARY if timed else ACCURACY_RESULTS
    if lost := tuple(file for file in (CONFIG, own) if file not in files):
        return Recheck(own, missing=lost)
    left = parse_results(files)
    summary = left.summary
    own_wrong = find_wrong_results(summary, left.audits) if timed and summary is not None else ()
    return Recheck(
        own,
        differing=(*find_other_results(left, inputs), *(item.text for item in own_wrong)),
        shown=f"{CONFIG} shows every setting, and the seeds",
        values=measure_results(left, rules, read_min_duration(inputs)) if timed else {},
        other_metrics=tuple(list_metrics(summary)) if timed and summary is not None else (),
    )


def recheck_score(_: Mapping[str, bytes], run: Mapping[str, bytes], rules: RuleContext) -> Recheck:
    if ACCURACY_RESULTS not in run:
        return Recheck(ACCURACY_RESULTS, missing=(ACCURACY_RESULTS,))
    return Recheck(ACCURACY_RESULTS, values=score_results(parse_results(run), rules))
