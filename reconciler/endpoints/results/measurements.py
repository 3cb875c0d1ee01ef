"""Results of MLCommons' endpoints harness (round v6.1): config.yaml and JSON instead of LoadGen's logs.

The files, their fields and their units (ns, queries per second) are those that the submission checker reads
(mlcommons/inference: parsers/endpoints_parser.py) and the harness writes (mlcommons/endpoints: metrics/report.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from reconciler.endpoints.results.accuracy import read_accuracy_scores, read_sample_count, show_plain
from reconciler.endpoints.results.audits import Audits
from reconciler.endpoints.rules.point import AGENTIC_PATTERN
from reconciler.endpoints.rules.results import read_client_version
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import ACCURACY_RESULTS, CONFIG, RESULT_SUMMARY
from reconciler.resource.quantities import parse_decimal, parse_number, show_count
from reconciler.resource.ruled_values import LatencyLimits, Metric
from reconciler.storage.documents import ResultDocument

_SECOND, _MILLISECOND = 10**9, 10**6
_NEAR = Decimal("0.0001")  # tolerance of a rate, which is stated with all digits or rounded by hand
# Spec names → fields below settings.runtime in config.yaml: the round's seeds, and the bounds of a run (in ms).
SEEDS = {keys.SAMPLE_INDEX_RNG_SEED: "dataloader_random_seed", keys.SCHEDULE_RNG_SEED: "scheduler_random_seed"}
BOUNDS = {
    keys.MIN_DURATION: "min_duration_ms",
    keys.MAX_DURATION: "max_duration_ms",
    keys.MIN_QUERY_COUNT: "n_samples_to_issue",
}
REQUESTED = (*BOUNDS, keys.TARGET_QPS)
_PATHS = {
    keys.TARGET_QPS: ("settings", "load_pattern", "target_qps"),
    **{name: ("settings", "runtime", field) for name, field in (BOUNDS | SEEDS).items()},
}
_UNITS = {
    keys.RESULT_SAMPLES_PER_SECOND: "samples/s",
    keys.RESULT_COMPLETED_SAMPLES_PER_SEC: "queries/s",
    keys.RESULT_COMPLETED_TOKENS_PER_SECOND: "tokens/s",
}

_RATES = {keys.RESULT_COMPLETED_SAMPLES_PER_SEC: "qps", keys.RESULT_COMPLETED_TOKENS_PER_SECOND: "tps"}


class Results(Struct, frozen=True):
    """The results of one run, and of the compliance tests that the harness ran after it. ``scores``:
    accuracy_results.json; ``summary``: result_summary.json."""

    config: ResultDocument
    summary: ResultDocument | None = None
    scores: ResultDocument | None = None
    audits: Audits = Audits({}, {})


class FieldDifference(Struct, frozen=True):
    """``line``: the 1-based line of ``file``, 0 if the field is missing."""

    field: str
    asked: str
    found: str
    file: str
    line: int = 0

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line else ""
        return f"{self.field}: expected {self.asked}, {self.file} says {self.found}{where}"


# The rules that limit a scenario's 99th percentiles, in the order of LatencyLimits.
LIMITS = ("most_ttft_latency", "most_tpot_latency", "most_target_latency")
# The test without a separate file: the mean number of output tokens of a performance run must be within limits.
MEAN_TOKENS, MEAN_TOKENS_LIMITS = "TEST09", ("least_mean_tokens", "most_mean_tokens")


def list_scenarios(config: ResultDocument) -> tuple[str, ...]:
    """Return the scenarios that a run of this configuration may have. The harness has only offline and online runs; an
    online run with one request or one conversation at a time is SingleStream."""
    kind = str(config.get("type")).lower()
    pattern = str(config.get_nested("settings", "load_pattern", "type"))
    alone = (
        pattern in ("concurrency", AGENTIC_PATTERN)
        and parse_number(config.get_nested("settings", "load_pattern", "target_concurrency")) == 1
    )
    known = {"offline": ("Offline",), "interactive": ("Interactive",), "singlestream": ("SingleStream",)}
    if kind == "online":
        return ("SingleStream",) if alone else ("Server", "Interactive")
    if kind == "submission" and alone:
        return ("SingleStream",)  # the checker uses the folder's name here, and cannot read this type elsewhere
    return known.get(kind, ())


def find_differences(results: Results, asked: Mapping[str, object]) -> Iterator[FieldDifference]:
    """Yield every difference between the request and the files, in a fixed order: results of another run, or of one
    that did not end. ``asked``: identity inputs of the run, in the units of specs (ms)."""
    config, scenario, mode = results.config, str(asked["scenario"]), str(asked["mode"])
    if scenario not in list_scenarios(config):
        kind = f"type {show_field(config.get('type'))}"
        pattern = config.get_nested("settings", "load_pattern", "type")
        kind += f" with load pattern {show_field(pattern)}" if pattern is not None else ""
        yield FieldDifference("scenario", scenario, kind, CONFIG, config.lines.get("type", 0))
    yield from _compare_mode(results, mode)
    name, model = config.get_nested("model_params", "name"), str(asked.get("harness.model_name", ""))
    if model and name != model:
        yield FieldDifference("model", model, show_field(name), CONFIG, config.lines.get("name", 0))
    yield from _compare_settings(config, asked)
    count = asked.get(keys.ACCURACY_SAMPLE_COUNT)
    if mode == "accuracy" and count is not None and results.scores is not None:
        found = read_sample_count(results.scores)
        if found != count:
            yield FieldDifference(keys.ACCURACY_SAMPLE_COUNT, str(count), show_field(found), ACCURACY_RESULTS)
    if results.summary is not None and mode == "performance":
        yield from _check_end(results.summary)


def _compare_mode(results: Results, mode: str) -> Iterator[FieldDifference]:
    if mode == "performance":
        summary = results.summary
        if summary is None or not parse_number(summary.get("n_samples_issued")):
            line = summary.lines.get("n_samples_issued", 0) if summary else 0
            yield FieldDifference("mode", "performance", "that no sample was issued for it", RESULT_SUMMARY, line)
    elif results.scores is None or not list(read_accuracy_scores(results.scores)):
        yield FieldDifference("mode", "accuracy", "no score of an accuracy dataset", ACCURACY_RESULTS)


def _compare_settings(config: ResultDocument, asked: Mapping[str, object]) -> Iterator[FieldDifference]:
    """Compare rates, durations and counts in performance runs only; the round's seeds in both."""
    for name, path in _PATHS.items():
        value, found = asked.get(name), config.get_nested(*path)
        if value is not None and parse_number(found) != Decimal(str(value)):
            yield FieldDifference(name, str(value), show_field(found), CONFIG, config.lines.get(path[-1], 0))


