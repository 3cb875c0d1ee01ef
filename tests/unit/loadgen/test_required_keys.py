"""Lines that every run has, or every run of a kind: each is missed where it is not there."""

from __future__ import annotations

import pytest

from reconciler.loadgen.consistency import find_missing_keys
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.text_log import parse_text_log

BOTH = {
    *("scenario", "test_mode", "min_duration_ms", "max_duration_ms", "min_query_count", "max_query_count"),
    *("performance_issue_unique", "performance_issue_same", "performance_issue_same_index"),
    *("accuracy_log_probability", "accuracy_log_sampling_target"),
    *("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"),
}
ALWAYS = {
    *(f"{kind}_{name}" for kind in ("requested", "effective") for name in BOTH),
    *("test_datetime", "power_begin", "power_end", "loaded_qsl_set"),
    *("qsl_reported_total_count", "qsl_reported_performance_count", "requested_performance_sample_count_override"),
    *("effective_min_sample_count", "effective_performance_sample_count", "effective_samples_per_query"),
    *("effective_target_latency_ns", "effective_target_latency_percentile", "effective_target_qps"),
    *("generated_query_count", "generated_samples_per_query", "generated_query_duration"),
    *("loadgen_build_date_utc", "loadgen_git_commit_date", "loadgen_git_log_message", "loadgen_file_sha1"),
}
ASKED = {
    "SingleStream": {"requested_single_stream_target_latency_percentile"},
    "MultiStream": {
        "requested_multi_stream_target_latency_percentile",
        "requested_multi_stream_samples_per_query",
    },
    "Server": {
        *("requested_server_target_latency_percentile", "requested_server_target_latency_ns"),
        *("requested_server_target_qps", "requested_server_coalesce_queries"),
    },
    "Offline": {"requested_offline_expected_qps"},
}
RANKS = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
TIMED = {
    *("result_query_count", "result_min_duration_met", "result_min_queries_met", "early_stopping_met"),
    *("result_min_latency_ns", "result_mean_latency_ns", "result_max_latency_ns"),
    *(f"result_{rank}_percentile_latency_ns" for rank in RANKS),
}
MEASURED = {
    "SingleStream": {
        *("early_stopping_latency_ss", "early_stopping_latency_ms"),
        *("result_qps_with_loadgen_overhead", "result_qps_without_loadgen_overhead"),
    },
    "MultiStream": {
        "early_stopping_latency_ms",
        *("result_min_query_latency_ns", "result_mean_query_latency_ns", "result_max_query_latency_ns"),
        *(f"result_{rank}_percentile_per_query_latency_ns" for rank in RANKS),
    },
    "Server": {
        *("result_perf_constraints_met", "result_overlatency_query_count"),
        *("result_scheduled_samples_per_sec", "result_completed_samples_per_sec"),
    },
    "Offline": {"result_samples_per_second"},
}
STOPPED = {"early_stopping_ttft_result", "early_stopping_tpot_result"}
TOKENS = {
    "Server": {
        *STOPPED,
        *("requested_server_ttft_latency", "requested_server_tpot_latency", "result_token_throughput"),
        *(f"result_first_token_{rank}_percentile_latency_ns" for rank in RANKS),
        *(f"result_time_per_output_token_{rank}_percentile_ns" for rank in RANKS),
        *(f"result_first_token_{part}_latency_ns" for part in ("min", "max", "mean")),
        *(f"result_time_to_output_token_{part}" for part in ("min", "max", "mean")),
        "result_completed_tokens_per_second",
    },
    "Offline": {"result_tokens_per_second", *STOPPED},
}


def make_log(**values: str) -> DetailLog:
    """Of the JSON text of values."""
    lines = (f':::MLLOG {{"key": "{key}", "value": {value}}}\n' for key, value in {"first": "1", **values}.items())
    return parse_detail("".join(lines).encode())


def missed(release: str, **values: str) -> list[str]:
    found = list(find_missing_keys(make_log(loadgen_version=f'"{release}"', **values)))
    for item in found:
        assert (item.stated, item.derived) == ("absent", "LoadGen logs it of every such run")
        assert (item.line, item.other) == (2 + len(values), 0)
    return [item.key for item in found]


@pytest.mark.parametrize("scenario", ASKED)
def test_every_run_of_a_scenario_has_its_lines(scenario: str) -> None:
    said = {"effective_scenario": f'"{scenario}"', "effective_test_mode": '"AccuracyOnly"'}
    found = missed("5.0 @ abc", **said)
    assert sorted(found) == sorted((ALWAYS | ASKED[scenario]) - said.keys())
    said["effective_test_mode"] = '"PerformanceOnly"'
    timed = ALWAYS | ASKED[scenario] | TIMED | MEASURED[scenario] | {"early_stopping_result"}
    assert set(missed("5.0 @ abc", **said)) == timed - said.keys()
    tokens = {**said, "requested_use_token_latencies": "true"}
    own = {"early_stopping_result"} if scenario != "MultiStream" else set[str]()  # whose metric is of its text
    measured = TOKENS.get(scenario, TOKENS["Server"] - {"result_completed_tokens_per_second"})
    assert set(missed("5.0 @ abc", **tokens)) == (timed - own - tokens.keys()) | measured
    assert set(missed("5.0 @ abc", **{**tokens, "requested_use_token_latencies": "false"})) == timed - said.keys()


@pytest.mark.parametrize("version", ["6.0.17 @ d6147c7eb7", ".5a1 @ 6958607d52", "3.1"])
def test_a_version_begins_with_a_release(version: str) -> None:
    assert "loadgen_version" not in missed(version)


def test_a_log_has_a_version_of_loadgen() -> None:
    (found,) = find_missing_keys(make_log())
    assert str(found) == "loadgen_version: absent (line 1), but LoadGen logs it of every run"
    text = parse_text_log(b'"pid": 7, "tid": 7, "ts": 100ns : Test mode : Performance\n', None)
    assert list(find_missing_keys(text)) == []  # of before v1.0
    for version in ("of ours", "6", "x6.0", ""):
        found = next(find_missing_keys(make_log(loadgen_version=f'"{version}"')))
        assert str(found) == f"loadgen_version: {version} (line 2), but LoadGen's begins with a release"
