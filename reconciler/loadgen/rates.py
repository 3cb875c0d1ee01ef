"""Rates, latencies and counts of a performance run against the clock and the settings that they are derived from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from reconciler.loadgen import keys
from reconciler.loadgen.inconsistency import (
    CLOCK,
    DRIFT,
    ENDING,
    LOADGEN,
    SECOND,
    Inconsistency,
    read_longest_seconds,
    read_number,
    read_run_seconds,
    show_value,
)
from reconciler.loadgen.log import DetailLog
from reconciler.resource.rules import rule

_DIGITS = Decimal("0.00001")  # of a double with six significant digits
_LONGEST_GAP = 40  # mean gaps between two queries of Server: a longer one comes once in e^40
_CHANCE = Decimal(8)  # standard deviations of a schedule's mean gap: more comes once in 10^15
_PART = Decimal("1.25")  # of their latencies, by which queries one after the other may be apart
_BETWEEN = Decimal("0.0005")  # seconds more, at least
_CENT, _FIRST_LOGGED = Decimal("0.01"), 2  # LoadGen's release
_SLACK = Decimal("1.1")  # LoadGen's, of the samples that Offline needs


def _rounding(log: DetailLog) -> Decimal:
    """Find the further rounding where the rates are those of a summary: it has two decimals."""
    return _CENT if log.release < _FIRST_LOGGED else Decimal(0)


@rule("log.rates", "rates that follow from counts and durations", sources=LOADGEN)
def find_wrong_rates(log: DetailLog) -> Iterator[Inconsistency]:
    """``PerformanceSummary::LogDetail`` (results.cc:747 at v5.1.1) and ``IssueQueriesInternal``
    (issue_query_controller.cc), which issues the queries of streams one after the other."""
    if log.scenario == "Offline":
        yield from _offline_rate(log)
        yield from _offline_size(log)
    elif log.scenario == "Server":
        yield from _server_rates(log)
    else:
        yield from _stream_rates(log)


def _offline_rate(log: DetailLog) -> Iterator[Inconsistency]:
    """All samples are one query, and the slowest of them ends the run."""
    stated, slowest = read_number(log, keys.RESULT_SAMPLES_PER_SECOND), read_number(log, keys.RESULT_MAX_LATENCY_NS)
    each, queries = read_number(log, keys.GENERATED_SAMPLES_PER_QUERY), read_number(log, keys.RESULT_QUERY_COUNT)
    if stated is None or not slowest or each is None or queries is None:
        return
    each = _pad(log, each)
    derived = each * queries * SECOND / slowest
    edge = _rounding(log)
    # Releases before 5 divide by when the last sample in their order was done, which need not be the slowest.
    most = derived * (2 if log.release < 5 else 1 + _DIGITS)
    if not derived * (1 - _DIGITS) - edge <= stated <= most + edge:
        why = f"{each * queries:f} samples in {slowest / SECOND:.6g} s are {derived:.6g}"
        yield Inconsistency(
            keys.RESULT_SAMPLES_PER_SECOND, f"{stated:f}", why, log.find_line_number(keys.RESULT_SAMPLES_PER_SECOND)
        )
    yield from _within_clock(log, keys.RESULT_MAX_LATENCY_NS, slowest / SECOND)
    yield from _fills_clock(log, keys.RESULT_MAX_LATENCY_NS, slowest / SECOND)


_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
_LOGS_PADDED = (5, 0, 11)


def _pad(log: DetailLog, each: Decimal) -> Decimal:
    """With equal issue the samples of a query are whole permutations of the set; before 5.0.11 LoadGen logs how many
    there were before they were filled up (loadgen.cc, GenerateQueries)."""
    found, asked = _RELEASE.match(log.version), read_number(log, keys.EFFECTIVE_PERFORMANCE_SAMPLE_COUNT)
    filled = log.get(keys.EFFECTIVE_SAMPLE_CONCATENATE_PERMUTATION) is True
    if not filled or not asked or found is None or tuple(map(int, found.groups())) >= _LOGS_PADDED:
        return each
    loaded = min(asked, read_number(log, keys.QSL_REPORTED_TOTAL_COUNT) or asked)  # it loads no more than there are
    return (each + loaded - 1) // loaded * loaded


def _offline_size(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen asks for what the target rate needs and 10 % more, or the minimum, in whole permutations where asked."""
    issued, rate = read_number(log, keys.GENERATED_SAMPLES_PER_QUERY), read_number(log, keys.EFFECTIVE_TARGET_QPS)
    least, duration = read_number(log, keys.REQUESTED_MIN_QUERY_COUNT), read_number(log, keys.EFFECTIVE_MIN_DURATION_MS)
    loaded = read_number(log, keys.EFFECTIVE_PERFORMANCE_SAMPLE_COUNT)
    if issued is None or rate is None or duration is None or loaded is None or _issues_few(log):
        return
    most = max(rate * duration / 1000 * _SLACK, least or 0) * (1 + DRIFT) + 2 * loaded
    if issued > most:
        key = keys.GENERATED_SAMPLES_PER_QUERY
        derived = f"{rate:.6g} samples/s for {duration / 1000:.6g} s need no more than {most:.6g}"
        yield Inconsistency(
            key, f"{issued:f}", derived, log.find_line_number(key), log.find_line_number(keys.EFFECTIVE_TARGET_QPS)
        )


def _issues_few(log: DetailLog) -> bool:
    """In tests that issue each sample once, or one always, LoadGen counts otherwise."""
    return any(log.get(f"effective_performance_issue_{name}") is True for name in ("unique", "same"))


