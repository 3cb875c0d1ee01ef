"""Predictions against what the real LoadGen generated, and as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reconciler.loadgen.duration import Prediction, predict
from reconciler.resource.settings import Settings
from tests.unit.loadgen.conftest import Run


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
def test_queries_are_as_of_the_real_one(loadgen_run: Callable[[str], Run], name: str, settings: dict[str, Any]) -> None:
    log = loadgen_run(name).detail
    found = predict(log.scenario, "performance", Settings(settings))
    assert found.generated == log.get("generated_query_count")
    if log.scenario == "Offline":
        assert found.samples == log.get("generated_samples_per_query")


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


@pytest.mark.parametrize(
    ("scenario", "mode", "settings", "expected"),
    [
        # 1 ms a query in SingleStream and 8 in MultiStream, where no latency is said.
        ("SingleStream", "performance", {}, Prediction(10.0, 10_000, 10_000, 20_001)),
        ("MultiStream", "performance", {}, Prediction(10.0, 1250, 10_000, 2501)),
        ("MultiStream", "performance", {"samples_per_query": 4}, Prediction(10.0, 1250, 5000, 2501)),
        ("SingleStream", "performance", {"samples_per_query": 4}, Prediction(10.0, 10_000, 10_000, 20_001)),
        ("SingleStream", "performance", {"min_duration": 0}, Prediction(0.1, 100, 100, 100)),
        ("SingleStream", "performance", {"min_duration": 0, "min_query_count": 0}, Prediction(0.0, 0, 0, 0)),
        ("SingleStream", "performance", {"min_duration": 1, "min_query_count": 1}, Prediction(0.001, 1, 1, 3)),
        ("SingleStream", "performance", {"target_latency": 7_000_000}, Prediction(10.003, 1429, 1429, 2859)),
        ("SingleStream", "accuracy", {}, Prediction(0.361, 361, 361, 361)),
        ("MultiStream", "accuracy", {}, Prediction(0.368, 46, 368, 46)),
        ("MultiStream", "accuracy", {"samples_per_query": 100}, Prediction(0.032, 4, 400, 4)),
        ("Server", "accuracy", {}, Prediction(361.0, 361, 361, 361)),
        ("Interactive", "accuracy", {"target_qps": "2"}, Prediction(180.5, 361, 361, 361)),
        ("Offline", "accuracy", {"target_qps": "2"}, Prediction(180.5, 1, 361, 1)),
        ("Offline", "performance", {}, Prediction(100.0, 1, 100, 1)),
        ("Offline", "performance", {"target_qps": "9.99"}, Prediction(109 / 9.99, 1, 109, 1)),
        ("Server", "performance", {"target_qps": "10.01"}, Prediction(101 / 10.01, 101, 101, 101)),
        (
            "SingleStream",
            "performance",
            {"performance_sample_count": 64, "sample_concatenate_permutation": True},
            Prediction(10.0, 10_000, 10_000, 20_032),
        ),
    ],
)
def test_what_loadgen_takes_unsaid(scenario: str, mode: str, settings: dict[str, Any], expected: Prediction) -> None:
    found = predict(scenario, mode, Settings(settings), dataset_size=361)
    assert found.seconds == pytest.approx(expected.seconds, rel=1e-9)
    assert (found.queries, found.samples, found.generated) == (expected.queries, expected.samples, expected.generated)


def test_without_the_size_of_a_dataset_an_accuracy_run_has_no_samples() -> None:
    assert predict("Offline", "accuracy", Settings({})) == Prediction(0.0, 1, 0, 1)
