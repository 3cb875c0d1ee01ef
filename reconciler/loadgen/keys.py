"""Table of all lines of LoadGen's detail log that are read, and the spec names of LoadGen's settings.

Sources: ``LogRequestedTestSettings`` and ``LogEffectiveSettings`` (test_settings_internal.cc), ``StartTest`` and
``IssueQueries`` (loadgen.cc), ``LogLoadgenVersion`` (version.cc) and ``PerformanceSummary::LogDetail`` (results.cc).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE = "SingleStream", "MultiStream", "Server", "Offline"
STREAMS = (SINGLE_STREAM, MULTI_STREAM)
PERCENTILES = {"50.00": 0.5, "90.00": 0.9, "95.00": 0.95, "97.00": 0.97, "99.00": 0.99, "99.90": 0.999}
# The first release whose lines were compared with its sources; fewer checks apply to earlier ones.
FIRST_KNOWN_RELEASE = 4

# Spec names of a run's settings; the table is in ``reconciler.loadgen.settings``.
TARGET_QPS, TARGET_LATENCY = "target_qps", "target_latency"
TARGET_LATENCY_PERCENTILE, SAMPLES_PER_QUERY = "target_latency_percentile", "samples_per_query"
MIN_DURATION, MAX_DURATION = "min_duration", "max_duration"
MIN_QUERY_COUNT, MAX_QUERY_COUNT = "min_query_count", "max_query_count"
PERFORMANCE_SAMPLE_COUNT, ACCURACY_SAMPLE_COUNT = "performance_sample_count", "accuracy_sample_count"
QSL_RNG_SEED, SAMPLE_INDEX_RNG_SEED, SCHEDULE_RNG_SEED = "qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"
SEEDS = (QSL_RNG_SEED, SAMPLE_INDEX_RNG_SEED, SCHEDULE_RNG_SEED)
# Settings of an audit.config.
ISSUE_UNIQUE, ISSUE_SAME, ISSUE_SAME_INDEX = (f"performance_issue_{name}" for name in ("unique", "same", "same_index"))
SAMPLING_TARGET = "accuracy_log_sampling_target"


class _Row(Struct, frozen=True):
    key: str
    scenarios: tuple[str, ...]
    timed: bool
    tokens: bool | None


_REQUIRED: list[_Row] = []


def _require(key: str, *scenarios: str, timed: bool = False, tokens: bool | None = None) -> str:
    """Declare a key that LoadGen logs unconditionally in every run of these scenarios (all if none is passed).
    ``timed``: in performance runs only; ``tokens``: only if token latencies are, or are not, measured."""
    _REQUIRED.append(_Row(key, scenarios, timed, tokens))
    return key


def list_required(scenario: str, *, timed: bool, tokens: bool) -> Iterator[str]:
    """List the keys of every run of a scenario. ``timed``: performance runs; ``tokens``: runs that measure tokens."""
    for row in _REQUIRED:
        fits = (not row.scenarios or scenario in row.scenarios) and row.tokens in (None, tokens)
        if fits and (timed or not row.timed):
            yield row.key


# The process and its library.
TEST_DATETIME = _require("test_datetime")
POWER_BEGIN = _require("power_begin")
POWER_END = _require("power_end")
LOADED_QSL_SET = _require("loaded_qsl_set")
QSL_REPORTED_TOTAL_COUNT = _require("qsl_reported_total_count")
QSL_REPORTED_PERFORMANCE_COUNT = _require("qsl_reported_performance_count")

# Settings as requested, with an audit.config applied, and as effective after LoadGen's own adjustments.
for _name in ("performance_sample_count_override", "scenario", "test_mode", "min_duration_ms", "max_duration_ms"):
    _require(f"requested_{_name}")
REQUESTED_MIN_QUERY_COUNT = _require("requested_min_query_count")
for _name in (
    *("max_query_count", ISSUE_UNIQUE, ISSUE_SAME, ISSUE_SAME_INDEX),
    *("accuracy_log_probability", SAMPLING_TARGET, *SEEDS),
):
    _require(f"requested_{_name}")
EFFECTIVE_SCENARIO = _require("effective_scenario")
EFFECTIVE_TEST_MODE = _require("effective_test_mode")
EFFECTIVE_MIN_DURATION_MS = _require("effective_min_duration_ms")
EFFECTIVE_MAX_DURATION_MS = _require("effective_max_duration_ms")
EFFECTIVE_MIN_QUERY_COUNT = _require("effective_min_query_count")
EFFECTIVE_MAX_QUERY_COUNT = _require("effective_max_query_count")
EFFECTIVE_PERFORMANCE_ISSUE_UNIQUE = _require("effective_performance_issue_unique")
_require("effective_performance_issue_same")
EFFECTIVE_PERFORMANCE_ISSUE_SAME_INDEX = _require("effective_performance_issue_same_index")
EFFECTIVE_ACCURACY_LOG_PROBABILITY = _require("effective_accuracy_log_probability")
EFFECTIVE_ACCURACY_LOG_SAMPLING_TARGET = _require("effective_accuracy_log_sampling_target")
EFFECTIVE_QSL_RNG_SEED = _require("effective_qsl_rng_seed")
EFFECTIVE_SAMPLE_INDEX_RNG_SEED = _require("effective_sample_index_rng_seed")
EFFECTIVE_SCHEDULE_RNG_SEED = _require("effective_schedule_rng_seed")
EFFECTIVE_MIN_SAMPLE_COUNT = _require("effective_min_sample_count")
EFFECTIVE_PERFORMANCE_SAMPLE_COUNT = _require("effective_performance_sample_count")
EFFECTIVE_SAMPLES_PER_QUERY = _require("effective_samples_per_query")
EFFECTIVE_TARGET_LATENCY_NS = _require("effective_target_latency_ns")
EFFECTIVE_TARGET_LATENCY_PERCENTILE = _require("effective_target_latency_percentile")
EFFECTIVE_TARGET_QPS = _require("effective_target_qps")
GENERATED_QUERY_COUNT = _require("generated_query_count")
GENERATED_SAMPLES_PER_QUERY = _require("generated_samples_per_query")
GENERATED_QUERY_DURATION = _require("generated_query_duration")

# LoadGen's build.
LOADGEN_BUILD_DATE_UTC = _require("loadgen_build_date_utc")
LOADGEN_GIT_COMMIT_DATE = _require("loadgen_git_commit_date")
LOADGEN_GIT_LOG_MESSAGE = _require("loadgen_git_log_message")
LOADGEN_FILE_SHA1 = _require("loadgen_file_sha1")

# Settings of one scenario.
REQUESTED_SINGLE_STREAM_TARGET_LATENCY_PERCENTILE = _require(
    "requested_single_stream_target_latency_percentile", SINGLE_STREAM
)
REQUESTED_MULTI_STREAM_TARGET_LATENCY_PERCENTILE = _require(
    "requested_multi_stream_target_latency_percentile", MULTI_STREAM
)
REQUESTED_MULTI_STREAM_SAMPLES_PER_QUERY = _require("requested_multi_stream_samples_per_query", MULTI_STREAM)
REQUESTED_SERVER_TARGET_LATENCY_PERCENTILE = _require("requested_server_target_latency_percentile", SERVER)
REQUESTED_SERVER_TARGET_LATENCY_NS = _require("requested_server_target_latency_ns", SERVER)
REQUESTED_SERVER_TARGET_QPS = _require("requested_server_target_qps", SERVER)
REQUESTED_SERVER_COALESCE_QUERIES = _require("requested_server_coalesce_queries", SERVER)
REQUESTED_OFFLINE_EXPECTED_QPS = _require("requested_offline_expected_qps", OFFLINE)

# Results of performance runs.
RESULT_QUERY_COUNT = _require("result_query_count", timed=True)
RESULT_MIN_DURATION_MET = _require("result_min_duration_met", timed=True)
RESULT_MIN_QUERIES_MET = _require("result_min_queries_met", timed=True)
EARLY_STOPPING_MET = _require("early_stopping_met", timed=True)
RESULT_MIN_LATENCY_NS = _require("result_min_latency_ns", timed=True)
RESULT_MEAN_LATENCY_NS = _require("result_mean_latency_ns", timed=True)
RESULT_MAX_LATENCY_NS = _require("result_max_latency_ns", timed=True)
RESULT_PERCENTILES = {rank: _require(f"result_{rank}_percentile_latency_ns", timed=True) for rank in PERCENTILES}
EARLY_STOPPING_LATENCY_SS = _require("early_stopping_latency_ss", SINGLE_STREAM, timed=True)
EARLY_STOPPING_LATENCY_MS = _require("early_stopping_latency_ms", SINGLE_STREAM, MULTI_STREAM, timed=True)
RESULT_QPS_WITH_LOADGEN_OVERHEAD = _require("result_qps_with_loadgen_overhead", SINGLE_STREAM, timed=True)
RESULT_QPS_WITHOUT_LOADGEN_OVERHEAD = _require("result_qps_without_loadgen_overhead", SINGLE_STREAM, timed=True)
RESULT_MIN_QUERY_LATENCY_NS = _require("result_min_query_latency_ns", MULTI_STREAM, timed=True)
RESULT_MEAN_QUERY_LATENCY_NS = _require("result_mean_query_latency_ns", MULTI_STREAM, timed=True)
RESULT_MAX_QUERY_LATENCY_NS = _require("result_max_query_latency_ns", MULTI_STREAM, timed=True)
RESULT_QUERY_PERCENTILES = {
    rank: _require(f"result_{rank}_percentile_per_query_latency_ns", MULTI_STREAM, timed=True) for rank in PERCENTILES
}
RESULT_PERF_CONSTRAINTS_MET = _require("result_perf_constraints_met", SERVER, timed=True)
RESULT_OVERLATENCY_QUERY_COUNT = _require("result_overlatency_query_count", SERVER, timed=True)
RESULT_SCHEDULED_SAMPLES_PER_SEC = _require("result_scheduled_samples_per_sec", SERVER, timed=True)
RESULT_COMPLETED_SAMPLES_PER_SEC = _require("result_completed_samples_per_sec", SERVER, timed=True)
RESULT_SAMPLES_PER_SECOND = _require("result_samples_per_second", OFFLINE, timed=True)
# The flags that VALID requires.
CONDITIONS = (RESULT_PERF_CONSTRAINTS_MET, RESULT_MIN_DURATION_MET, RESULT_MIN_QUERIES_MET, EARLY_STOPPING_MET)


# Results of performance runs that measure token latencies.
def _require_of_tokens(key: str, *scenarios: str) -> str:
    """Declare a key of runs that measure tokens. Offline has no first tokens."""
    return _require(key, *(scenarios or (SINGLE_STREAM, MULTI_STREAM, SERVER)), timed=True, tokens=True)


EARLY_STOPPING_TTFT_RESULT = _require("early_stopping_ttft_result", timed=True, tokens=True)
EARLY_STOPPING_TPOT_RESULT = _require("early_stopping_tpot_result", timed=True, tokens=True)
REQUESTED_SERVER_TTFT_LATENCY = _require_of_tokens("requested_server_ttft_latency")
REQUESTED_SERVER_TPOT_LATENCY = _require_of_tokens("requested_server_tpot_latency")
FIRST_TOKEN_PERCENTILES = {
    rank: _require_of_tokens(f"result_first_token_{rank}_percentile_latency_ns") for rank in PERCENTILES
}
OUTPUT_TOKEN_PERCENTILES = {
    rank: _require_of_tokens(f"result_time_per_output_token_{rank}_percentile_ns") for rank in PERCENTILES
}
# By "min", "max" and "mean".
FIRST_TOKEN_LATENCY = {
    end: _require_of_tokens(f"result_first_token_{end}_latency_ns") for end in ("min", "max", "mean")
}
TIME_TO_OUTPUT_TOKEN = {end: _require_of_tokens(f"result_time_to_output_token_{end}") for end in FIRST_TOKEN_LATENCY}
RESULT_TOKEN_THROUGHPUT = _require_of_tokens("result_token_throughput")
RESULT_COMPLETED_TOKENS_PER_SECOND = _require_of_tokens("result_completed_tokens_per_second", SERVER)
RESULT_TOKENS_PER_SECOND = _require_of_tokens("result_tokens_per_second", OFFLINE)
EARLY_STOPPING_RESULT = _require("early_stopping_result", timed=True, tokens=False)
_require_of_tokens(EARLY_STOPPING_RESULT, MULTI_STREAM)

# Keys that not every run has.
LOADGEN_VERSION = "loadgen_version"
SUT_NAME = "sut_name"
QSL_NAME = "qsl_name"
NUM_ERRORS = "num_errors"
RESULT_VALIDITY = "result_validity"
RESULT_INVALID_REASON = "result_invalid_reason"
EFFECTIVE_ACCURACY_SAMPLE_COUNT = "effective_accuracy_sample_count"
EFFECTIVE_ACCURACY_LOG_RNG_SEED = "effective_accuracy_log_rng_seed"
EFFECTIVE_MAX_ASYNC_QUERIES = "effective_max_async_queries"
EFFECTIVE_SAMPLE_CONCATENATE_PERMUTATION = "effective_sample_concatenate_permutation"
REQUESTED_SINGLE_STREAM_EXPECTED_LATENCY_NS = "requested_single_stream_expected_latency_ns"
REQUESTED_MULTI_STREAM_EXPECTED_LATENCY_NS = "requested_multi_stream_expected_latency_ns"
REQUESTED_USE_TOKEN_LATENCIES = "requested_use_token_latencies"  # noqa: S105
