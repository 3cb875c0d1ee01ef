"""Scenarios as LoadGen knows them. Interactive is none of them: it is Server with stricter token latencies."""

from __future__ import annotations

_LOADGEN_NAME = {"Interactive": "Server"}

PERFORMANCE, ACCURACY = "performance", "accuracy"
LOADGEN_MODE = {PERFORMANCE: "PerformanceOnly", ACCURACY: "AccuracyOnly"}


def name_loadgen_scenario(scenario: str) -> str:
    """The name in LoadGen's enum, in ``user.conf`` and in the logs (``effective_scenario``)."""
    return _LOADGEN_NAME.get(scenario, scenario)
