"""The format of a scenario folder with results of the endpoints harness: its rules, its contradictions, its files."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from reconciler.check.accuracy import check_extra_files
from reconciler.check.cell_files import FILE_RULES, check_documents, check_readable_logs, find_broken, find_empty
from reconciler.check.demands import BENCHMARK_IS_KNOWN, NEW, OURS, CellRules, Complaints, ask_repeated, find_gap
from reconciler.endpoints.results.accuracy import read_accuracy_scores, read_sample_count
from reconciler.endpoints.results.measurements import (
    LIMITS,
    MEAN_TOKENS_LIMITS,
    SEEDS,
    compute_rate,
    find_over_limits,
    list_scenarios,
    read_measured,
    read_percentile,
)
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import CONFIG, RESULT_SUMMARY
from reconciler.resource.quantities import parse_number, show_count
from reconciler.resource.ruled_values import LatencyLimits, Metric
from reconciler.resource.rules import Premise, Severity, applies, rule
from reconciler.rules.ruleset import Ruleset
from reconciler.storage.documents import ResultDocument
from reconciler.tree.content import CellContent, Rendered
from reconciler.tree.findings import Complaint, Gap, Place, TreeFinding
from reconciler.tree.layout import Layout, MakePath
from reconciler.tree.reading.cell import README
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import make_finite, show_value
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About, apply_rules

_CHECK = f"{NEW}: endpoints"

_MILLISECOND = 1_000_000
_PACED = "poisson"  # the client's load pattern that sends at a rate
_RUNTIME = ("settings", "runtime")
_NEAR = Decimal("0.02")  # tolerance of a rate, since the harness divides by its own duration


@rule("endpoints.files", "configuration, result and accuracy exist", sources=(_CHECK,))
def check_files(view: CellView) -> Complaints:
    """The folder contains the harness's configuration, results and accuracy results."""
    for read in (view.files.config, view.files.result_summary, view.files.accuracy_results):
        if read.absent:
            yield Complaint(Place(read.file), "missing", "the file that the endpoints harness writes")


@rule("endpoints.scenario", "the run's scenario matches the folder", sources=(_CHECK,))
def check_scenario(view: CellView) -> Complaints:
    """The harness was configured for the folder's scenario."""
    config, scenario = view.files.config, view.cell.scenario
    if config.value is not None and scenario not in list_scenarios(config.value):
        found = f"type {show_value(config.value.get('type'))}"
        yield Complaint(_locate(config, "type"), found, f"a run of {scenario}")


@rule("endpoints.seeds", "the run used the round's seeds", sources=(_CHECK,))
def check_seeds(view: CellView) -> Complaints:
    """The harness used the round's published random seeds."""
    config = view.files.config
    if config.value is None:
        return
    for seed, name in SEEDS.items():
        wanted, found = view.ruleset.seeds()[seed], config.value.get_nested(*_RUNTIME, name)
        if found != wanted:
            published = f"{wanted}, the seed of round {view.ruleset.round}"
            yield Complaint(_locate(config, name), f"{name} {show_value(found)}", published)


@rule("endpoints.duration", "the minimum duration is long enough", sources=(_CHECK,))
def check_duration(view: CellView) -> Complaints:
    """The configured minimum duration is at least the round's."""
    config, least = view.files.config, parse_number(view.find_rule("least_min_duration"))
    found = _read_number(config, *_RUNTIME, "min_duration_ms")
    if config.value is not None and least is not None and (found is None or found < least):
        value = show_value(config.value.get_nested(*_RUNTIME, "min_duration_ms"))
        yield Complaint(_locate(config, "min_duration_ms"), f"min_duration_ms {value}", f"at least {least}")


@rule("endpoints.failures", "no sample failed", sources=(_CHECK, OURS))
def check_failures(view: CellView) -> Complaints:
    """In a published run, no sample fails."""
    summary = view.files.result_summary
    if failed := _read_number(summary, "n_samples_failed"):
        yield Complaint(_locate(summary, "n_samples_failed"), f"{show_count(int(failed), 'sample')} failed", "none")


@rule("endpoints.metric", "the result has the published metric", sources=(_CHECK,))
def check_metric(view: CellView) -> Complaints:
    """The result contains the metric that is published. Without it, the official checker stops."""
    summary, wanted = view.files.result_summary, _find_metric(view)
    if summary.value is not None and wanted is not None and read_measured(summary.value, wanted.key) is None:
        yield Complaint(Place(summary.file), f"no value for {wanted.unit}", f"{wanted.key}, as the checker calls it")