def _server_rates(log: DetailLog) -> Iterator[Inconsistency]:
    count = read_number(log, keys.RESULT_QUERY_COUNT)
    scheduled, completed = (read_number(log, f"result_{name}_samples_per_sec") for name in ("scheduled", "completed"))
    planned = read_number(log, keys.GENERATED_QUERY_DURATION)
    if count is None or count < 2:
        return
    if scheduled and planned:
        derived = (count - 1) * SECOND / planned
        # The generated duration ends one gap behind the last query, whose time the rate is of. Gaps are exponential.
        most = derived * count / (count - _LONGEST_GAP) if count > _LONGEST_GAP else scheduled
        if not derived * (1 - DRIFT) <= scheduled <= most * (1 + DRIFT):
            why = f"{count:f} queries in {planned / SECOND:.6g} s are {derived:.6g}"
            key = keys.RESULT_SCHEDULED_SAMPLES_PER_SEC
            yield Inconsistency(
                key,
                f"{scheduled:f}",
                why,
                log.find_line_number(key),
                log.find_line_number(keys.GENERATED_QUERY_DURATION),
            )
        # The gap behind the last query is not awaited: it is issued when as many gaps are over as the rate is of.
        yield from _within_clock(log, keys.GENERATED_QUERY_DURATION, min(planned / SECOND, (count - 1) / scheduled))
        slowest = read_number(log, keys.RESULT_MAX_LATENCY_NS)
        if slowest is not None:
            yield from _fills_clock(log, keys.GENERATED_QUERY_DURATION, (planned + slowest) / SECOND)
    asked = read_number(log, keys.EFFECTIVE_TARGET_QPS)
    if scheduled and asked and abs(scheduled / asked - 1) > DRIFT + _CHANCE / count.sqrt():
        key, line = keys.RESULT_SCHEDULED_SAMPLES_PER_SEC, log.find_line_number(keys.EFFECTIVE_TARGET_QPS)
        yield Inconsistency(
            key, f"{scheduled:f}", f"the target of the schedule is {asked:f}", log.find_line_number(key), line
        )
    if scheduled and completed and completed > scheduled * (1 + DRIFT):
        key, line = keys.RESULT_COMPLETED_SAMPLES_PER_SEC, log.find_line_number(keys.RESULT_SCHEDULED_SAMPLES_PER_SEC)
        yield Inconsistency(key, f"{completed:f}", f"{scheduled:f} were scheduled", log.find_line_number(key), line)


def _stream_rates(log: DetailLog) -> Iterator[Inconsistency]:
    """One query after the other: together they take no longer than the run."""
    count = read_number(log, keys.RESULT_QUERY_COUNT)
    key = keys.RESULT_MEAN_QUERY_LATENCY_NS if log.scenario == "MultiStream" else keys.RESULT_MEAN_LATENCY_NS
    mean = read_number(log, key)
    if count and mean:
        yield from _within_clock(log, key, count * mean / SECOND)
        # The next query is issued once the thread that waits for the one before is woken, which other load on the
        # machine delays by milliseconds. It delays answers as well: the slowest bounds the mean of such times.
        slowest = read_number(log, key.replace("mean", "max")) or Decimal(0)
        overhead = count * max(_BETWEEN, slowest / SECOND)
        yield from _fills_clock(log, key, count * mean / SECOND * _PART + overhead)
    stated = read_number(log, keys.RESULT_QPS_WITHOUT_LOADGEN_OVERHEAD)
    if stated and mean and log.scenario == "SingleStream":
        # The mean is cut to whole nanoseconds.
        low, high = Decimal(SECOND) / (mean + 1), Decimal(SECOND) / mean
        edge = _rounding(log)
        if not low * (1 - _DIGITS) - edge <= stated <= high * (1 + _DIGITS) + edge:
            why = f"a mean latency of {mean:f} ns is {high:.6g}"
            line = log.find_line_number(keys.RESULT_QPS_WITHOUT_LOADGEN_OVERHEAD)
            yield Inconsistency(
                keys.RESULT_QPS_WITHOUT_LOADGEN_OVERHEAD, f"{stated:f}", why, line, log.find_line_number(key)
            )


def _within_clock(log: DetailLog, key: str, seconds: Decimal) -> Iterator[Inconsistency]:
    """The run ends with the last completion (``GetMaxCompletionTime``, loadgen.cc:553 at v5.1.1): no time of queries
    that come one after the other is longer."""
    elapsed = read_longest_seconds(log)
    if elapsed is not None and seconds > elapsed + CLOCK + elapsed * DRIFT:
        why = f"that is {seconds:.6g} s of queries, and the run lasted {elapsed:.6g} s"
        yield Inconsistency(
            key, show_value(log.index[key]), why, log.find_line_number(key), log.find_line_number(keys.POWER_END)
        )


def _fills_clock(log: DetailLog, key: str, seconds: Decimal) -> Iterator[Inconsistency]:
    """All was done after ``seconds``: the run ended then, by the same clock."""
    elapsed = read_run_seconds(log)
    if elapsed is not None and elapsed > seconds + ENDING + elapsed * DRIFT:
        why = f"the last answer came after {seconds:.6g} s at most, and the run lasted {elapsed:.6g} s"
        yield Inconsistency(
            key, show_value(log.index[key]), why, log.find_line_number(key), log.find_line_number(keys.POWER_END)
        )
