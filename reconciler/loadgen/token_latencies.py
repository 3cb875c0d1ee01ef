"""First tokens and times of tokens against the latencies of whole answers, which a log of a language model has as well.

An answer's first token comes before its end, so that the sorted latencies of first tokens are nowhere above those of
answers. What is logged as token throughput divides by the sum of all latencies, and the rate of completed tokens by the
time of the run: both know how many tokens there were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise

from reconciler.loadgen import keys
from reconciler.loadgen.inconsistency import LOADGEN, SECOND, Inconsistency, read_number, show_value
from reconciler.loadgen.log import DetailLog
from reconciler.resource.rules import rule

_DIGITS = Decimal("0.00005")  # of quotients of several doubles with six significant digits
_RATES = {"Server": keys.RESULT_COMPLETED_TOKENS_PER_SECOND, "Offline": keys.RESULT_TOKENS_PER_SECOND}
_FIRST = (
    keys.RESULT_FIRST_TOKEN_MIN_LATENCY_NS,
    keys.RESULT_FIRST_TOKEN_MAX_LATENCY_NS,
    keys.RESULT_FIRST_TOKEN_MEAN_LATENCY_NS,
)
_STOPPED = (keys.EARLY_STOPPING_TTFT_RESULT, keys.EARLY_STOPPING_TPOT_RESULT)
_RUN = (" * Run successful.", " * Run unsuccessful.")  # how LoadGen begins what it says of each of them in Server
_EACH = (
    keys.RESULT_TIME_TO_OUTPUT_TOKEN_MIN,
    keys.RESULT_TIME_TO_OUTPUT_TOKEN_MAX,
    keys.RESULT_TIME_TO_OUTPUT_TOKEN_MEAN,
)


@rule("log.tokens", "token latencies in order", sources=LOADGEN)
def find_wrong_tokens(log: DetailLog) -> Iterator[Inconsistency]:
    """Where LoadGen measures tokens, their latencies fit those of the queries (``ProcessTokenLatencies`` and
    ``PerformanceSummary::LogDetail``, results.cc)."""
    if log.get(keys.REQUESTED_USE_TOKEN_LATENCIES) is not True:
        return
    yield from _token_order(log, _FIRST, keys.FIRST_TOKEN_PERCENTILES)
    yield from _token_order(log, _EACH, keys.OUTPUT_TOKEN_PERCENTILES)
    yield from _first_before_last(log)
    yield from _token_count(log)
    yield from _token_conditions(log)


def _token_order(log: DetailLog, ends: tuple[str, str, str], ranked: Mapping[str, str]) -> Iterator[Inconsistency]:
    """Percentiles do not fall, and all are between the least and the greatest."""
    least, greatest, mean = ends
    rising = [least, *ranked.values(), greatest]
    known = [(key, found) for key in rising if (found := read_number(log, key)) is not None]
    for (before, less), (key, found) in pairwise(known):
        if found < less:
            yield Inconsistency(
                key, f"{found:f}", f"{before} is {less:f}", log.find_line_number(key), log.find_line_number(before)
            )
    middle = read_number(log, mean)
    if middle is not None and len(known) > 1 and not known[0][1] <= middle <= known[-1][1]:
        derived = f"they are from {known[0][1]:f} to {known[-1][1]:f}"
        yield Inconsistency(mean, f"{middle:f}", derived, log.find_line_number(mean))


def _first_before_last(log: DetailLog) -> Iterator[Inconsistency]:
    """Both latencies begin when the query was to be issued."""
    pairs = [(f"result_first_token_{part}_latency_ns", f"result_{part}_latency_ns") for part in ("min", "mean", "max")]
    pairs += [(keys.FIRST_TOKEN_PERCENTILES[rank], keys.RESULT_PERCENTILES[rank]) for rank in keys.PERCENTILES]
    for key, whole in pairs:
        first, last = read_number(log, key), read_number(log, whole)
        if first is not None and last is not None and first > last:
            yield Inconsistency(
                key, f"{first:f}", f"{whole} is {last:f}", log.find_line_number(key), log.find_line_number(whole)
            )


def _token_count(log: DetailLog) -> Iterator[Inconsistency]:
    key = _RATES.get(log.scenario, "")
    rate, mean = read_number(log, key), read_number(log, keys.RESULT_MEAN_LATENCY_NS)
    if rate is None:
        return
    if log.scenario == "Offline":
        samples = read_number(log, keys.RESULT_SAMPLES_PER_SECOND)
        if samples is not None and rate < samples * (1 - _DIGITS):
            why = f"{samples:f} answers a second have a token each, at least"
            yield Inconsistency(
                key, f"{rate:f}", why, log.find_line_number(key), log.find_line_number(keys.RESULT_SAMPLES_PER_SECOND)
            )
        return
    count, completed = (
        read_number(log, keys.RESULT_QUERY_COUNT),
        read_number(log, keys.RESULT_COMPLETED_SAMPLES_PER_SEC),
    )
    other = read_number(log, keys.RESULT_TOKEN_THROUGHPUT)
    if not (count and count > 1 and completed and mean and other):
        return
    tokens, wanted = rate * (count - 1) / completed, other * count * mean
    if abs(tokens - wanted) > wanted * _DIGITS + 1:
        why = f"that is {tokens:.6g} tokens, and result_token_throughput is of {wanted:.6g}"
        yield Inconsistency(
            key, f"{rate:f}", why, log.find_line_number(key), log.find_line_number(keys.RESULT_TOKEN_THROUGHPUT)
        )
    yield from _token_bounds(log, key, rate, tokens / count)


def _token_bounds(log: DetailLog, key: str, rate: Decimal, each: Decimal) -> Iterator[Inconsistency]:
    """The tokens behind the first take the time between it and the end, each between the shortest and the longest."""
    last, first = (
        read_number(log, keys.RESULT_MEAN_LATENCY_NS),
        read_number(log, keys.RESULT_FIRST_TOKEN_MEAN_LATENCY_NS),
    )
    shortest, longest = (read_number(log, name) for name in _EACH[:2])
    if last is None or first is None or not shortest or not longest:
        return
    low, high = 1 + (last - first - 1) / (longest + 1), 1 + (last - first + 1) / max(shortest - 1, Decimal(1))
    if not low * (1 - _DIGITS) <= each <= high * (1 + _DIGITS):
        why = f"answers have {each:.6g} tokens then, and their latencies leave room for {low:.6g} to {high:.6g}"
        yield Inconsistency(key, f"{rate:f}", why, log.find_line_number(key), log.find_line_number(_EACH[0]))


def _token_conditions(log: DetailLog) -> Iterator[Inconsistency]:
    """Compare conditions that LoadGen calls met with its own text and its own percentiles."""
    met = log.find_line(keys.EARLY_STOPPING_MET)
    for key in _STOPPED:
        entry = log.find_line(key)
        if entry is None or met is None or met.value is not True:
            continue  # where the one is not met, LoadGen may leave the other's empty
        if log.scenario == "Server" and not str(entry.value).startswith(_RUN):
            yield Inconsistency(key, show_value(entry), "LoadGen words it otherwise in Server", entry.line)
        if "unsuccessful" in str(entry.value).lower():
            yield Inconsistency(keys.EARLY_STOPPING_MET, "true", f"{key} is {show_value(entry)}", met.line, entry.line)
    percentile = read_number(log, keys.EFFECTIVE_TARGET_LATENCY_PERCENTILE)
    kept = log.find_line(keys.RESULT_PERF_CONSTRAINTS_MET)
    if log.scenario != "Server" or kept is None or kept.value is not True or percentile is None:
        return
    rank = format(percentile * 100, ".2f")
    for limit, key in (
        (keys.REQUESTED_SERVER_TTFT_LATENCY, keys.FIRST_TOKEN_PERCENTILES.get(rank, "")),
        (keys.REQUESTED_SERVER_TPOT_LATENCY, keys.OUTPUT_TOKEN_PERCENTILES.get(rank, "")),
    ):
        most, found = read_number(log, limit), read_number(log, key)
        if most is not None and found is not None and found > most:
            derived = f"{key} is {found / SECOND * 1000:.6g} ms of {most / SECOND * 1000:.6g}"
            yield Inconsistency(keys.RESULT_PERF_CONSTRAINTS_MET, "true", derived, kept.line, log.find_line_number(key))