@rule("endpoints.latencies", "latencies are below their limits", sources=(_CHECK,))
def check_latencies(view: CellView) -> Complaints:
    """The 99th percentiles of TTFT and TPOT are below the scenario's limits, or that of the latency if the round limits
    it."""
    summary = view.files.result_summary
    if summary.value is None or view.rules is None or view.cell.scenario not in ("Server", "Interactive"):
        return
    limits = LatencyLimits(*(parse_number(view.find_rule(name)) for name in LIMITS))
    for name, most in find_over_limits(summary.value, limits):
        found = read_percentile(summary.value, name)
        amount = "missing" if found is None else f"{found / _MILLISECOND:.1f} ms"
        wanted = f"below {most / _MILLISECOND:.1f} ms"
        yield Complaint(_locate(summary, name), f"p99 {name} {amount}", wanted)


@rule("endpoints.accuracy", "all samples of each dataset are scored", sources=(_CHECK,))
def check_accuracy(view: CellView) -> Complaints:
    """The harness scored all samples of each accuracy dataset of the round."""
    results = view.files.accuracy_results
    if results.value is None:
        return
    place, scores = _locate(results, "accuracy_scores"), list(read_accuracy_scores(results.value))
    if not scores or any(score.get("score") is None for score in scores):
        yield Complaint(place, "no score", "a score for every dataset")
    wanted = parse_number(view.find_rule("exact_accuracy_sample_count"))
    counted = read_sample_count(results.value)
    if wanted is not None and counted != wanted:
        yield Complaint(place, f"{show_value(counted)} samples", f"exactly {wanted}")


@rule("endpoints.audits", "the required compliance tests passed", sources=(_CHECK,))
def check_audits(view: CellView) -> Complaints:
    """The compliance tests that the round requires were run and passed."""
    for test in view.tests:
        name = view.ruleset.endpoints.tests.get(test)
        yield from _check_output_lengths(view, test) if name is None else _check_audit(view, test, name)


def _check_audit(view: CellView, test: str, name: str) -> Complaints:
    read = view.files.read_document(view.files.results / "audit", f"audit_{name}.json")
    if read.absent:
        if test in view.ruleset.endpoints.required:
            yield Complaint(Place(read.file), "missing", f"the result of {test}")
    elif read.problem:
        yield Complaint(Place(read.file, read.line), read.problem, "a JSON object")
    elif read.value is not None and (read.value.get("test") != name or read.value.get("passed") is not True):
        found = f"test {show_value(read.value.get('test'))}, passed {show_value(read.value.get('passed'))}"
        yield Complaint(_locate(read, "passed"), found, f"test {name}, passed true")


def _check_output_lengths(view: CellView, test: str) -> Complaints:
    """Check TEST09, which writes no file: the mean number of output tokens must be within its limits."""
    summary = view.files.result_summary
    limits = view.rules.find_test(test, view.cell.scenario).limits if view.rules else {}
    least, most = (Decimal(str(limits[name].value)) if name in limits else None for name in MEAN_TOKENS_LIMITS)
    if summary.value is None or least is None or most is None:
        return
    mean = _read_number(summary, "output_sequence_lengths", "avg")
    if mean is None or not least <= mean <= most:
        found = f"a mean of {show_value(mean)} output tokens"
        yield Complaint(_locate(summary, "output_sequence_lengths"), found, f"between {least} and {most} ({test})")


@rule("endpoints.benchmark", "the benchmark may use the endpoints harness", sources=(_CHECK,))
def check_benchmark(view: CellView) -> Complaints:
    """The round allows the endpoints harness for the benchmark."""
    if view.official and view.official not in view.ruleset.endpoints.benchmarks:
        allowed = ", ".join(view.ruleset.endpoints.benchmarks) or f"none in {view.ruleset.round}"
        found = f"{view.official} with the endpoints harness"
        yield Complaint(Place(view.files.config.file), found, f"one of {allowed}")


def _read_number(read: Read[ResultDocument], *names: str) -> Decimal | None:
    return parse_number(read.value.get_nested(*names)) if read.value else None


def _locate(read: Read[ResultDocument], name: str) -> Place:
    return Place(read.file, read.value.lines.get(name, 0) if read.value else 0)


