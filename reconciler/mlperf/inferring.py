"""Which results may be inferred from another cell's runs, and what they are worth (submission rules, inferred results).

A scenario folder may hold the logs of another scenario; the whole folder is then that of its source. A benchmark's
variant with a laxer bar may take the runs of the stricter one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from reconciler.mlperf.log import DetailLog
from reconciler.mlperf.ruleset import Bar, BenchmarkRules

_NANOSECONDS = 1_000_000  # in a millisecond


@dataclass(frozen=True, slots=True)
class Inference:
    """``edge``: only where the system's category holds edge. ``key``: what the source's detail log must hold, and not
    as zero."""

    edge: bool
    key: str
    unit: str


# (scenario of the source, scenario of the inferred cell); everything else is refused by the checkers.
INFERENCES: Mapping[tuple[str, str], Inference] = {
    ("SingleStream", "Offline"): Inference(True, "result_qps_without_loadgen_overhead", "samples/s"),
    ("MultiStream", "Offline"): Inference(True, "result_mean_query_latency_ns", "samples/s"),
    ("SingleStream", "MultiStream"): Inference(True, "early_stopping_latency_ms", "ms"),
    ("Server", "Interactive"): Inference(False, "result_completed_samples_per_sec", "queries/s"),
}


def refusal(source: str, scenario: str, category: str) -> str:
    """Why a scenario may not be inferred from another one on a system of this category; empty: it may."""
    found = INFERENCES.get((source, scenario))
    if found is None:
        able = [name for name, target in INFERENCES if target == scenario]
        return f"{scenario} is inferred from {' or '.join(able)} only" if able else f"{scenario} is never inferred"
    if found.edge and "edge" not in category.split(","):
        return f"{scenario} is inferred from {source} on edge systems only"
    return ""


def variant_refusal(source: BenchmarkRules, target: BenchmarkRules, scenario: str) -> str:
    """Why a variant of a benchmark may not take another one's runs; empty: it may."""
    same = ("model_key", "dataset_size")
    if any(source.value(name, scenario) != target.value(name, scenario) for name in same):
        return f"{source.name} and {target.name} are no variants of one benchmark"
    strict = {bar.metric: bar for bar in source.bars(scenario)}
    for bar in target.bars(scenario):
        if bar.metric not in strict or not _stricter(strict[bar.metric], bar):
            return f"{source.name} does not have the stricter bar for {bar.metric}"
    return ""


def _stricter(source: Bar, target: Bar) -> bool:
    least = target.least is None or (source.least is not None and source.least >= target.least)
    most = target.most is None or (source.most is not None and source.most <= target.most)
    return least and most


def inferred_metric(log: DetailLog, source: str, scenario: str) -> tuple[Decimal, str] | None:
    """(value, unit) of the inferred result; None when the source's log does not hold what it is computed from, as a
    SingleStream run of fewer than 662 queries does for MultiStream."""
    found = INFERENCES.get((source, scenario))
    value = Decimal(str(log.get(found.key, 0) or 0)) if found else Decimal(0)
    if found is None or value.is_nan() or value <= 0:
        return None
    if (source, scenario) == ("SingleStream", "MultiStream"):
        return 8 * value / _NANOSECONDS, found.unit
    if (source, scenario) == ("MultiStream", "Offline"):
        samples = Decimal(str(log.effective("samples_per_query", 8)))
        return samples * 1000 * _NANOSECONDS / value, found.unit
    return value, found.unit
