"""Lines that LoadGen writes in every run, or in every run of a kind: where one is not there, what it would have denied
goes unseen."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.loadgen.inconsistency import Inconsistency, show_value
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.settings import LOADGEN_MODE, PERFORMANCE
from reconciler.loadgen.token_latencies import list_token_keys

_KNOWN = range(4, 7)  # LoadGen's releases whose sources were read: a later one may leave a line out
_RELEASE = re.compile(r"\d*\.\d", re.ASCII)  # how its version begins; that of the first ones ".5a1"
_PERCENTILES = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
_BOTH = (
    *("scenario", "test_mode", "min_duration_ms", "max_duration_ms", "min_query_count", "max_query_count"),
    *("performance_issue_unique", "performance_issue_same", "performance_issue_same_index"),
    *("accuracy_log_probability", "accuracy_log_sampling_target"),
    *("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"),
)
_ALWAYS = (
    *("test_datetime", "power_begin", "power_end", "loaded_qsl_set"),
    *("qsl_reported_total_count", "qsl_reported_performance_count", "requested_performance_sample_count_override"),
    *(f"{kind}_{name}" for kind in ("requested", "effective") for name in _BOTH),
    *("effective_min_sample_count", "effective_performance_sample_count", "effective_samples_per_query"),
    *("effective_target_latency_ns", "effective_target_latency_percentile", "effective_target_qps"),
    *("generated_query_count", "generated_samples_per_query", "generated_query_duration"),
    *("loadgen_build_date_utc", "loadgen_git_commit_date", "loadgen_git_log_message", "loadgen_file_sha1"),
)
_OF_SCENARIO = {
    "SingleStream": ("requested_single_stream_target_latency_percentile",),
    "MultiStream": ("requested_multi_stream_target_latency_percentile", "requested_multi_stream_samples_per_query"),
    "Server": (
        *("requested_server_target_latency_percentile", "requested_server_target_latency_ns"),
        *("requested_server_target_qps", "requested_server_coalesce_queries"),
    ),
    "Offline": ("requested_offline_expected_qps",),
}
_TIMED = (
    *("result_query_count", "result_min_duration_met", "result_min_queries_met", "early_stopping_met"),
    *("result_min_latency_ns", "result_mean_latency_ns", "result_max_latency_ns"),
    *(f"result_{rank}_percentile_latency_ns" for rank in _PERCENTILES),
)
_TIMED_OF_SCENARIO = {
    "SingleStream": (
        *("early_stopping_latency_ss", "early_stopping_latency_ms"),
        *("result_qps_with_loadgen_overhead", "result_qps_without_loadgen_overhead"),
    ),
    "MultiStream": (
        *("early_stopping_latency_ms", "early_stopping_result"),
        *("result_min_query_latency_ns", "result_mean_query_latency_ns", "result_max_query_latency_ns"),
        *(f"result_{rank}_percentile_per_query_latency_ns" for rank in _PERCENTILES),
    ),
    "Server": (
        *("result_perf_constraints_met", "result_overlatency_query_count"),
        *("result_scheduled_samples_per_sec", "result_completed_samples_per_sec"),
    ),
    "Offline": ("result_samples_per_second",),
}


def find_lacking_keys(log: DetailLog) -> Iterator[Inconsistency]:
    """Without a condition they are logged by ``StartTest``, ``LoadSamplesToRam`` and ``IssueQueries`` (loadgen.cc),
    ``LogRequestedTestSettings`` and ``LogEffectiveSettings`` (test_settings_internal.cc), ``LogLoadgenVersion``
    (version.cc) and ``PerformanceSummary::LogDetail`` (results.cc), each for the scenarios that are named here."""
    yield from _find_lacking_version(log)
    if log.release in _KNOWN:
        for key in log.index.list_absent(_list_keys(log)):
            yield Inconsistency(key, "absent", "LoadGen logs it of every such run", log.length)


def _find_lacking_version(log: DetailLog) -> Iterator[Inconsistency]:
    """What an old release may lack, a log of no release may not."""
    version = log.line("loadgen_version")
    if version is None and log.index.structured:
        yield Inconsistency("loadgen_version", "absent", "LoadGen logs it of every run", log.length)
    elif version is not None and not _RELEASE.match(str(version.value)):
        yield Inconsistency("loadgen_version", show_value(version), "LoadGen's begins with a release", version.line)


def _list_keys(log: DetailLog) -> Iterator[str]:
    yield from _ALWAYS
    yield from _OF_SCENARIO.get(log.scenario, ())
    if log.mode != LOADGEN_MODE[PERFORMANCE]:
        return
    yield from _TIMED
    yield from _TIMED_OF_SCENARIO.get(log.scenario, ())
    yield from list_token_keys(log)
    if not log.get("requested_use_token_latencies"):
        yield "early_stopping_result"
