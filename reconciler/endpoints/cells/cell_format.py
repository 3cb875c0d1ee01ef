"""The format of a scenario folder with results of the endpoints harness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from reconciler.check.accuracy import check_extra_files
from reconciler.check.cell_files import FILE_RULES, check_documents, check_readable_logs, find_broken, find_empty
from reconciler.check.demands import NEW, OURS, Complaints
from reconciler.endpoints.results.accuracy import read_accuracy_scores, read_sample_count
from reconciler.endpoints.results.measurements import (
    LIMITS,
    SEEDS,
    find_over_limits,
    list_scenarios,
    read_measured,
    read_percentile,
)
from reconciler.loadgen.log_files import CONFIG
from reconciler.resource.inputs import Value
from reconciler.resource.quantities import parse_number, show_count
from reconciler.resource.ruled_values import LatencyLimits
from reconciler.resource.rules import applies, rule
from reconciler.rules.ruleset import Ruleset
from reconciler.storage.documents import ResultDocument
from reconciler.tree.content import CellContent, Rendered
from reconciler.tree.findings import Complaint, Place, TreeFinding
from reconciler.tree.layout import Layout, MakePath
from reconciler.tree.reading.cell import README
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import make_finite, show_value
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About, apply_rules

_CHECK = f"{NEW}: endpoints"

_MILLISECOND = 1_000_000


@rule("endpoints.files", "configuration, result and accuracy exist", sources=(_CHECK,))
def check_files(view: CellView) -> Complaints:
    """The folder contains the harness's configuration, results and accuracy results."""
    for read in (view.files.config, view.files.result_summary, view.files.accuracy_results):
        if read.absent:
            yield Complaint(Place(read.file), "missing", "the file that the endpoints harness writes")


@rule("endpoints.scenario", "the run's scenario matches the folder", sources=(_CHECK,))
def check_scenario(view: CellView) -> Complaints:
    """The harness was configured for the folder's scenario."""
    config = view.files.config
    if config.value is None:
        return
    if view.cell.scenario not in list_scenarios(config.value):
        yield Complaint(
            _line(config, "type"), f"type {show_value(config.value.get('type'))}", f"a run of {view.cell.scenario}"
        )


@rule("endpoints.seeds", "the run used the round's seeds", sources=(_CHECK,))
def check_seeds(view: CellView) -> Complaints:
    """The harness used the round's published random seeds."""
    config = view.files.config
    if config.value is None:
        return
    for seed, name in SEEDS.items():
        wanted, found = view.ruleset.seeds()[seed], _runtime(config.value, name)
        if found != wanted:
            yield Complaint(
                _line(config, name), f"{name} {show_value(found)}", f"{wanted}, the seed of round {view.ruleset.round}"
            )


@rule("endpoints.duration", "the minimum duration is long enough", sources=(_CHECK,))
def check_duration(view: CellView) -> Complaints:
    """The configured minimum duration is at least the round's."""
    config = view.files.config
    least = parse_number(view.find_rule("least_min_duration"))
    if config.value is None or least is None:
        return
    found = parse_number(_runtime(config.value, "min_duration_ms"))
    if found is None or found < least:
        value = show_value(_runtime(config.value, "min_duration_ms"))
        yield Complaint(_line(config, "min_duration_ms"), f"min_duration_ms {value}", f"at least {least}")


@rule("endpoints.failures", "no sample failed", sources=(_CHECK, OURS))
def check_failures(view: CellView) -> Complaints:
    """In a published run, no sample fails."""
    summary = view.files.result_summary
    failed = parse_number(summary.value.get("n_samples_failed")) if summary.value else None
    if failed:
        yield Complaint(_line(summary, "n_samples_failed"), f"{show_count(int(failed), 'sample')} failed", "none")


@rule("endpoints.metric", "the result has the published metric", sources=(_CHECK,))
def check_metric(view: CellView) -> Complaints:
    """The result contains the metric that is published. Without it, the official checker stops."""
    summary, rules = view.files.result_summary, view.rules
    if summary.value is None or rules is None or rules.find_ruled_value("metric_key", view.cell.scenario) is None:
        return
    wanted = view.ruleset.endpoints.make_metric(rules.name, view.cell.scenario, rules.find_metric(view.cell.scenario))
    if read_measured(summary.value, wanted.key) is None:
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
        yield Complaint(_line(summary, name), f"p99 {name} {amount}", wanted)