@rule("endpoints.extra", "the required images or videos exist", sources=(_CHECK,))
def check_extra(view: CellView) -> Complaints:
    """The folder contains the images or videos of samples that the round requires."""
    yield from check_extra_files(view)


ENDPOINTS_RULES = (
    check_benchmark,
    check_files,
    check_scenario,
    check_seeds,
    check_duration,
    check_failures,
    check_metric,
    check_latencies,
    check_accuracy,
    check_extra,
    check_audits,
)


DESCRIBED = """\
- performance run: `performance/`, with the configuration in `config.yaml`, which is that of this very run
- accuracy run: `accuracy/`, scored by the endpoints harness"""


@applies(check_documents.rule)
def check_readme(view: CellView) -> Complaints:
    """Require only README.md: the endpoints harness does not configure LoadGen."""
    yield from find_empty(view, (README,))


@applies(check_readable_logs.rule)
def check_readable_results(view: CellView) -> Complaints:
    """Require that every existing file is readable."""
    files = view.files
    yield from find_broken((files.config, files.result_summary, files.accuracy_results, files.measurements))


_READING_RULES = (check_readable_results, check_readme)
CHECK_TABLES = (_READING_RULES, FILE_RULES, ENDPOINTS_RULES)


def check(view: CellView, about: About) -> Iterator[TreeFinding]:
    for table in CHECK_TABLES:
        yield from apply_rules(table, view, about)


def read_metric(view: CellView) -> tuple[float | None, str]:
    summary, metric = view.files.result_summary.value, _find_metric(view)
    found = read_measured(summary, metric.key) if summary is not None and metric is not None else None
    return (None, "") if found is None or metric is None else (make_finite(found / metric.divisor), metric.unit)


def _find_metric(view: CellView) -> Metric | None:
    rules, scenario = view.rules, view.cell.scenario
    if rules is None or rules.find_ruled_value("metric_key", scenario) is None:
        return None
    return view.ruleset.endpoints.make_metric(rules.name, scenario, rules.find_metric(scenario))


def render_runs(content: CellContent, _: Ruleset, layout: Layout, at: MakePath) -> Iterator[Rendered]:
    """Copy the files byte for byte, since the checker compares them with the measurements."""
    assert content.configuration is not None
    yield at(layout.cell_file, file=CONFIG), content.configuration
    runs = {"performance": content.performance, "accuracy": content.accuracy}
    for folder, files in (*runs.items(), *content.compliance.items()):
        for name, file in files.items():
            yield at(layout.cell_file, file=f"{folder}/{name}"), file


_ONE_RUN = Premise("One run of the harness wrote both files: they are in the same performance run's folder.")


@rule("endpoints.samples", "sample counts that do not add up", sources=(OURS,), cause="endpoints", premises=(_ONE_RUN,))
def verify_samples(view: CellView) -> Complaints:
    """The issued samples are not the sum of the completed and failed ones, or fewer than configured."""
    summary, config = view.files.result_summary, view.files.config
    issued, completed = _read_number(summary, "n_samples_issued"), _read_number(summary, "n_samples_completed")
    failed = _read_number(summary, "n_samples_failed") or Decimal(0)
    if issued is not None and completed is not None and issued != completed + failed:
        found = f"{issued} samples issued"
        yield Complaint(_locate(summary, "n_samples_issued"), found, f"{completed} completed and {failed} failed")
    wanted = _read_number(config, *_RUNTIME, "n_samples_to_issue")
    if issued is not None and wanted is not None and issued < wanted:
        yield Complaint(
            _locate(config, "n_samples_to_issue"),
            f"n_samples_to_issue {wanted}",
            f"{issued} samples issued",
            cause="the configuration of another phase, or a run that ended early",
            other=_locate(summary, "n_samples_issued"),
        )


@rule("endpoints.rate", "a rate that contradicts its counts", sources=(OURS,), cause="endpoints", premises=(_ONE_RUN,))
def verify_rates(view: CellView) -> Complaints:
    """A rate differs by more than 2 % from the harness's own count divided by its duration."""
    summary = view.files.result_summary
    for name in ("qps", "tps"):
        said, made = _read_number(summary, name), compute_rate(summary.value, name) if summary.value else None
        if said is not None and made is not None and abs(said - made) > made * _NEAR:
            window = _read_number(summary, "legacy_loadgen_window_duration_ns")
            took = window or _read_number(summary, "duration_ns") or 0
            wanted = f"{made:.6g}, computed from its counts in {took / 10**9:.6g} s"
            counts = _locate(summary, "n_samples_completed")
            yield Complaint(_locate(summary, name), f"{name} {said:f}", wanted, other=counts)


