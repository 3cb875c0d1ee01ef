"""The facts of a result that reports and comparisons across cells need, small enough to keep for a whole round."""

from __future__ import annotations

import math
from decimal import Decimal

from reconciler.mlperf.endpoints import read_measured
from reconciler.tree.findings import Facts
from reconciler.tree.reading.values import number, read_start
from reconciler.tree.reading.view import CellView, RunView

_TARGETS = {
    "Server": "effective_target_qps",
    "Offline": "effective_target_qps",
    "SingleStream": "requested_single_stream_expected_latency_ns",
    "MultiStream": "requested_multi_stream_expected_latency_ns",
}


def read_facts(view: CellView, conf_target: float | None = None) -> Facts:
    """Reads the performance log and hashes the logs; ``conf_target`` in the unit of the log's target."""
    metric, unit = read_metric(view)
    run = view.performance
    target = number(run.log, _TARGETS.get(run.log.scenario, "")) if run else None
    start = read_start(run.log) if run else None
    return Facts(
        submitter=view.files.submitter.submitter,
        cell=str(view.cell),
        official=view.official,
        round=view.ruleset.round,
        harness="endpoints" if view.files.endpoints else "loadgen",
        metric=metric,
        unit=unit,
        target=_finite(target),
        conf_target=_finite(conf_target),
        validity=run.log.validity if run else "",
        began=start.timestamp() if start else None,
        digests=_digests(view),
    )


def read_metric(view: CellView) -> tuple[float | None, str]:
    """What is published, and its unit; None when the log does not say."""
    run, rules = view.performance, view.rules
    if view.files.endpoints:
        return _metric_of_endpoints(view)
    if run is None or rules is None:
        return None, ""
    if run.inferred:
        return _inferred_metric(view, run)
    if rules.ruled("metric_key", run.scenario) is None:
        return None, ""
    metric = rules.metric(run.scenario)
    found = number(run.log, metric.key)
    return (_finite(found / metric.divisor), metric.unit) if found is not None else (None, "")


def _inferred_metric(view: CellView, run: RunView) -> tuple[float | None, str]:
    """What follows from another scenario's log: MultiStream, as rounds say, is eight times SingleStream's estimate."""
    rules, folder, category = view.rules, view.cell.scenario, view.system.category
    inference = view.ruleset.inference(folder, run.log.scenario, category) if category else None
    found = number(run.log, inference.key) if inference is not None else None
    if rules is None or inference is None or not found:
        return None, ""
    unit = rules.metric(folder).unit if rules.ruled("metric_key", folder) is not None else ""
    return _finite(inference.derive(found)), unit


def _finite(value: Decimal | float | None) -> float | None:
    """None for a figure that no float holds, such as 1e400: anybody may have written it."""
    exact = None if value is None else float(value)
    return exact if exact is not None and math.isfinite(exact) else None


def _metric_of_endpoints(view: CellView) -> tuple[float | None, str]:
    summary, rules, scenario = view.files.result_summary.value, view.rules, view.cell.scenario
    if summary is None or rules is None or rules.ruled("metric_key", scenario) is None:
        return None, ""
    metric = view.ruleset.endpoints.metric(rules.name, scenario, rules.metric(scenario))
    found = read_measured(summary, metric.key)
    return (_finite(found / metric.divisor), metric.unit) if found is not None else (None, "")


def _digests(view: CellView) -> tuple[tuple[str, str], ...]:
    once = view.performance is not None and view.performance.log.serves_both
    runs = (run for run in view.files.runs() if not (once and run.digest == view.files.performance.digest))
    own = (view.files.performance, *runs) if once else runs
    return tuple((run.name, run.digest) for run in own if run.digest)