@rule("endpoints.accuracy", "all samples of each dataset are scored", sources=(_CHECK,))
def check_accuracy(view: CellView) -> Complaints:
    """The harness scored all samples of each accuracy dataset of the round."""
    results = view.files.accuracy_results
    if results.value is None:
        return
    place, scores = _line(results, "accuracy_scores"), list(read_accuracy_scores(results.value))
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
        yield from _output_lengths(view, test) if name is None else _audit_passed(view, test, name)


def _audit_passed(view: CellView, test: str, name: str) -> Complaints:
    read = view.files.read_document(view.files.results / "audit", f"audit_{name}.json")
    if read.absent:
        if test in view.ruleset.endpoints.required:
            yield Complaint(Place(read.file), "missing", f"the result of {test}")
    elif read.problem:
        yield Complaint(Place(read.file, read.line), read.problem, "a JSON object")
    elif read.value is not None and (read.value.get("test") != name or read.value.get("passed") is not True):
        found = f"test {show_value(read.value.get('test'))}, passed {show_value(read.value.get('passed'))}"
        yield Complaint(_line(read, "passed"), found, f"test {name}, passed true")


def _output_lengths(view: CellView, test: str) -> Complaints:
    """Check TEST09, which writes no file: the mean number of output tokens must be within its limits."""
    summary, limits = (
        view.files.result_summary,
        view.rules.find_test(test, view.cell.scenario).limits if view.rules else {},
    )
    least, most = (show_number(limits, name) for name in ("least_mean_tokens", "most_mean_tokens"))
    if summary.value is None or least is None or most is None:
        return
    mean = parse_number(summary.value.get_nested("output_sequence_lengths", "avg"))
    if mean is None or not least <= mean <= most:
        found = f"a mean of {show_value(mean)} output tokens"
        yield Complaint(_line(summary, "output_sequence_lengths"), found, f"between {least} and {most} ({test})")


def show_number(limits: Mapping[str, Value], name: str) -> Decimal | None:
    return Decimal(str(limits[name].value)) if name in limits else None


@rule("endpoints.benchmark", "the benchmark may use the endpoints harness", sources=(_CHECK,))
def check_benchmark(view: CellView) -> Complaints:
    """The round allows the endpoints harness for the benchmark."""
    if view.official and view.official not in view.ruleset.endpoints.benchmarks:
        allowed = ", ".join(view.ruleset.endpoints.benchmarks) or f"none in {view.ruleset.round}"
        yield Complaint(
            Place(view.files.config.file), f"{view.official} with the endpoints harness", f"one of {allowed}"
        )


def _runtime(config: ResultDocument, name: str) -> Any:
    return config.get_nested("settings", "runtime", name)


def _line(read: Read[ResultDocument], name: str) -> Place:
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
    summary, rules, scenario = view.files.result_summary.value, view.rules, view.cell.scenario
    if summary is None or rules is None or rules.find_ruled_value("metric_key", scenario) is None:
        return None, ""
    metric = view.ruleset.endpoints.make_metric(rules.name, scenario, rules.find_metric(scenario))
    found = read_measured(summary, metric.key)
    return (make_finite(found / metric.divisor), metric.unit) if found is not None else (None, "")


def render_runs(content: CellContent, _: Ruleset, layout: Layout, at: MakePath) -> Iterator[Rendered]:
    """Copy the files byte for byte, since the checker compares them with the measurements."""
    assert content.configuration is not None
    yield at(layout.cell_file, file=CONFIG), content.configuration
    for folder, files in (("performance", content.performance), ("accuracy", content.accuracy)):
        for name, file in files.items():
            yield at(layout.cell_file, file=f"{folder}/{name}"), file
    for folder, files in content.compliance.items():
        for name, file in files.items():
            yield at(layout.cell_file, file=f"{folder}/{name}"), file
