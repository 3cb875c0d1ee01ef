"""Which settings of a run its round fixes, and which its spec."""

from __future__ import annotations

import pytest

from reconciler.loadgen.settings import (
    LOADGEN_MODE,
    SEEDS,
    Unit,
    find_setting,
    find_settings,
    list_endpoints_settings,
    list_ruled,
    list_settings,
    select_conf_settings,
)

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


RATE, PERCENT, MS, WHOLE_MS = Unit.RATE, Unit.PERCENT, Unit.MS, Unit.WHOLE_MS
COUNT, OVERRIDE, FLAG = Unit.COUNT, Unit.OVERRIDE, Unit.FLAG
# Name, unit, key of the log, name in a user.conf.
OF_ALL = (
    ("use_token_latencies", FLAG, "requested_use_token_latencies", ""),
    ("sample_concatenate_permutation", FLAG, "effective_sample_concatenate_permutation", ""),
    ("min_duration", COUNT, "effective_min_duration_ms", ""),
    ("max_duration", COUNT, "effective_max_duration_ms", ""),
    ("min_query_count", COUNT, "requested_min_query_count", ""),
    ("max_query_count", COUNT, "effective_max_query_count", ""),
    (
        "performance_sample_count",
        OVERRIDE,
        "effective_performance_sample_count",
        "performance_sample_count_override",
    ),
    ("accuracy_sample_count", OVERRIDE, "effective_accuracy_sample_count", "accuracy_sample_count_override"),
)
PROVEN = ("target_latency_percentile", PERCENT, "effective_target_latency_percentile", "")
OWN = {
    "SingleStream": (("target_latency", MS, "requested_single_stream_expected_latency_ns", ""), PROVEN),
    "MultiStream": (
        ("target_latency", MS, "requested_multi_stream_expected_latency_ns", ""),
        PROVEN,
        ("samples_per_query", COUNT, "effective_samples_per_query", ""),
    ),
    "Server": (
        ("target_qps", RATE, "effective_target_qps", ""),
        ("target_latency", WHOLE_MS, "effective_target_latency_ns", ""),
        PROVEN,
        ("coalesce_queries", FLAG, "requested_server_coalesce_queries", ""),
        ("max_async_queries", COUNT, "effective_max_async_queries", ""),
        ("ttft_latency", WHOLE_MS, "requested_server_ttft_latency", ""),
        ("tpot_latency", WHOLE_MS, "requested_server_tpot_latency", ""),
    ),
    "Offline": (("target_qps", RATE, "effective_target_qps", ""),),
}


@pytest.mark.parametrize("scenario", [*OWN, "Interactive", "Batch"])
def test_each_setting_of_a_scenario_has_its_names_in_the_log_and_in_a_conf(scenario: str) -> None:
    own = OWN.get("Server" if scenario == "Interactive" else scenario)
    expected = [] if own is None else [*own, *OF_ALL]
    found = [(each.name, each.unit, each.key, each.conf_name) for each in find_settings(scenario)]
    assert found == expected
    assert [each.conf_key for each in find_settings(scenario)] == [conf or name for name, _, _, conf in expected]
    for name, unit, *_ in expected:
        setting = find_setting(name, scenario)
        assert setting is not None
        assert (setting.name, setting.unit) == (name, unit)
    assert find_setting("engine.batch_size", scenario) is None


def test_settings_are_listed_in_the_order_of_a_conf() -> None:
    bounds = ("min_duration", "max_duration", "min_query_count", "max_query_count", "performance_sample_count")
    assert list_settings("performance", "Server") == ("target_qps", "target_latency", *bounds)
    assert list_settings("accuracy", "Server") == ("performance_sample_count", "accuracy_sample_count")
    assert list_ruled("MultiStream") == (
        *("model_key", "qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"),
        *("target_latency_percentile", "samples_per_query", "use_token_latencies", "sample_concatenate_permutation"),
    )


def test_a_conf_states_what_a_spec_says_and_nothing_of_the_round() -> None:
    said = {"target_qps": "7", "min_duration": 0, "max_duration": None, "tpot_latency": 5, "accuracy_sample_count": 3}
    assert select_conf_settings(said, "performance", "Server") == {"target_qps": "7", "min_duration": 0}
    assert select_conf_settings(said, "accuracy", "Server") == {"accuracy_sample_count": 3}


def test_the_endpoints_harness_reads_some_of_the_settings() -> None:
    timed = ("target_qps", "min_duration", "max_duration", "min_query_count")
    assert list_endpoints_settings("performance", "Server") == timed
    assert list_endpoints_settings("performance", "SingleStream") == timed[1:]
    assert list_endpoints_settings("accuracy", "Server") == ("accuracy_sample_count",)


@pytest.mark.parametrize(
    ("unit", "integer"),
    [(RATE, False), (PERCENT, False), (MS, False), (WHOLE_MS, True), (COUNT, True), (OVERRIDE, True), (FLAG, True)],
)
def test_rates_percentages_and_latencies_of_streams_have_fractions(unit: Unit, integer: bool) -> None:
    assert unit.integer is integer


def test_names_of_loadgen() -> None:
    assert LOADGEN_MODE == {"performance": "PerformanceOnly", "accuracy": "AccuracyOnly"}
    assert SEEDS == ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