def _check_end(summary: ResultDocument) -> Iterator[FieldDifference]:
    if summary.get("complete") is False or summary.get("state") not in (None, "complete"):
        state = show_field(summary.get("state"))
        yield FieldDifference("end", "a run that came to its end", state, RESULT_SUMMARY, summary.lines.get("state", 0))
    took = parse_number(summary.get("duration_ns"))
    if not took or took < 0:
        yield FieldDifference("duration", "a duration", show_field(summary.get("duration_ns")), RESULT_SUMMARY)


def find_excess_duration(summary: ResultDocument, seconds: float) -> Iterator[FieldDifference]:
    """Find a run that took longer than the command that should have made it: the results were copied from an earlier
    run. Both clocks are monotonic, so a clock adjustment does not explain it."""
    took = parse_number(summary.get("duration_ns"))
    if took is not None and took > Decimal(str(seconds)) * _SECOND:
        asked, found = f"a run within the {seconds:.6g} s of the command", f"{took / _SECOND:.6g} s"
        yield FieldDifference("duration", asked, found, RESULT_SUMMARY, summary.lines.get("duration_ns", 0))


def find_lost_samples(summary: ResultDocument) -> Iterator[FieldDifference]:
    """Check that each issued sample completed or failed."""
    issued, done, lost = (parse_number(summary.get(f"n_samples_{n}")) for n in ("issued", "completed", "failed"))
    if issued is not None and (done is None or done + (lost or 0) != issued):
        line = summary.lines.get("n_samples_completed", 0)
        found = f"{show_field(done)} completed and {show_field(lost)} failed"
        yield FieldDifference("samples", f"the {issued} that were issued", found, RESULT_SUMMARY, line)


def find_wrong_rates(summary: ResultDocument) -> Iterator[FieldDifference]:
    """Check that a stated rate matches the stated counts."""
    for name in ("qps", "tps"):
        stated, made = parse_number(summary.get(name)), compute_rate(summary, name)
        if stated is not None and made is not None and abs(stated - made) > made * _NEAR:
            line = summary.lines.get(name, 0)
            yield FieldDifference(name, f"{made:.8g}, as its counts make it", f"{stated:.8g}", RESULT_SUMMARY, line)


def compute_rate(summary: ResultDocument, name: str) -> Decimal | None:
    """Return qps or tps from the counts. LoadGen's window lasts from the first query to the completion of the query
    that was issued last. The first query opens the window and is not counted, as in LoadGen's Server."""
    window, took = (parse_number(summary.get(n)) for n in ("legacy_loadgen_window_duration_ns", "duration_ns"))
    done = parse_number(summary.get("n_samples_completed"))
    over = window or took
    if not over or done is None:
        return None
    if name == "qps":
        return (done - 1 if window else done) * _SECOND / over
    tokens = parse_number(summary.get_nested("output_sequence_lengths", "total"))
    if tokens is None:
        mean = parse_number(summary.get_nested("output_sequence_lengths", "avg"))
        tokens = None if mean is None else mean * done
    return None if tokens is None else tokens * _SECOND / over


