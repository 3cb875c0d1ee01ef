"""Read ``mlperf_log_summary.txt``, the log for people, and compare it with the detail log, which decides verdicts.
LoadGen writes both from the same numbers."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, Overflow

from msgspec import Struct

from reconciler.loadgen import keys
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_files import SUMMARY
from reconciler.resource.quantities import parse_decimal

_COUNT = re.compile(r"(?P<count>No|\d+) (?P<kind>warning|error)s? encountered", re.ASCII | re.IGNORECASE)

# Name in the summary: key in the detail log.
_TEXT = {
    "SUT name": keys.SUT_NAME,
    "Scenario": keys.EFFECTIVE_SCENARIO,
    "Mode": keys.EFFECTIVE_TEST_MODE,
    "Result is": keys.RESULT_VALIDITY,
}
_FLAGS = {
    "Performance constraints satisfied": keys.RESULT_PERF_CONSTRAINTS_MET,
    "Min duration satisfied": keys.RESULT_MIN_DURATION_MET,
    "Min queries satisfied": keys.RESULT_MIN_QUERIES_MET,
    "Early stopping satisfied": keys.EARLY_STOPPING_MET,
}
_SWITCHES = {name: f"effective_{name}" for name in (keys.ISSUE_UNIQUE, keys.ISSUE_SAME, "print_timestamps")}
_EXTREMES = ("Min", "Max", "Mean")
_NUMBERS = {
    "Samples per second": keys.RESULT_SAMPLES_PER_SECOND,
    "Completed samples per second": keys.RESULT_COMPLETED_SAMPLES_PER_SEC,
    "Scheduled samples per second": keys.RESULT_SCHEDULED_SAMPLES_PER_SEC,
    keys.SAMPLES_PER_QUERY: keys.EFFECTIVE_SAMPLES_PER_QUERY,
    keys.TARGET_QPS: keys.EFFECTIVE_TARGET_QPS,
    "target_latency (ns)": keys.EFFECTIVE_TARGET_LATENCY_NS,
    "max_async_queries": keys.EFFECTIVE_MAX_ASYNC_QUERIES,
    "min_duration (ms)": keys.EFFECTIVE_MIN_DURATION_MS,
    "max_duration (ms)": keys.EFFECTIVE_MAX_DURATION_MS,
    keys.MIN_QUERY_COUNT: keys.EFFECTIVE_MIN_QUERY_COUNT,
    keys.MAX_QUERY_COUNT: keys.EFFECTIVE_MAX_QUERY_COUNT,
    keys.QSL_RNG_SEED: keys.EFFECTIVE_QSL_RNG_SEED,
    keys.SAMPLE_INDEX_RNG_SEED: keys.EFFECTIVE_SAMPLE_INDEX_RNG_SEED,
    keys.SCHEDULE_RNG_SEED: keys.EFFECTIVE_SCHEDULE_RNG_SEED,
    "accuracy_log_rng_seed": keys.EFFECTIVE_ACCURACY_LOG_RNG_SEED,
    "accuracy_log_probability": keys.EFFECTIVE_ACCURACY_LOG_PROBABILITY,
    keys.SAMPLING_TARGET: keys.EFFECTIVE_ACCURACY_LOG_SAMPLING_TARGET,
    keys.ISSUE_SAME_INDEX: keys.EFFECTIVE_PERFORMANCE_ISSUE_SAME_INDEX,
    keys.PERFORMANCE_SAMPLE_COUNT: keys.EFFECTIVE_PERFORMANCE_SAMPLE_COUNT,
    "Completed tokens per second": keys.RESULT_COMPLETED_TOKENS_PER_SECOND,
    "Tokens per second": keys.RESULT_TOKENS_PER_SECOND,
    "ttft_latency (ns)": keys.REQUESTED_SERVER_TTFT_LATENCY,
    "tpot_latency (ns)": keys.REQUESTED_SERVER_TPOT_LATENCY,
    "QPS w/ loadgen overhead": keys.RESULT_QPS_WITH_LOADGEN_OVERHEAD,
    "QPS w/o loadgen overhead": keys.RESULT_QPS_WITHOUT_LOADGEN_OVERHEAD,
    "90.0th percentile latency (ns)": keys.RESULT_PERCENTILES["90.00"],
    "Min latency (ns)": keys.RESULT_MIN_LATENCY_NS,
    "Max latency (ns)": keys.RESULT_MAX_LATENCY_NS,
    "Mean latency (ns)": keys.RESULT_MEAN_LATENCY_NS,
    **{f"{p} percentile latency (ns)": keys.RESULT_PERCENTILES[p] for p in keys.PERCENTILES},
    **{f"{name} First Token latency (ns)": f"result_first_token_{name.lower()}_latency_ns" for name in _EXTREMES},
    **{f"{p} percentile first token latency (ns)": keys.FIRST_TOKEN_PERCENTILES[p] for p in keys.PERCENTILES},
    **{f"{name} Time to Output Token (ns)": f"result_time_to_output_token_{name.lower()}" for name in _EXTREMES},
    **{f"{p} percentile time to output token (ns)": keys.OUTPUT_TOKEN_PERCENTILES[p] for p in keys.PERCENTILES},
}
# MultiStream's summary states the latencies of queries, which have several samples each. Only the log states those of
# samples.
_PER_QUERY = {
    "Min latency (ns)": keys.RESULT_MIN_QUERY_LATENCY_NS,
    "Max latency (ns)": keys.RESULT_MAX_QUERY_LATENCY_NS,
    "Mean latency (ns)": keys.RESULT_MEAN_QUERY_LATENCY_NS,
    "99.0th percentile latency (ns)": keys.RESULT_QUERY_PERCENTILES["99.00"],
    **{f"{p} percentile latency (ns)": keys.RESULT_QUERY_PERCENTILES[p] for p in keys.PERCENTILES},
}
_NUMBERS_OF_QUERIES = _NUMBERS | _PER_QUERY
# Results of early stopping by release. In runs that measure tokens, a summary repeats a name.
_ESTIMATES = {
    f"* Early stopping {rank} percentile estimate": key
    for ranks, key in (
        (("90th", "90.0th"), keys.EARLY_STOPPING_LATENCY_SS),
        (("99th", "99.0th"), keys.EARLY_STOPPING_LATENCY_MS),
    )
    for rank in ranks
}


# Names of scenarios and modes before v1.0, in both logs.
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
# Results that those rounds wrote into the summary only.
_OLD_RESULTS = {
    "Result is": keys.RESULT_VALIDITY,
    **_FLAGS,
    "QPS w/ loadgen overhead": keys.RESULT_QPS_WITH_LOADGEN_OVERHEAD,
    "QPS w/o loadgen overhead": keys.RESULT_QPS_WITHOUT_LOADGEN_OVERHEAD,
    **{name: key for name, key in _NUMBERS.items() if key.startswith("result_")},
}


def list_result_keys(scenario: str) -> list[tuple[str, str]]:
    """List names in a summary before v1.0, each with the key that a detail log has used for it since. The first
    percentiles of a MultiStream summary are those of its queries."""
    names = dict(_OLD_RESULTS)
    if scenario == "MultiStream":
        names |= {f"{p} percentile latency (ns)": keys.RESULT_QUERY_PERCENTILES[p] for p in keys.PERCENTILES}
    return list(names.items())


class SummaryLine(Struct, frozen=True):
    """The text after a key, and its 1-based line."""

    value: str
    line: int


_Lines = Mapping[str, SummaryLine]


class SummaryLog(Struct, frozen=True):
    """``values``: the first line of each key; ``others``: the first later line that differs. ``warnings`` and
    ``errors`` are None if the closing counts are missing, as in a run that did not end."""

    file: str
    values: _Lines
    warnings: int | None
    errors: int | None
    others: _Lines = {}

    def list_readings(self, log: DetailLog) -> tuple[SummaryLog, ...]:
        """Return the log as read by its first lines, and as read by later ones. Releases before 4 wrote some names
        twice."""
        other = SummaryLog(self.file, self.others, self.warnings, self.errors)
        return (self, other) if self.others and log.release >= _FIRST_ONCE else (self,)

    def get(self, key: str, default: str = "") -> str:
        found = self.values.get(key)
        return default if found is None else found.value

    def find_line_number(self, key: str) -> int:
        """Return the 1-based line of a key, 0 if it is absent."""
        found = self.values.get(key)
        return 0 if found is None else found.line

    @property
    def validity(self) -> str:
        """VALID, INVALID, or empty for an accuracy run."""
        return self.get("Result is")


_FIRST_ONCE = 4  # LoadGen's release
_DIGITS = 18  # maximum digits of a count of errors, more than any run has


def parse_summary(data: bytes, file: str = SUMMARY) -> SummaryLog:
    """Parse the bytes of a summary; skip lines that are not ``key : value``."""
    return SummaryLog(file, *_parse(data))


@functools.lru_cache(maxsize=16)  # variants of a benchmark mostly publish identical ones
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
    """Find values that summary and detail log both state but that differ; return the name and the key of each."""
    for name, key in _TEXT.items():
        # A name may end in a non-text byte, which JSON cannot represent.
        said = summary.get(name).rstrip("\0")
        logged = log.get_plain(key) if said else None
        if isinstance(logged, str) and said != logged.strip().rstrip("\0"):
            yield name, key
    for name, key in _FLAGS.items():
        said = summary.get(name).lower()
        logged = log.get_plain(key) if said in ("yes", "no") else None
        if isinstance(logged, bool) and (said == "yes") is not logged:
            yield name, key
    for name, key in _SWITCHES.items():
        said = summary.get(name)
        logged = log.get_plain(key) if said else None
        if isinstance(logged, bool) and said != str(int(logged)):
            yield name, key
    numbers = _NUMBERS_OF_QUERIES if log.scenario == "MultiStream" else _NUMBERS
    if log.scenario in keys.STREAMS and not log.get_plain(keys.REQUESTED_USE_TOKEN_LATENCIES):
        numbers = numbers | _ESTIMATES
    stated = summary.values
    for name, key in [(name, key) for name, key in numbers.items() if name in stated]:
        said = stated[name].value
        logged = log.get_plain(key) if said else None
        if isinstance(logged, (int, float, Decimal)) and not isinstance(logged, bool):
            if len(said) <= _DIGITS and isinstance(logged, int) and said == str(logged):
                continue
            number = Decimal(logged)
            if number.is_finite() and not is_same_number(said, number):
                yield name, key


def is_same_number(said: str, logged: Decimal) -> bool:
    """Return True if the numbers are equal to the digits shown: two decimals in the summary, six digits in the detail
    log."""
    number = parse_decimal(said)
    if number is None:
        return False
    if number == logged:
        return True
    exponent = number.as_tuple().exponent
    last = Decimal(1).scaleb(exponent) if isinstance(exponent, int) and exponent < 0 else Decimal(0)
    try:
        return abs(number - logged) <= max(last, abs(logged) * Decimal("0.00001"))
    except Overflow:  # only one of them is too large to compute with
        return False
