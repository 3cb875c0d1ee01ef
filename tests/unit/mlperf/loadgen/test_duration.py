"""Predictions against what the real LoadGen generated, and as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.mlperf.loadgen.duration import Prediction, predict
from reconciler.resource.settings import Settings
from tests.unit.mlperf.conftest import Run


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("single-stream-valid", {"target_latency": 1000, "min_duration": 50, "min_query_count": 700}),
        ("single-stream-out-of-queries", {"target_latency": 10_000_000_000, "min_duration": 60_000}),
        ("multi-stream-valid", {"target_latency": 200_000, "min_duration": 0, "min_query_count": 662}),
        (
            "multi-stream-out-of-queries",
            {"target_latency": 10_000_000_000, "min_duration": 60_000, "min_query_count": 662},
        ),
        ("offline-valid", {"target_qps": "1000", "min_duration": 0, "min_query_count": 2000}),
        ("offline-too-short", {"target_qps": "10", "min_duration": 60_000, "min_query_count": 500}),
    ],
)
def test_generated_queries_are_those_of_the_real_loadgen(
    loadgen_run: Callable[[str], Run], name: str, settings: dict[str, Any]
) -> None:
    log = loadgen_run(name).detail
    found = predict(log.scenario, "performance", Settings(settings))
    assert found.generated == log.get("generated_query_count")
    if log.scenario == "Offline":
        assert found.samples == log.get("generated_samples_per_query")


@pytest.mark.parametrize(
    ("scenario", "mode", "settings", "expected"),
    [
        ("Offline", "performance", {"target_qps": "100", "min_duration": 600_000}, Prediction(660.0, 1, 66_000, 1)),
        (
            "Offline",
            "performance",
            {"target_qps": "1", "min_duration": 0, "min_query_count": 24576},
            Prediction(24576.0, 1, 24576, 1),
        ),
        ("Server", "performance", {"target_qps": "10", "min_duration": 600_000}, Prediction(600.0, 6000, 6000, 6000)),
        (
            "Interactive",
            "performance",
            {"target_qps": "0.5", "min_duration": 600_000, "min_query_count": 459},
            Prediction(918.0, 459, 459, 459),
        ),
        (
            "SingleStream",
            "performance",
            {"target_latency": 10_000_000, "min_duration": 600_000},
            Prediction(600.0, 60_000, 60_000, 120_001),
        ),
        (
            "MultiStream",
            "performance",
            {"target_latency": 1_000_000_000, "min_duration": 1000, "min_query_count": 662},
            Prediction(662.0, 662, 5296, 662),
        ),
        # What LoadGen takes where nothing is said: 10 s, 100 queries, 8 samples for each of MultiStream.
        ("Server", "performance", {"target_qps": "1000"}, Prediction(10.0, 10_000, 10_000, 10_000)),
        ("Server", "performance", {}, Prediction(100.0, 100, 100, 100)),
        ("Server", "accuracy", {"target_qps": "10", "accuracy_sample_count": 500}, Prediction(50.0, 500, 500, 500)),
        ("Offline", "accuracy", {"target_qps": "10"}, Prediction(36.0, 1, 360, 1)),
        ("SingleStream", "accuracy", {"target_latency": 500_000_000}, Prediction(180.0, 360, 360, 360)),
        ("MultiStream", "accuracy", {"target_latency": 1_000_000_000}, Prediction(45.0, 45, 360, 45)),
        (
            "Offline",
            "performance",
            {
                "target_qps": "1",
                "min_duration": 0,
                "min_query_count": 1100,
                "performance_sample_count": 512,
                "sample_concatenate_permutation": True,
            },
            Prediction(1536.0, 1, 1536, 1),
        ),
    ],
)
def test_predict(scenario: str, mode: str, settings: dict[str, Any], expected: Prediction) -> None:
    assert predict(scenario, mode, Settings(settings), dataset_size=360) == expected


def test_predict_refuses_a_rate_that_is_none() -> None:
    with pytest.raises(ValueError, match="no rate"):
        predict("Server", "performance", Settings({"target_qps": "-1"}))


@pytest.mark.parametrize(
    ("settings", "issued"),
    [
        ({"performance_sample_count": 64, "sample_concatenate_permutation": True}, 128),
        ({"performance_sample_count": 64, "sample_concatenate_permutation": False}, 100),
        ({"performance_sample_count": 64}, 100),
        ({"performance_sample_count": 50, "sample_concatenate_permutation": True}, 100),
        ({"sample_concatenate_permutation": True}, 100),
    ],
    ids=["to whole permutations", "not asked", "not said", "whole already", "of unknown size"],
)
def test_equal_issue_alone_pads_to_whole_permutations(settings: dict[str, Any], issued: int) -> None:
    asked = {"target_qps": "10", "min_duration": 10_000, **settings}
    assert predict("Server", "performance", Settings(asked)).generated == issued