def read_measured(summary: ResultDocument, key: str) -> Decimal | None:
    """Return the value of a metric's key, with LoadGen's keys mapped to the harness's fields as in the checker; None if
    the file does not state it. Rates and means are computed from the counts if these are present."""
    if key == keys.RESULT_SAMPLES_PER_SECOND:
        issued, took = parse_number(summary.get("n_samples_issued")), parse_number(summary.get("duration_ns"))
        return None if issued is None or not took else issued * _SECOND / took
    if rate := _RATES.get(key):
        stated = parse_number(summary.get(rate))
        return compute_rate(summary, rate) if stated is None else stated
    if key == keys.RESULT_MEAN_LATENCY_NS:
        return parse_number(summary.get_nested("latency", "avg"))
    if key.startswith("result_") and key.endswith("_percentile_latency_ns"):
        percent = Decimal(key.removeprefix("result_").removesuffix("_percentile_latency_ns"))
        return read_percentile(summary, "latency", percent)
    return None


def list_metrics(summary: ResultDocument) -> Iterator[dict[str, str]]:
    """Yield every figure of a run that any round publishes, in the form of a record's metric."""
    for key, unit in _UNITS.items():
        if (found := read_measured(summary, key)) is not None:
            yield {"value": show_plain(found), "unit": unit}


def read_percentile(summary: ResultDocument, series: str, percent: Decimal = Decimal(99)) -> Decimal | None:
    """Read a percentile of latency, ttft or tpot, after early stopping, in ns. The harness writes the name as 99 or
    99.0."""
    found = summary.get_nested(series, "early_stopping_percentiles")
    for key, value in found.items() if isinstance(found, Mapping) else ():
        if parse_decimal(key) == percent:
            return parse_number(value)
    return None


def read_setting(config: ResultDocument, name: str) -> int | Decimal | None:
    """Read the value of a requested setting, by its name in specs."""
    return parse_number(config.get_nested(*_PATHS[name]))


def collect_result_settings(config: ResultDocument) -> dict[str, Any]:
    """Collect the settings with which a spec requests this configuration, by their names in specs: durations in ms, a
    whole rate as an integer."""
    found: dict[str, Any] = {}
    rate = read_setting(config, keys.TARGET_QPS)
    if rate is not None:
        found[keys.TARGET_QPS] = int(rate) if rate == int(rate) else rate
    found[keys.MIN_DURATION] = 0
    for name in BOUNDS:
        value = read_setting(config, name)
        if value and value == int(value):
            found[name] = int(value)
    return found


def find_shortcomings(summary: ResultDocument, limits: LatencyLimits, min_duration: int) -> Iterator[str]:
    """Find what makes a run INVALID even though it is the requested one. ``min_duration`` in ms."""
    failed = parse_number(summary.get("n_samples_failed"))
    if failed:
        yield f"{show_count(int(failed), 'sample')} failed"
    took = parse_number(summary.get("duration_ns"))
    if took is not None and took < min_duration * _MILLISECOND:
        yield f"duration: {took / _SECOND:.6g} s, at least {Decimal(min_duration) / 1000:.6g} s are required"
    for name, most in find_over_limits(summary, limits):
        found = read_percentile(summary, name)
        amount = "nothing" if found is None else f"{found / _MILLISECOND:.6g} ms"
        yield f"p99 {name}: {amount}, below {most / _MILLISECOND:.6g} ms is required"


def find_over_limits(summary: ResultDocument, limits: LatencyLimits) -> Iterator[tuple[str, Decimal]]:
    """Yield each series whose 99th percentile is not below its limit, with the limit in ns. If tokens have their own
    limits, the whole latency has none (checker: llm_check)."""
    tokens = [("ttft", limits.ttft), ("tpot", limits.tpot)]
    series = tokens if any(most is not None for _, most in tokens) else [("latency", limits.latency)]
    for name, most in series:
        found = read_percentile(summary, name)
        if most is not None and (found is None or found >= most):
            yield name, most


def measure_performance(
    summary: ResultDocument, metric: Metric, limits: LatencyLimits, min_duration: int
) -> dict[str, Any]:
    """Measure a performance run for its record: validity, reasons, metric."""
    reasons = list(find_shortcomings(summary, limits, min_duration))
    found = read_measured(summary, metric.key)
    if found is None:
        reasons.append(f"{RESULT_SUMMARY} says nothing that {metric.key} could be taken from")
    value = None if found is None else show_plain(found / metric.divisor)
    return {
        "validity": "INVALID" if reasons else "VALID",
        "reasons": reasons,
        "metric": None if value is None else {"value": value, "unit": metric.unit},
        "margins": [],
        "suggestion": None,
        "harness_version": read_client_version(summary),
    }


def show_field(found: object, most: int = 80) -> str:
    """Show a value in one line of at most ``most`` characters."""
    return "nothing" if found is None else " ".join(str(found).split())[:most]
