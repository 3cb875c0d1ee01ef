"""Reads ``mlperf_log_summary.txt``, the log for people, and holds it against the detail log, on which verdicts rest:
LoadGen writes both from the same numbers."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, Overflow
from typing import Any

from msgspec import Struct

from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_files import SUMMARY
from reconciler.resource.quantities import parse_decimal

_COUNT = re.compile(r"(?P<count>No|\d+) (?P<kind>warning|error)s? encountered", re.ASCII | re.IGNORECASE)

# Name in the summary: key in the detail log.
_TEXT = {
    "SUT name": "sut_name",
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "Result is": "result_validity",
}
_FLAGS = {
    "Performance constraints satisfied": "result_perf_constraints_met",
    "Min duration satisfied": "result_min_duration_met",
    "Min queries satisfied": "result_min_queries_met",
    "Early stopping satisfied": "early_stopping_met",
}
_SWITCHES = {
    name: f"effective_{name}" for name in ("performance_issue_unique", "performance_issue_same", "print_timestamps")
}
_EXTREMES = ("Min", "Max", "Mean")
_PERCENTILES = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
_NUMBERS = {
    "Samples per second": "result_samples_per_second",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "samples_per_query": "effective_samples_per_query",
    "target_qps": "effective_target_qps",
    "target_latency (ns)": "effective_target_latency_ns",
    "max_async_queries": "effective_max_async_queries",
    "min_duration (ms)": "effective_min_duration_ms",
    "max_duration (ms)": "effective_max_duration_ms",
    "min_query_count": "effective_min_query_count",
    "max_query_count": "effective_max_query_count",
    "qsl_rng_seed": "effective_qsl_rng_seed",
    "sample_index_rng_seed": "effective_sample_index_rng_seed",
    "schedule_rng_seed": "effective_schedule_rng_seed",
    "accuracy_log_rng_seed": "effective_accuracy_log_rng_seed",
    "accuracy_log_probability": "effective_accuracy_log_probability",
    "accuracy_log_sampling_target": "effective_accuracy_log_sampling_target",
    "performance_issue_same_index": "effective_performance_issue_same_index",
    "performance_sample_count": "effective_performance_sample_count",
    "Completed tokens per second": "result_completed_tokens_per_second",
    "Tokens per second": "result_tokens_per_second",
    "ttft_latency (ns)": "requested_server_ttft_latency",
    "tpot_latency (ns)": "requested_server_tpot_latency",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
    "90.0th percentile latency (ns)": "result_90.00_percentile_latency_ns",
    "Min latency (ns)": "result_min_latency_ns",
    "Max latency (ns)": "result_max_latency_ns",
    "Mean latency (ns)": "result_mean_latency_ns",
    **{f"{p} percentile latency (ns)": f"result_{p}_percentile_latency_ns" for p in _PERCENTILES},
    **{f"{name} First Token latency (ns)": f"result_first_token_{name.lower()}_latency_ns" for name in _EXTREMES},
    **{
        f"{p} percentile first token latency (ns)": f"result_first_token_{p}_percentile_latency_ns"
        for p in _PERCENTILES
    },
    **{f"{name} Time to Output Token (ns)": f"result_time_to_output_token_{name.lower()}" for name in _EXTREMES},
    **{
        f"{p} percentile time to output token (ns)": f"result_time_per_output_token_{p}_percentile_ns"
        for p in _PERCENTILES
    },
}
# MultiStream's summary states the latencies of queries, each of several samples; those of samples are in the log alone.
_PER_QUERY = {
    "Min latency (ns)": "result_min_query_latency_ns",
    "Max latency (ns)": "result_max_query_latency_ns",
    "Mean latency (ns)": "result_mean_query_latency_ns",
    "99.0th percentile latency (ns)": "result_99.00_percentile_per_query_latency_ns",
    **{f"{p} percentile latency (ns)": f"result_{p}_percentile_per_query_latency_ns" for p in _PERCENTILES},
}
_NUMBERS_OF_QUERIES = _NUMBERS | _PER_QUERY
_STREAMS = ("SingleStream", "MultiStream")
# What early stopping found, by the release; of runs that measure tokens a summary has more than one of a name.
_ESTIMATES = {
    f"* Early stopping {rank} percentile estimate": key
    for ranks, key in (
        (("90th", "90.0th"), "early_stopping_latency_ss"),
        (("99th", "99.0th"), "early_stopping_latency_ms"),
    )
    for rank in ranks
}


# What rounds before v1.0 called scenarios and modes, in both logs.
OLD_WORDS = {
    "Single Stream": "SingleStream",
    "Multi Stream": "MultiStream",
    "Performance": "PerformanceOnly",
    "Accuracy": "AccuracyOnly",
    "Submission": "SubmissionRun",
}
_OLD_VALUES = {(name, old): new for name in ("Scenario", "Mode") for old, new in OLD_WORDS.items()} | {
    (name, text): digit for name in _SWITCHES for text, digit in (("false", "0"), ("true", "1"))
}
_OLD_NAMES = frozenset(name for name, _ in _OLD_VALUES)
# Results that those rounds wrote into the summary alone.
_OLD_RESULTS = {
    "Result is": "result_validity",
    **_FLAGS,
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
    **{name: key for name, key in _NUMBERS.items() if key.startswith("result_")},
}


def list_result_keys(scenario: str) -> list[tuple[str, str]]:
    """Name in a summary of before v1.0, and the key that a detail log has for it since. The first percentiles of a
    MultiStream summary are those of its queries."""
    names = dict(_OLD_RESULTS)
    if scenario == "MultiStream":
        names |= {f"{p} percentile latency (ns)": f"result_{p}_percentile_per_query_latency_ns" for p in _PERCENTILES}
    return list(names.items())


class SummaryLine(Struct, frozen=True):
    """The text behind a key, and its 1-based line."""

    value: str
    line: int


_Lines = Mapping[str, SummaryLine]


class SummaryLog(Struct, frozen=True):
    """``values``: the first line of each key; ``others``: the first that says otherwise. ``warnings`` and ``errors``
    are None when the closing counts are missing, which is so when the run did not end."""

    file: str
    values: _Lines
    warnings: int | None
    errors: int | None
    others: _Lines = {}

    def list_readings(self, log: DetailLog) -> tuple[SummaryLog, ...]:
        """As who reads its first lines takes it, and who reads others. Releases before 4 wrote some names twice."""
        other = SummaryLog(self.file, self.others, self.warnings, self.errors)
        return (self, other) if self.others and log.release >= _FIRST_ONCE else (self,)

    def get(self, key: str, default: str = "") -> str:
        found = self.values.get(key)
        return default if found is None else found.value

    def number(self, key: str) -> int:
        """The 1-based line of a key, 0 when it is absent."""
        found = self.values.get(key)
        return 0 if found is None else found.line

    @property
    def validity(self) -> str:
        """VALID, INVALID, or empty for an accuracy run."""
        return self.get("Result is")


_FIRST_ONCE = 4  # LoadGen's release
_DIGITS = 18  # of a count of errors: more is more than any run has


def parse_summary(data: bytes, file: str = SUMMARY) -> SummaryLog:
    """Parse the bytes of a summary; lines that are no ``key : value`` are passed over."""
    return SummaryLog(file, *_parse(data))


@functools.lru_cache(maxsize=16)  # variants of a benchmark mostly publish the very same ones
def _parse(data: bytes) -> tuple[_Lines, int | None, int | None, _Lines]:
    values: dict[str, SummaryLine] = {}
    others: dict[str, SummaryLine] = {}
    counts: dict[str, int] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        key, colon, value = line.partition(":")
        if colon:
            key, value = key.strip(), value.strip()
            if key in _OLD_NAMES:
                value = _OLD_VALUES.get((key, value), value)
            first = values.get(key)
            if first is None:
                values[key] = SummaryLine(value, number)
            elif first.value != value:
                others.setdefault(key, SummaryLine(value, number))
        elif found := _COUNT.match(line):
            counts[found["kind"].lower()] = 0 if found["count"].lower() == "no" else int(found["count"][:_DIGITS])
    return values, counts.get("warning"), counts.get("error"), others


def find_differing(summary: SummaryLog, log: DetailLog) -> Iterator[tuple[str, str]]:
    """Name in the summary and key in the detail log of each value that both state and that is not the same."""
    for name, key in _TEXT.items():
        # A name may end in a byte of its own, which JSON has no room for.
        said = summary.get(name).rstrip("\0")
        logged = _value(log, key) if said else None
        if isinstance(logged, str) and said != logged.strip().rstrip("\0"):
            yield name, key
    for name, key in _FLAGS.items():
        said = summary.get(name).lower()
        logged = _value(log, key) if said in ("yes", "no") else None
        if isinstance(logged, bool) and (said == "yes") is not logged:
            yield name, key
    for name, key in _SWITCHES.items():
        said = summary.get(name)
        logged = _value(log, key) if said else None
        if isinstance(logged, bool) and said != str(int(logged)):
            yield name, key
    numbers = _NUMBERS_OF_QUERIES if log.scenario == "MultiStream" else _NUMBERS
    if log.scenario in _STREAMS and not _value(log, "requested_use_token_latencies"):
        numbers = numbers | _ESTIMATES
    stated = summary.values
    for name, key in [(name, key) for name, key in numbers.items() if name in stated]:
        said = stated[name].value
        logged = _value(log, key) if said else None
        if isinstance(logged, (int, float, Decimal)) and not isinstance(logged, bool):
            if len(said) <= _DIGITS and isinstance(logged, int) and said == str(logged):
                continue
            number = Decimal(logged)
            if number.is_finite() and not is_same_number(said, number):
                yield name, key


def _value(log: DetailLog, key: str) -> Any:
    entry = log.line(key)
    return None if entry is None or entry.raw else entry.value


def is_same_number(said: str, logged: Decimal) -> bool:
    """Equal to the digits that are shown: the summary has two decimals where the detail log has six digits."""
    number = parse_decimal(said)
    if number is None:
        return False
    if number == logged:
        return True
    exponent = number.as_tuple().exponent
    last = Decimal(1).scaleb(exponent) if isinstance(exponent, int) and exponent < 0 else Decimal(0)
    try:
        return abs(number - logged) <= max(last, abs(logged) * Decimal("0.00001"))
    except Overflow:  # one is beyond all that can be computed with, and the other is not
        return False