@rule("endpoints.duration", "a run shorter than configured", sources=(OURS,), cause="endpoints", premises=(_ONE_RUN,))
def verify_duration(view: CellView) -> Complaints:
    """The run is shorter than configured, or, if a number of samples ends it, than the round's minimum."""
    summary, config = view.files.result_summary, view.files.config
    least, took = _read_number(config, *_RUNTIME, "min_duration_ms"), _read_number(summary, "duration_ns")
    if least is None or took is None:
        return
    cause, counted = "the configuration was saved after another phase had changed it", _find_count(config)
    if counted:
        demanded = parse_number(view.find_rule("least_min_duration"))
        least, cause = min(least, demanded or Decimal(0)), f"{counted} ended the run"
    if took < least * _MILLISECOND:
        yield Complaint(
            _locate(config, "min_duration_ms"),
            f"min_duration_ms {least}",
            f"a run of {took / 10**9:.6g} s",
            cause=cause,
            other=_locate(summary, "duration_ns"),
        )


def _find_count(config: Read[ResultDocument]) -> str:
    """Describe what can end a run before its minimum duration; "" if nothing can. The client computes a number of
    samples from the duration and the target rate, unless it is configured, so that only a run that sends at this rate
    lasts that long (mlcommons/endpoints: config/runtime_settings.py)."""
    if _read_number(config, *_RUNTIME, "n_samples_to_issue") is not None:
        return "n_samples_to_issue"
    pattern = config.value.get_nested("settings", "load_pattern", "type") if config.value else None
    return "" if pattern in (None, _PACED) else f"load pattern {show_value(pattern)}"


@rule("endpoints.target", "more queries completed than sent", sources=(OURS,), cause="endpoints", premises=(_ONE_RUN,))
def verify_target(view: CellView) -> Complaints:
    """The server completed more queries per second than the harness was configured to send."""
    summary, config = view.files.result_summary, view.files.config
    asked, said = _read_number(config, "settings", "load_pattern", keys.TARGET_QPS), _read_number(summary, "qps")
    if view.cell.scenario in ("Server", "Interactive") and asked and said is not None and said > asked * (1 + _NEAR):
        yield Complaint(
            _locate(config, keys.TARGET_QPS),
            f"target_qps {asked:f}",
            f"{said:f} queries per second completed",
            cause="config.yaml is from another run",
            other=_locate(summary, "qps"),
        )


@rule(
    "endpoints.scored",
    "a score over another number of samples",
    sources=(OURS,),
    cause="endpoints",
    severity=Severity.WARNING,
    premises=(BENCHMARK_IS_KNOWN,),
)
def verify_scored(view: CellView) -> Complaints:
    """The number of scored samples differs from the round's."""
    results, wanted = view.files.accuracy_results, parse_number(view.find_rule("exact_accuracy_sample_count"))
    counted = read_sample_count(results.value) if results.value else None
    if wanted is not None and counted is not None and counted != wanted:
        yield Complaint(_locate(results, "accuracy_scores"), f"{counted} scored samples", f"{wanted} in the dataset")


@applies(ask_repeated.rule)
def verify_stated_once(view: CellView) -> Complaints:
    for read in (view.files.result_summary, view.files.accuracy_results):
        yield from ask_repeated(read)


@rule(
    "placement.endpoints",
    "a run of another scenario",
    sources=(OURS,),
    cause="other-scenario",
    premises=(BENCHMARK_IS_KNOWN,),
)
def verify_placement(view: CellView) -> Complaints:
    """The harness's configuration states another scenario than the folder."""
    yield from check_scenario(view)


ENDPOINTS_CONTRADICTIONS = (
    verify_samples,
    verify_rates,
    verify_duration,
    verify_target,
    verify_scored,
    verify_stated_once,
    verify_placement,
)


def find_result_gaps(view: CellView) -> Iterator[Gap]:
    """Yield a gap for each unusable file that a comparison needs."""
    for name, read in ((CONFIG, view.files.config), (RESULT_SUMMARY, view.files.result_summary)):
        yield from find_gap(view, read, name, blind=True)


CELL_RULES = CellRules(ENDPOINTS_CONTRADICTIONS, find_result_gaps)
