"""Number of samples and duration of a run, by LoadGen's own formulas.

Predictions use the declared rate or latency; real SingleStream and MultiStream runs last until both the minimum
duration and the minimum query count are reached, whatever the expected latency.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from reconciler.loadgen import keys
from reconciler.loadgen.settings import ACCURACY, PERFORMANCE, name_loadgen_scenario, select_conf_settings
from reconciler.loadgen.user_conf import select_audit_settings
from reconciler.resource.settings import Settings

_SLACK = Decimal("1.1")  # LoadGen sizes an Offline query for 1.1 times the minimum duration
_STREAM_SPARE = 2  # and generates stream queries for twice the minimum duration


class Prediction(Struct, frozen=True):
    """Predicted run. ``seconds``: run time; ``queries`` and ``samples``: expected number issued (totals for progress);
    ``generated``: queries that LoadGen generates in advance, which determine its memory use."""

    seconds: float
    queries: int
    samples: int
    generated: int


def predict_run_seconds(inputs: Mapping[str, object]) -> float | None:
    """Predict a run or compliance test from its identity inputs; None for an accuracy run."""
    values = {**select_audit_settings(inputs), **inputs}
    if values.get("mode") != PERFORMANCE:
        return None
    scenario = str(values["scenario"])
    return predict(scenario, PERFORMANCE, Settings(select_conf_settings(values, PERFORMANCE, scenario))).seconds


def predict(scenario: str, mode: str, settings: Settings, dataset_size: int = 0) -> Prediction:
    """Predict a run. ``settings`` use spec names: target_qps (decimal text), target_latency (ns), min_duration (ms),
    counts.

    ``mode`` is "performance" or "accuracy"; ``dataset_size`` is used if accuracy_sample_count is unset. A missing rate
    defaults to 1 query/s and a missing latency to LoadGen's default, as in LoadGen itself.
    """
    name = name_loadgen_scenario(scenario)
    size = (settings.get_number(keys.SAMPLES_PER_QUERY) or 8) if name == "MultiStream" else 1
    if mode == ACCURACY:
        return _predict_accuracy(name, settings, settings.get_number(keys.ACCURACY_SAMPLE_COUNT) or dataset_size, size)
    seconds = Decimal(settings.get_number(keys.MIN_DURATION, 10_000)) / 1000
    least = settings.get_number(keys.MIN_QUERY_COUNT, 100)
    if name == "Offline":
        rate = _read_rate(settings)
        samples = _pad(max(least, math.floor(_SLACK * seconds * rate)), settings)
        return Prediction(float(samples / rate), 1, samples, 1)
    if name == "Server":
        rate = _read_rate(settings)
        queries = max(least, math.ceil(seconds * rate))
        return Prediction(float(queries / rate), queries, queries, _pad(queries, settings))
    latency = _read_latency(name, settings)
    generated = max(least, math.ceil(_STREAM_SPARE * seconds / latency) + 1 if seconds else 0)
    queries = max(least, math.ceil(seconds / latency))
    return Prediction(float(queries * latency), queries, queries * size, _pad(generated, settings))


def _predict_accuracy(name: str, settings: Settings, count: int, size: int) -> Prediction:
    """Predict one pass over every sample. Server accuracy runs also follow target_qps; streams issue queries
    sequentially."""
    queries = math.ceil(count / size)
    per_query = 1 / _read_rate(settings) if name in ("Server", "Offline") else _read_latency(name, settings)
    issued = 1 if name == "Offline" else queries
    return Prediction(float(queries * per_query), issued, queries * size, issued)


def _pad(count: int, settings: Settings) -> int:
    """Pad to complete permutations of the performance set for equal issue (sample_concatenate_permutation)."""
    loaded = settings.get_number(keys.PERFORMANCE_SAMPLE_COUNT)
    if not settings.get("sample_concatenate_permutation") or not loaded:
        return count
    return -(-count // loaded) * loaded


def _read_rate(settings: Settings) -> Decimal:
    rate = Decimal(settings.get_text(keys.TARGET_QPS) or 1)
    if rate <= 0:
        raise ValueError(f"no rate: {rate}")
    return rate


def _read_latency(name: str, settings: Settings) -> Decimal:
    """Return the seconds per query."""
    nanoseconds = settings.get_number(keys.TARGET_LATENCY) or (1_000_000 if name == "SingleStream" else 8_000_000)
    return Decimal(nanoseconds) / 1_000_000_000
