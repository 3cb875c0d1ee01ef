"""Predictions against what the real LoadGen generated, and early stopping's counts as its tables have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.loadgen.duration import Prediction, predict
from reconciler.loadgen.early_stopping import (
    compute_allowed_over,
    compute_least_queries,
    compute_queries_at_rate,
    is_allowed_over,
)
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


OVER = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200)
TABLE = {
    "90": (44, 64, 81, 97, 127, 197, 325, 681, 1246, 2337),
    "97": (152, 219, 277, 332, 433, 667, 1097, 2293, 4182, 7831),
    "99": (459, 662, 838, 1001, 1307, 2010, 3304, 6898, 12571, 23527),
    "99.9": (4603, 6636, 8403, 10042, 13105, 20140, 33097, 69058, 125826, 235427),
}


@pytest.mark.parametrize("percentile", TABLE)
def test_least_queries(percentile: str) -> None:
    assert tuple(compute_least_queries(over, Decimal(percentile)) for over in OVER) == TABLE[percentile]


@settings(max_examples=40)
@given(st.integers(0, 3000), st.sampled_from(sorted(TABLE)))
def test_allowed_over_is_the_inverse(over: int, percentile: str) -> None:
    needed = compute_least_queries(over, Decimal(percentile))
    assert compute_allowed_over(needed, Decimal(percentile)) == over
    assert compute_allowed_over(needed - 1, Decimal(percentile)) == over - 1


@pytest.mark.parametrize(("late", "of"), [(0, 100), (9, 1000), (5, 662), (1, 300), (99, 10_000)])
def test_as_many_queries_as_are_needed_at_a_rate_of_late_ones_prove_the_percentile(late: int, of: int) -> None:
    percentile, rate = Decimal(99), Fraction(late, of)
    needed = compute_queries_at_rate(rate, percentile, 10**8)
    assert needed is not None
    assert is_allowed_over(math.ceil(needed * rate), needed, percentile)
    assert not is_allowed_over(math.ceil((needed - 1) * rate), needed - 1, percentile)


def test_too_many_late_queries_prove_no_percentile_however_many_run() -> None:
    assert compute_queries_at_rate(Fraction(1, 100), Decimal(99), 10**6) is None
    assert compute_queries_at_rate(Fraction(99, 10_000), Decimal(99), 10**6) is None


@pytest.mark.parametrize(
    ("over", "queries", "allowed"),
    [(-1, 1, True), (0, 458, False), (0, 459, True), (1, 661, False), (1, 662, True), (5, 5, False), (459, 459, False)],
)
def test_queries_over_the_latency_are_allowed_once_enough_ran(over: int, queries: int, allowed: bool) -> None:
    assert is_allowed_over(over, queries, Decimal(99)) is allowed


@pytest.mark.parametrize(("late", "needed"), [(Fraction(0), 459), (Fraction(1, 662), 662), (Fraction(1, 2000), 662)])
def test_the_fewest_queries_are_found_and_none_beyond_the_most(late: Fraction, needed: int) -> None:
    assert compute_queries_at_rate(late, Decimal(99), 10**8) == needed
