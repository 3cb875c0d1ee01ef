"""Which settings a performance run and an accuracy run take from a spec, and which the round fixes for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PERFORMANCE_SETTINGS = (
    "target_qps",
    "target_latency",
    "min_duration",
    "max_duration",
    "min_query_count",
    "max_query_count",
    "performance_sample_count",
)
ACCURACY_SETTINGS = ("accuracy_sample_count", "performance_sample_count")
RULED = (
    "model_key",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "target_latency_percentile",
    "samples_per_query",
    "sample_concatenate_permutation",
    "use_token_latencies",
    "ttft_latency",
    "tpot_latency",
)
# What a harness leaves. The endpoints harness reads other settings, and but two of the round's seeds.
RESULTS, ENDPOINTS = "harness.results", "endpoints"
_OF_ENDPOINTS = ("target_qps", "min_duration", "max_duration", "min_query_count", "accuracy_sample_count")
ENDPOINTS_SEEDS = ("sample_index_rng_seed", "schedule_rng_seed")
# Settings that say nothing in a scenario, so that they cannot make it stale.
SILENT: Mapping[str, frozenset[str]] = {
    "Offline": frozenset({"target_latency", "target_latency_percentile", "samples_per_query"}),
    "SingleStream": frozenset({"target_qps", "samples_per_query"}),
    "MultiStream": frozenset({"target_qps"}),
    "Server": frozenset({"samples_per_query"}),
    "Interactive": frozenset({"samples_per_query"}),
}


def list_settings(mode: str, scenario: str) -> tuple[str, ...]:
    """The names of the settings that a run of this mode and scenario reads from a spec."""
    names = PERFORMANCE_SETTINGS if mode == "performance" else ACCURACY_SETTINGS
    return tuple(name for name in names if name not in SILENT.get(scenario, ()))


def list_endpoints_settings(mode: str, scenario: str) -> tuple[str, ...]:
    """The same of a run of the endpoints harness."""
    return tuple(name for name in list_settings(mode, scenario) if name in _OF_ENDPOINTS)


def list_ruled(scenario: str) -> tuple[str, ...]:
    """The names of what the round fixes for this scenario, in either mode."""
    return tuple(name for name in RULED if name not in SILENT.get(scenario, ()))


def select_conf_settings(settings: Mapping[str, Any], mode: str, scenario: str) -> dict[str, Any]:
    """The settings that a run's user.conf states; the round's own stand in LoadGen's built-in configuration."""
    return {name: settings[name] for name in list_settings(mode, scenario) if settings.get(name) is not None}
