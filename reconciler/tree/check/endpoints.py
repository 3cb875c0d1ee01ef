"""Rules of a scenario folder that the endpoints harness filled (submission checker: endpoints parser and checks)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from reconciler.mlperf.documents import Document
from reconciler.mlperf.endpoints import LIMITS, SEEDS, Limits, measured, over_limits, percentile, scenarios_of
from reconciler.mlperf.endpoints_accuracy import accuracy_scores, sample_count
from reconciler.resource.inputs import Value
from reconciler.tree.check.accuracy import extra_files
from reconciler.tree.check.demands import NEW, OURS, Complaints
from reconciler.tree.findings import Complaint, Place, Rule
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.values import as_number, shown
from reconciler.tree.reading.view import CellView

_MILLISECOND = 1_000_000


def files(view: CellView) -> Complaints:
    for read in (view.files.config, view.files.result_summary, view.files.accuracy_results):
        if read.absent:
            yield Complaint(Place(read.file), "missing", "what the endpoints harness writes")


def scenario(view: CellView) -> Complaints:
    config = view.files.config
    if config.value is None:
        return
    if view.cell.scenario not in scenarios_of(config.value):
        yield Complaint(
            _line(config, "type"), f"type {shown(config.value.get('type'))}", f"a run of {view.cell.scenario}"
        )


def seeds(view: CellView) -> Complaints:
    config = view.files.config
    if config.value is None:
        return
    for seed, name in SEEDS.items():
        wanted, found = view.ruleset.seeds()[seed], _runtime(config.value, name)
        if found != wanted:
            yield Complaint(
                _line(config, name), f"{name} {shown(found)}", f"{wanted}, the seed of {view.ruleset.round}"
            )


def duration(view: CellView) -> Complaints:
    config = view.files.config
    least = as_number(view.rules.value("least_min_duration", view.cell.scenario)) if view.rules else None
    if config.value is None or least is None:
        return
    found = as_number(_runtime(config.value, "min_duration_ms"))
    if found is None or found < least:
        value = shown(_runtime(config.value, "min_duration_ms"))
        yield Complaint(_line(config, "min_duration_ms"), f"min_duration_ms {value}", f"at least {least}")


def failures(view: CellView) -> Complaints:
    summary = view.files.result_summary
    failed = as_number(summary.value.get("n_samples_failed")) if summary.value else None
    if failed:
        yield Complaint(_line(summary, "n_samples_failed"), f"{failed} samples failed", "none")


def metric(view: CellView) -> Complaints:
    """The checker ends on a result that does not state what is published of it."""
    summary, rules = view.files.result_summary, view.rules
    if summary.value is None or rules is None or rules.ruled("metric_key", view.cell.scenario) is None:
        return
    wanted = view.ruleset.endpoints.metric(rules.name, view.cell.scenario, rules.metric(view.cell.scenario))
    if measured(summary.value, wanted.key) is None:
        yield Complaint(
            Place(summary.file), f"nothing to take {wanted.unit} from", f"what the checker calls {wanted.key}"
        )


def latencies(view: CellView) -> Complaints:
    """p99 TTFT and TPOT below the limits of the scenario, or the whole latency where the round rules that."""
    summary = view.files.result_summary
    if summary.value is None or view.rules is None or view.cell.scenario not in ("Server", "Interactive"):
        return
    limits = Limits(*(as_number(view.rules.value(name, view.cell.scenario)) for name in LIMITS))
    for name, most in over_limits(summary.value, limits):
        found = percentile(summary.value, name)
        amount = "nothing" if found is None else f"{found / _MILLISECOND:.1f} ms"
        wanted = f"below {most / _MILLISECOND:.1f} ms"
        yield Complaint(_line(summary, name), f"p99 {name} {amount}", wanted)


def accuracy(view: CellView) -> Complaints:
    results = view.files.accuracy_results
    if results.value is None:
        return
    place, scores = _line(results, "accuracy_scores"), list(accuracy_scores(results.value))
    if not scores or any(score.get("score") is None for score in scores):
        yield Complaint(place, "no score", "a score for every dataset")
    wanted = as_number(view.rules.value("exact_accuracy_sample_count", view.cell.scenario)) if view.rules else None
    counted = sample_count(results.value)
    if wanted is not None and counted != wanted:
        yield Complaint(place, f"{shown(counted)} samples", f"exactly {wanted}")


def audits(view: CellView) -> Complaints:
    folder = view.files.results / "audit"
    for test in view.tests:
        name = view.ruleset.endpoints.tests.get(test)
        if name is None:
            yield from _output_lengths(view, test)
            continue
        read = view.files.document(folder, f"audit_{name}.json")
        if read.absent:
            if test in view.ruleset.endpoints.required:
                yield Complaint(Place(read.file), "missing", f"the result of {test}")
        elif read.problem:
            yield Complaint(Place(read.file, read.line), read.problem, "a JSON object")
        elif read.value is not None and (read.value.get("test") != name or read.value.get("passed") is not True):
            found = f"test {shown(read.value.get('test'))}, passed {shown(read.value.get('passed'))}"
            yield Complaint(_line(read, "passed"), found, f"test {name}, passed true")


def _output_lengths(view: CellView, test: str) -> Complaints:
    """TEST09 has no file of its own: the mean number of output tokens must lie within its limits."""
    summary, limits = view.files.result_summary, view.rules.test(test, view.cell.scenario).limits if view.rules else {}
    least, most = (as_number_text(limits, name) for name in ("least_mean_tokens", "most_mean_tokens"))
    if summary.value is None or least is None or most is None:
        return
    mean = as_number(summary.value.within("output_sequence_lengths", "avg"))
    if mean is None or not least <= mean <= most:
        found = f"a mean of {shown(mean)} output tokens"
        yield Complaint(_line(summary, "output_sequence_lengths"), found, f"between {least} and {most} ({test})")


def as_number_text(limits: Mapping[str, Value], name: str) -> Decimal | None:
    return Decimal(str(limits[name].value)) if name in limits else None


def benchmark(view: CellView) -> Complaints:
    if view.official and view.official not in view.ruleset.endpoints.benchmarks:
        allowed = ", ".join(view.ruleset.endpoints.benchmarks) or f"none in {view.ruleset.round}"
        yield Complaint(Place(view.files.config.file), f"{view.official} by the endpoints harness", f"one of {allowed}")


def _runtime(config: Document, name: str) -> Any:
    return config.within("settings", "runtime", name)


def _line(read: Read[Document], name: str) -> Place:
    return Place(read.file, read.value.lines.get(name, 0) if read.value else 0)


_CHECK = f"{NEW}: endpoints"
ENDPOINTS_RULES = (
    (Rule("endpoints.benchmark", "a benchmark that the harness may enter", (_CHECK,)), benchmark),
    (Rule("endpoints.files", "config, result and accuracy are there", (_CHECK,)), files),
    (Rule("endpoints.scenario", "the scenario that ran is the folder's", (_CHECK,)), scenario),
    (Rule("endpoints.seeds", "the round's seeds", (_CHECK,)), seeds),
    (Rule("endpoints.duration", "the configured minimum duration", (_CHECK,)), duration),
    (Rule("endpoints.failures", "no sample failed", (_CHECK, OURS)), failures),
    (Rule("endpoints.metric", "the metric that is published", (_CHECK,)), metric),
    (Rule("endpoints.latencies", "TTFT, TPOT or latency", (_CHECK,)), latencies),
    (Rule("endpoints.accuracy", "every dataset is scored, in full", (_CHECK,)), accuracy),
    (Rule("endpoints.extra", "images or videos that the round asks for", (_CHECK,)), extra_files),
    (Rule("endpoints.audits", "the compliance tests", (_CHECK,)), audits),
)
