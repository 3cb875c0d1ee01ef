"""Which kind of value LoadGen writes for a key, and what it is called where there is another."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.loadgen.value_formats import find_wrong_notation
from tests.unit.loadgen.test_contradictions import make_log

FLAG, TEXT, NUMBER, WHOLE = "true or false", "a text", "a number of at least 0", "a whole number of at least 0"
KEYS = {
    "result_perf_constraints_met": FLAG,
    "result_min_duration_met": FLAG,
    "early_stopping_met": FLAG,
    "effective_performance_issue_same": FLAG,
    "requested_performance_issue_unique": FLAG,
    "effective_print_timestamps": FLAG,
    "effective_sample_concatenate_permutation": FLAG,
    "requested_use_token_latencies": FLAG,
    "requested_server_coalesce_queries": FLAG,
    "result_validity": TEXT,
    "test_datetime": TEXT,
    "result_samples_per_second": NUMBER,
    "result_completed_samples_per_sec": NUMBER,
    "result_qps_with_loadgen_overhead": NUMBER,
    "result_token_throughput": NUMBER,
    "effective_target_qps": NUMBER,
    "requested_offline_expected_qps": NUMBER,
    "requested_single_stream_expected_latency_ns": NUMBER,
    "effective_target_latency_percentile": NUMBER,
    "requested_accuracy_log_probability": NUMBER,
    "result_mean_latency_ns": WHOLE,
    "result_99.00_percentile_latency_ns": WHOLE,
    "result_query_count": WHOLE,
    "result_time_to_output_token_min": WHOLE,
    "result_time_to_output_token_max": WHOLE,
    "result_time_to_output_token_mean": WHOLE,
    "effective_qsl_rng_seed": WHOLE,
    "requested_min_duration_ms": WHOLE,
    "effective_target_latency_ns": WHOLE,
    "effective_min_query_count": WHOLE,
    "requested_performance_sample_count_override": WHOLE,
    "effective_performance_issue_same_index": WHOLE,
    "effective_max_async_queries": WHOLE,
    "effective_samples_per_query": WHOLE,
    "effective_accuracy_log_sampling_target": WHOLE,
    "requested_server_ttft_latency": WHOLE,
    "requested_server_tpot_latency": WHOLE,
    "generated_query_count": WHOLE,
    "generated_samples_per_query": WHOLE,
    "generated_query_duration": WHOLE,
    "qsl_reported_total_count": WHOLE,
    "num_errors": WHOLE,
    "early_stopping_latency_ss": WHOLE,
    "early_stopping_latency_ms": WHOLE,
}
ANYTHING = ("sut_name", "my_result_query_count", "early_stopping_result", "effective_scenario", "result_query_counts")
ODD: tuple[tuple[Any, str], ...] = (
    (True, "True"),
    (7, "7"),
    (0.5, "0.5"),
    (-1, "-1"),
    (-0.5, "-0.5"),
    ("x", "x"),
    ([7], "a list of 1 value"),
)


def reported(version: str, key: str, value: Any) -> list[str]:
    values = {"test_datetime": None, key: value}
    return list(map(str, find_wrong_notation(make_log(version, **values))))


def _is_of(kind: str, value: Any) -> bool:
    match kind:
        case "true or false":
            return isinstance(value, bool)
        case "a text":
            return isinstance(value, str)
        case "a whole number of at least 0":
            return type(value) is int and value >= 0
    return type(value) in (int, float) and value >= 0


@pytest.mark.parametrize("key", [*KEYS, "power_end", *ANYTHING])
def test_of_early_releases_numbers_among_the_results_are_judged(key: str) -> None:
    judged = key.startswith("result_") and KEYS.get(key) in (NUMBER, WHOLE)
    for value, shown in ODD:
        said = [f"{key}: {shown} (line 6), but LoadGen writes {NUMBER}"]
        assert reported("3.1 @ a", key, value) == said * (judged and not _is_of(NUMBER, value)), value


@pytest.mark.parametrize(
    ("version", "key", "value", "fine"),
    [
        ("2.1 @ a", "result_query_count", "12", True),
        ("3.0 @ a", "result_query_count", "12", False),
        ("2.1 @ a", "result_query_count", "1.5", False),
        ("2.1 @ a", "result_query_count", True, False),
        ("2.1 @ a", "result_min_latency_ns", "12", False),
    ],
)
def test_the_first_releases_wrote_their_count_of_queries_as_text(
    version: str, key: str, value: object, fine: bool
) -> None:
    assert bool(reported(version, key, value)) is not fine
