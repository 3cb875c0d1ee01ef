"""Which settings of a run its round fixes, and which its spec."""

from __future__ import annotations

import pytest

from reconciler.mlperf.loadgen.settings import list_ruled, list_settings

EVERYWHERE = {"use_token_latencies", "sample_concatenate_permutation"}
BUILT_IN = {"model_key", "qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"}
BOUNDS = {"min_duration", "max_duration", "min_query_count", "max_query_count"}
TOKENS = {"ttft_latency", "tpot_latency"}


@pytest.mark.parametrize(
    ("scenario", "ruled", "declared"),
    [
        ("SingleStream", {"target_latency_percentile"}, {"target_latency"}),
        ("MultiStream", {"target_latency_percentile", "samples_per_query"}, {"target_latency"}),
        ("Server", {"target_latency_percentile", *TOKENS}, {"target_qps", "target_latency"}),
        ("Interactive", {"target_latency_percentile", *TOKENS}, {"target_qps", "target_latency"}),
        ("Offline", set(), {"target_qps"}),
    ],
)
def test_settings_of_a_scenario_are_of_its_round_or_of_its_spec(
    scenario: str, ruled: set[str], declared: set[str]
) -> None:
    assert set(list_ruled(scenario)) == ruled | EVERYWHERE | BUILT_IN
    assert set(list_settings("performance", scenario)) == declared | BOUNDS | {"performance_sample_count"}
    assert set(list_settings("accuracy", scenario)) == {"performance_sample_count", "accuracy_sample_count"}
