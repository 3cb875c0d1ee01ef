"""Values in a detail log that LoadGen derives from others: settings, counts, rates, percentiles and its own version."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

from reconciler.loadgen import keys
from reconciler.loadgen.early_stopping import is_allowed_over
from reconciler.loadgen.inconsistency import (
    CLOCK,
    CLOCK_KEPT,
    DRIFT,
    ENDING,
    LOADGEN,
    SECOND,
    Inconsistency,
    contradict,
    is_wrapped,
    read_integer,
    read_longest_seconds,
    read_number,
    read_run_seconds,
    show_value,
)
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_line import LogLine
from reconciler.resource.rules import rule

_PERCENTILE = keys.EFFECTIVE_TARGET_LATENCY_PERCENTILE
# Effective settings or counts, each with the request or setting from which it is taken (``TestSettingsInternal``).
_TAKEN = {
    "SingleStream": (
        (_PERCENTILE, keys.REQUESTED_SINGLE_STREAM_TARGET_LATENCY_PERCENTILE),
        (keys.GENERATED_SAMPLES_PER_QUERY, keys.EFFECTIVE_SAMPLES_PER_QUERY),
    ),
    "MultiStream": (
        (_PERCENTILE, keys.REQUESTED_MULTI_STREAM_TARGET_LATENCY_PERCENTILE),
        (keys.EFFECTIVE_SAMPLES_PER_QUERY, keys.REQUESTED_MULTI_STREAM_SAMPLES_PER_QUERY),
        (keys.GENERATED_SAMPLES_PER_QUERY, keys.EFFECTIVE_SAMPLES_PER_QUERY),
    ),
    "Server": (
        (_PERCENTILE, keys.REQUESTED_SERVER_TARGET_LATENCY_PERCENTILE),
        (keys.EFFECTIVE_TARGET_LATENCY_NS, keys.REQUESTED_SERVER_TARGET_LATENCY_NS),
        (keys.EFFECTIVE_TARGET_QPS, keys.REQUESTED_SERVER_TARGET_QPS),
        (keys.GENERATED_SAMPLES_PER_QUERY, keys.EFFECTIVE_SAMPLES_PER_QUERY),
    ),
    "Offline": ((keys.EFFECTIVE_TARGET_QPS, keys.REQUESTED_OFFLINE_EXPECTED_QPS),),
}
_SINGLE = {
    "SingleStream": keys.EFFECTIVE_SAMPLES_PER_QUERY,
    "Server": keys.EFFECTIVE_SAMPLES_PER_QUERY,
    "Offline": keys.RESULT_QUERY_COUNT,  # one query contains all samples
}
_OVERHEAD = Decimal("1.001")  # two clocks
_HASH = 7  # minimum number of digits that identify a commit
_SOURCES, _NUMBERED, _LINE_ENDS = keys.LOADGEN_FILE_SHA1, "/VERSION.txt", (b"\n", b"", b"\r\n")


@rule("log.derived-settings", "settings that LoadGen derives", sources=LOADGEN)
def find_wrong_derivations(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen derives settings of a performance run from others (``TestSettingsInternal``, test_settings_internal.cc;
    ``GenerateQueries``, loadgen.cc)."""
    for key, source in _TAKEN.get(log.scenario, ()):
        taken, asked = read_number(log, key), read_number(log, source)
        if taken is not None and asked is not None and taken != asked:
            yield contradict(log, key, f"{taken:f}", f"{source} is {asked:f}", source)
    single = _SINGLE.get(log.scenario, "")
    count = read_number(log, single)
    if count is not None and count != 1:
        yield contradict(log, single, f"{count:f}", f"it is 1 in {log.scenario}")
    if log.scenario == "SingleStream":
        yield from _find_wrong_rate(log)


def _find_wrong_rate(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen's own rate counts all queries but the last, up to the last one's issue, when the others were answered
    (``qps_w_lg`` of ``LogDetail``, results.cc; ``IssueQueriesInternal``, issue_query_controller.cc). The last query may
    have taken the longest."""
    gross, mean = keys.RESULT_QPS_WITH_LOADGEN_OVERHEAD, keys.RESULT_MEAN_LATENCY_NS
    rate, count = read_number(log, gross), read_number(log, keys.RESULT_QUERY_COUNT)
    average, slowest = read_number(log, mean), read_number(log, keys.RESULT_MAX_LATENCY_NS)
    if rate is None or count is None or average is None or slowest is None or count * average <= slowest:
        return
    if is_wrapped(log, average):
        return
    most = (count - 1) * SECOND / (count * average - slowest)
    if rate > most * _OVERHEAD:
        why = f"{count:f} queries of {average:f} ns are {most:.6g} at most"
        yield contradict(log, gross, f"{rate:f}", why, mean)


@rule("log.release", "one commit of LoadGen", sources=LOADGEN)
def find_wrong_release(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen logs the commit that it was built from twice, and both values come from one git in one build
    (``generate_loadgen_version_definitions_git``, version_generator.py). The commit date and the build date come from
    two machines, so a conflict between them is a doubt."""
    version, message = log.find_line(keys.LOADGEN_VERSION), log.find_line(keys.LOADGEN_GIT_LOG_MESSAGE)
    if version is not None and message is not None:
        commit, head = str(version.value).partition("@")[2].strip(), str(message.value).strip()[:40]
        if len(commit) >= _HASH and _is_hash(commit) and _is_hash(head) and not head.startswith(commit):
            derived = f"its sources were at {head[:12]}"
            yield contradict(log, keys.LOADGEN_VERSION, show_value(version), derived, keys.LOADGEN_GIT_LOG_MESSAGE)
    made, built = log.find_line(keys.LOADGEN_GIT_COMMIT_DATE), log.find_line(keys.LOADGEN_BUILD_DATE_UTC)
    if made is None or built is None:
        return
    try:
        dates = [datetime.fromisoformat(str(entry.value)).replace(tzinfo=None) for entry in (made, built)]
    except ValueError:
        return
    if (dates[0] - dates[1]).days >= 1:
        derived = f"it was built on {dates[1]:%Y-%m-%d}"
        yield Inconsistency(keys.LOADGEN_GIT_COMMIT_DATE, show_value(made), derived, made.line, built.line, CLOCK_KEPT)


@rule("log.version", "the version of the logged sources", sources=LOADGEN)
def find_wrong_version(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen's version number comes from its VERSION.txt. The log contains that file's SHA-1 along with those of the
    other sources (``generate_loadgen_version_definitions_sha1``, version_generator.py); it covers the number and one
    line end."""
    version, sources = log.find_line(keys.LOADGEN_VERSION), log.find_line(_SOURCES)
    digest = sources.value.get(_NUMBERED) if sources is not None and isinstance(sources.value, dict) else None
    if version is None or sources is None or not isinstance(digest, str) or not isinstance(version.value, str):
        return
    number = version.value.partition("@")[0].strip().encode()
    if digest not in {hashlib.sha1(number + end, usedforsecurity=False).hexdigest() for end in _LINE_ENDS}:
        derived = f"{_NUMBERED.lstrip('/')} of its sources states another"
        yield contradict(log, keys.LOADGEN_VERSION, show_value(version), derived, _SOURCES)


def _is_hash(text: str) -> bool:
    return bool(text) and not text.strip("0123456789abcdef")


# Check counts and estimates against the sorted latencies from which LoadGen reads them (`results.cc`).
#
# Percentile p of n latencies is the sorted latency at index n * p, truncated to an integer. So a percentile above the
# limit gives a minimum of queries over the limit, and one below it a maximum. An early stopping estimate, whose index
# depends only on the number of queries, must lie between percentiles.

_PROCESSED = re.compile(r"(?:processed |queries \()(?P<count>\d{1,12})\b", re.ASCII | re.IGNORECASE)
_DISCARDED = re.compile(r"discard (?P<count>\d{1,12})\b", re.ASCII)
_MOST = 10**10  # maximum number of queries, far above any run's; checking more would take too long
# For streams, and for Server.
_FORMS = (re.compile(r" \* (?:Only processed \d|Processed at least \d)"), re.compile(r" \* Run (?:un)?successful\."))
_UNMET = "only processed"
_STREAMS = {"SingleStream": keys.RESULT_PERCENTILES, "MultiStream": keys.RESULT_QUERY_PERCENTILES}


@rule("log.ranks", "percentiles that fit the number of queries", sources=LOADGEN)
def find_wrong_ranks(log: DetailLog) -> Iterator[Inconsistency]:
    """``PerformanceSummary::ProcessLatencies`` and ``EarlyStopping`` (results.cc:15 and :145 at v5.1.1)."""
    queries = read_integer(log, keys.RESULT_QUERY_COUNT)
    if not queries or not 0 < queries <= _MOST:
        return
    yield from _find_wrong_over_latency(log, queries)
    entry = log.find_line(keys.EARLY_STOPPING_RESULT)
    if entry is not None and log.scenario != "Offline" and log.release >= keys.FIRST_KNOWN_RELEASE:
        yield from _find_wrong_stated_counts(log, entry, queries)
    if log.scenario in _STREAMS and not log.get(keys.REQUESTED_USE_TOKEN_LATENCIES):  # else they are of tokens
        yield from _find_wrong_estimates(log, queries)


def _find_wrong_over_latency(log: DetailLog, queries: int) -> Iterator[Inconsistency]:
    """A Server query has one sample, even if LoadGen passes several queries at once."""
    key = keys.RESULT_OVERLATENCY_QUERY_COUNT
    over, limit = read_integer(log, key), read_number(log, keys.EFFECTIVE_TARGET_LATENCY_NS)
    if log.scenario != "Server" or over is None or limit is None:
        return
    places = {keys.RESULT_PERCENTILES[rank]: int(queries * part) for rank, part in keys.PERCENTILES.items()}
    for source, place in {**places, keys.RESULT_MAX_LATENCY_NS: queries - 1}.items():
        latency = read_number(log, source)
        if latency is None:
            continue
        least, most = (queries - place, queries) if latency > limit else (0, queries - place - 1)
        if not least <= over <= most:
            allowed = f"at least {least}" if over < least else f"at most {most}"
            derived = f"{source} is {latency:f}: {allowed} of {queries} queries took more than {limit:f} ns"
            yield contradict(log, key, str(over), derived, source)
            return


def _find_wrong_stated_counts(log: DetailLog, entry: LogLine, queries: int) -> Iterator[Inconsistency]:
    """The early stopping text states the number of queries and how many of them are discarded."""
    key, text = keys.EARLY_STOPPING_RESULT, str(entry.value)
    met = log.find_line(keys.EARLY_STOPPING_MET)
    if not _FORMS[log.scenario == "Server"].match(text):
        yield contradict(log, key, show_value(entry), f"LoadGen words it otherwise in {log.scenario}")
    unmet = _UNMET in text.lower()
    if met is not None and isinstance(met.value, bool) and met.value is unmet and "unsuccessful" not in text.lower():
        yield contradict(log, keys.EARLY_STOPPING_MET, show_value(met), f"{key} is {show_value(entry)}", key)
    stated = _PROCESSED.search(text)
    if stated is not None and int(stated["count"]) != queries:
        derived = f"{queries} queries were issued"
        yield contradict(log, key, stated["count"], derived, keys.RESULT_QUERY_COUNT)
    left, percentile = _DISCARDED.search(text), _read_percentile(log)
    if left is None or percentile is None:
        return
    over = int(left["count"]) + 1
    if not is_allowed_over(over, queries, percentile) or is_allowed_over(over + 1, queries, percentile):
        derived = f"{queries} queries do not let LoadGen discard just so many"
        yield contradict(log, key, f"discards {left['count']}", derived, keys.RESULT_QUERY_COUNT)


def _find_wrong_estimates(log: DetailLog, queries: int) -> Iterator[Inconsistency]:
    """Each estimate is the latency at index ``queries`` - t, where t is the greatest number that may be over it."""
    own = _read_percentile(log)
    ranks = {keys.EARLY_STOPPING_LATENCY_MS: Decimal(99)}
    ranks |= {f"early_stopping_latency_{'ss' if log.scenario == 'SingleStream' else 'ms'}": own} if own else {}
    for key, percentile in ranks.items():
        estimate = read_number(log, key)
        for rank, part in keys.PERCENTILES.items() if estimate else ():
            source = _STREAMS[log.scenario][rank]
            latency, behind = read_number(log, source), queries - int(queries * part)
            if latency is None or estimate is None or estimate == latency:
                continue
            below = estimate < latency
            # Below the latency, more queries may be over the estimate than lie at or after that index. Above it, fewer
            # may.
            if is_allowed_over(behind + below, queries, percentile) is below:
                continue
            side = "below" if below else "above"
            why = f"{source} is {latency:f}, and the estimate from {queries} queries is not {side} it"
            yield contradict(log, key, f"{estimate:f}", why, source)
            break


def _read_percentile(log: DetailLog) -> Decimal | None:
    share = read_number(log, keys.EFFECTIVE_TARGET_LATENCY_PERCENTILE)
    return share * 100 if share is not None and 0 < share < 1 else None


# Check latencies of first tokens and of later tokens against the latencies of complete answers. A language model's log
# contains both.
#
# An answer's first token comes before its end, so no sorted latency of first tokens exceeds that of answers. The token
# throughput divides the tokens by the sum of all latencies, and the rate of completed tokens divides them by the run
# time. Both imply the number of tokens.

_DIGITS = Decimal("0.00005")  # error of quotients of several doubles with six significant digits
_RATES = {"Server": keys.RESULT_COMPLETED_TOKENS_PER_SECOND, "Offline": keys.RESULT_TOKENS_PER_SECOND}
_STOPPED = (keys.EARLY_STOPPING_TTFT_RESULT, keys.EARLY_STOPPING_TPOT_RESULT)
_RUN = (" * Run successful.", " * Run unsuccessful.")  # beginning of LoadGen's text on each of them in Server


@rule("log.tokens", "token latencies in order", sources=LOADGEN)
def find_wrong_tokens(log: DetailLog) -> Iterator[Inconsistency]:
    """If LoadGen measures tokens, their latencies match those of the queries (``ProcessTokenLatencies`` and
    ``PerformanceSummary::LogDetail``, results.cc)."""
    if log.get(keys.REQUESTED_USE_TOKEN_LATENCIES) is not True:
        return
    first, each = keys.FIRST_TOKEN_LATENCY, keys.TIME_TO_OUTPUT_TOKEN
    for ends, ranked in ((first, keys.FIRST_TOKEN_PERCENTILES), (each, keys.OUTPUT_TOKEN_PERCENTILES)):
        yield from find_wrong_order(log, [ends["min"], *ranked.values(), ends["max"]], ends["mean"], "they")
    yield from _find_late_first_tokens(log)
    yield from _find_wrong_token_count(log)
    yield from _find_wrong_token_conditions(log)


def find_wrong_order(log: DetailLog, rising: Iterable[str], mean: str, what: str) -> Iterator[Inconsistency]:
    """Find percentiles that decrease, and a mean beyond the minimum or the maximum. ``rising``: the keys from the
    minimum over the percentiles to the maximum."""
    known = [(key, found) for key in rising if (found := read_number(log, key)) is not None]
    for (before, less), (key, found) in pairwise(known):
        if found < less:
            yield contradict(log, key, f"{found:f}", f"{before} is {less:f}", before)
    middle = read_number(log, mean)
    if middle is not None and len(known) > 1 and not known[0][1] <= middle <= known[-1][1]:
        derived = f"{what} are from {known[0][1]:f} to {known[-1][1]:f}"
        yield contradict(log, mean, f"{middle:f}", derived)


def _find_late_first_tokens(log: DetailLog) -> Iterator[Inconsistency]:
    """Both latencies begin at the query's scheduled issue time."""
    pairs = [(keys.FIRST_TOKEN_LATENCY[part], f"result_{part}_latency_ns") for part in ("min", "mean", "max")]
    pairs += [(keys.FIRST_TOKEN_PERCENTILES[rank], keys.RESULT_PERCENTILES[rank]) for rank in keys.PERCENTILES]
    for key, whole in pairs:
        first, last = read_number(log, key), read_number(log, whole)
        if first is not None and last is not None and first > last:
            yield contradict(log, key, f"{first:f}", f"{whole} is {last:f}", whole)


def _find_wrong_token_count(log: DetailLog) -> Iterator[Inconsistency]:
    key = _RATES.get(log.scenario, "")
    rate, mean = read_number(log, key), read_number(log, keys.RESULT_MEAN_LATENCY_NS)
    if rate is None:
        return
    if log.scenario == "Offline":
        samples = read_number(log, keys.RESULT_SAMPLES_PER_SECOND)
        if samples is not None and rate < samples * (1 - _DIGITS):
            why = f"{samples:f} answers a second have a token each, at least"
            yield contradict(log, key, f"{rate:f}", why, keys.RESULT_SAMPLES_PER_SECOND)
        return
    count, other = read_number(log, keys.RESULT_QUERY_COUNT), read_number(log, keys.RESULT_TOKEN_THROUGHPUT)
    completed = read_number(log, keys.RESULT_COMPLETED_SAMPLES_PER_SEC)
    if not (count and count > 1 and completed and mean and other):
        return
    tokens, wanted = rate * (count - 1) / completed, other * count * mean
    if abs(tokens - wanted) > wanted * _DIGITS + 1:
        why = f"that is {tokens:.6g} tokens, and result_token_throughput is of {wanted:.6g}"
        yield contradict(log, key, f"{rate:f}", why, keys.RESULT_TOKEN_THROUGHPUT)
    yield from _find_wrong_token_bounds(log, key, rate, tokens / count)


def _find_wrong_token_bounds(log: DetailLog, key: str, rate: Decimal, each: Decimal) -> Iterator[Inconsistency]:
    """The tokens after the first take the rest of the answer's time, each between the shortest and the longest time."""
    last, first = (read_number(log, key) for key in (keys.RESULT_MEAN_LATENCY_NS, keys.FIRST_TOKEN_LATENCY["mean"]))
    shortest, longest = (read_number(log, keys.TIME_TO_OUTPUT_TOKEN[end]) for end in ("min", "max"))
    if last is None or first is None or not shortest or not longest:
        return
    low, high = 1 + (last - first - 1) / (longest + 1), 1 + (last - first + 1) / max(shortest - 1, Decimal(1))
    if not low * (1 - _DIGITS) <= each <= high * (1 + _DIGITS):
        why = f"answers have {each:.6g} tokens then, and their latencies leave room for {low:.6g} to {high:.6g}"
        yield contradict(log, key, f"{rate:f}", why, keys.TIME_TO_OUTPUT_TOKEN["min"])


def _find_wrong_token_conditions(log: DetailLog) -> Iterator[Inconsistency]:
    """Compare conditions that LoadGen reports as met with its own text and its own percentiles."""
    met = log.find_line(keys.EARLY_STOPPING_MET)
    for key in _STOPPED:
        entry = log.find_line(key)
        if entry is None or met is None or met.value is not True:
            continue  # if one is not met, LoadGen may leave the other's text empty
        if log.scenario == "Server" and not str(entry.value).startswith(_RUN):
            yield contradict(log, key, show_value(entry), "LoadGen words it otherwise in Server")
        if "unsuccessful" in str(entry.value).lower():
            yield contradict(log, keys.EARLY_STOPPING_MET, "true", f"{key} is {show_value(entry)}", key)
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
            yield contradict(log, keys.RESULT_PERF_CONSTRAINTS_MET, "true", derived, key)


# Check a performance run's rates, latencies and counts against the clock and the settings that determine them.

_RATE_DIGITS = Decimal("0.00001")  # relative error of a double with six significant digits
_LONGEST_GAP = 40  # mean gaps between two Server queries: a longer gap occurs once in e^40
_CHANCE = Decimal(8)  # standard deviations of a schedule's mean gap: a larger deviation occurs once in 10^15
_PART = Decimal("1.25")  # share of their latencies: the distance allowed between consecutive queries
_BETWEEN = Decimal("0.0005")  # minimum seconds to add per query
_CENT, _FIRST_LOGGED = Decimal("0.01"), 2  # LoadGen's release
_SLACK = Decimal("1.1")  # LoadGen's margin on the samples that Offline needs


def _get_rounding_error(log: DetailLog) -> Decimal:
    """Return the additional rounding error of rates read from a summary, which has two decimals."""
    return _CENT if log.release < _FIRST_LOGGED else Decimal(0)


@rule("log.rates", "rates that follow from counts and durations", sources=LOADGEN)
def find_wrong_rates(log: DetailLog) -> Iterator[Inconsistency]:
    """``PerformanceSummary::LogDetail`` (results.cc:747 at v5.1.1) and ``IssueQueriesInternal``
    (issue_query_controller.cc), which issues the streams' queries one after the other."""
    if log.scenario == "Offline":
        yield from _find_wrong_offline_rate(log)
        yield from _find_wrong_offline_size(log)
    elif log.scenario == "Server":
        yield from _find_wrong_server_rates(log)
    else:
        yield from _find_wrong_stream_rates(log)


def _find_wrong_offline_rate(log: DetailLog) -> Iterator[Inconsistency]:
    """All samples form one query, which ends with the slowest of them."""
    stated, slowest = read_number(log, keys.RESULT_SAMPLES_PER_SECOND), read_number(log, keys.RESULT_MAX_LATENCY_NS)
    each, queries = read_number(log, keys.GENERATED_SAMPLES_PER_QUERY), read_number(log, keys.RESULT_QUERY_COUNT)
    if stated is None or not slowest or each is None or queries is None:
        return
    each = _pad(log, each)
    derived = each * queries * SECOND / slowest
    edge = _get_rounding_error(log)
    # Releases before 5 divide by the completion time of the last sample in order, which need not be the slowest.
    most = derived * (2 if log.release < 5 else 1 + _RATE_DIGITS)
    if not derived * (1 - _RATE_DIGITS) - edge <= stated <= most + edge:
        why = f"{each * queries:f} samples in {slowest / SECOND:.6g} s are {derived:.6g}"
        yield contradict(log, keys.RESULT_SAMPLES_PER_SECOND, f"{stated:f}", why)
    yield from _check_within_clock(log, keys.RESULT_MAX_LATENCY_NS, slowest / SECOND)
    yield from _check_fills_clock(log, keys.RESULT_MAX_LATENCY_NS, slowest / SECOND)


_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
_LOGS_PADDED = (5, 0, 11)


def _pad(log: DetailLog, each: Decimal) -> Decimal:
    """With equal issue, a query's samples are complete permutations of the set. LoadGen before 5.0.11 logs the number
    before padding (loadgen.cc, GenerateQueries)."""
    found, asked = _RELEASE.match(log.version), read_number(log, keys.EFFECTIVE_PERFORMANCE_SAMPLE_COUNT)
    filled = log.get(keys.EFFECTIVE_SAMPLE_CONCATENATE_PERMUTATION) is True
    if not filled or not asked or found is None or tuple(map(int, found.groups())) >= _LOGS_PADDED:
        return each
    loaded = min(asked, read_number(log, keys.QSL_REPORTED_TOTAL_COUNT) or asked)  # it loads no more than exist
    return (each + loaded - 1) // loaded * loaded


def _find_wrong_offline_size(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen requests enough samples for the target rate plus 10 %, or the minimum number. With equal issue, it pads
    them to complete permutations."""
    issued, rate = read_number(log, keys.GENERATED_SAMPLES_PER_QUERY), read_number(log, keys.EFFECTIVE_TARGET_QPS)
    least, duration = read_number(log, keys.REQUESTED_MIN_QUERY_COUNT), read_number(log, keys.EFFECTIVE_MIN_DURATION_MS)
    loaded = read_number(log, keys.EFFECTIVE_PERFORMANCE_SAMPLE_COUNT)
    if issued is None or rate is None or duration is None or loaded is None or _issues_few(log):
        return
    most = max(rate * duration / 1000 * _SLACK, least or 0) * (1 + DRIFT) + 2 * loaded
    if issued > most:
        key = keys.GENERATED_SAMPLES_PER_QUERY
        derived = f"{rate:.6g} samples/s for {duration / 1000:.6g} s need no more than {most:.6g}"
        yield contradict(log, key, f"{issued:f}", derived, keys.EFFECTIVE_TARGET_QPS)


def _issues_few(log: DetailLog) -> bool:
    """Return True for tests that issue each sample once, or always the same one: LoadGen counts differently in them."""
    return any(log.get(f"effective_performance_issue_{name}") is True for name in ("unique", "same"))


def _find_wrong_server_rates(log: DetailLog) -> Iterator[Inconsistency]:
    count = read_number(log, keys.RESULT_QUERY_COUNT)
    scheduled, completed = (read_number(log, f"result_{name}_samples_per_sec") for name in ("scheduled", "completed"))
    planned = read_number(log, keys.GENERATED_QUERY_DURATION)
    if count is None or count < 2:
        return
    if scheduled and planned:
        derived = (count - 1) * SECOND / planned
        # The generated duration ends one gap after the last query, and the rate covers only the time of that query.
        # Gaps are exponential.
        most = derived * count / (count - _LONGEST_GAP) if count > _LONGEST_GAP else scheduled
        if not derived * (1 - DRIFT) <= scheduled <= most * (1 + DRIFT):
            why = f"{count:f} queries in {planned / SECOND:.6g} s are {derived:.6g}"
            key = keys.RESULT_SCHEDULED_SAMPLES_PER_SEC
            yield contradict(log, key, f"{scheduled:f}", why, keys.GENERATED_QUERY_DURATION)
        # LoadGen does not wait for the gap after the last query: it issues that query after the gaps that the rate
        # covers.
        yield from _check_within_clock(
            log, keys.GENERATED_QUERY_DURATION, min(planned / SECOND, (count - 1) / scheduled)
        )
        slowest = read_number(log, keys.RESULT_MAX_LATENCY_NS)
        if slowest is not None:
            yield from _check_fills_clock(log, keys.GENERATED_QUERY_DURATION, (planned + slowest) / SECOND)
    asked = read_number(log, keys.EFFECTIVE_TARGET_QPS)
    if scheduled and asked and abs(scheduled / asked - 1) > DRIFT + _CHANCE / count.sqrt():
        key, why = keys.RESULT_SCHEDULED_SAMPLES_PER_SEC, f"the target of the schedule is {asked:f}"
        yield contradict(log, key, f"{scheduled:f}", why, keys.EFFECTIVE_TARGET_QPS)
    if scheduled and completed and completed > scheduled * (1 + DRIFT):
        key, why = keys.RESULT_COMPLETED_SAMPLES_PER_SEC, f"{scheduled:f} were scheduled"
        yield contradict(log, key, f"{completed:f}", why, keys.RESULT_SCHEDULED_SAMPLES_PER_SEC)


def _find_wrong_stream_rates(log: DetailLog) -> Iterator[Inconsistency]:
    """Queries run one after the other, so together they take no longer than the run."""
    count = read_number(log, keys.RESULT_QUERY_COUNT)
    key = keys.RESULT_MEAN_QUERY_LATENCY_NS if log.scenario == "MultiStream" else keys.RESULT_MEAN_LATENCY_NS
    mean = read_number(log, key)
    if count and mean:
        yield from _check_within_clock(log, key, count * mean / SECOND)
        # The next query is issued once the thread that waits for the previous one wakes up, which other load on the
        # machine delays by milliseconds. It delays answers as well, so the slowest answer bounds the mean delay.
        slowest = read_number(log, key.replace("mean", "max")) or Decimal(0)
        overhead = count * max(_BETWEEN, slowest / SECOND)
        yield from _check_fills_clock(log, key, count * mean / SECOND * _PART + overhead)
    stated = read_number(log, keys.RESULT_QPS_WITHOUT_LOADGEN_OVERHEAD)
    if stated and mean and log.scenario == "SingleStream":
        # The mean is truncated to whole nanoseconds.
        low, high = Decimal(SECOND) / (mean + 1), Decimal(SECOND) / mean
        edge = _get_rounding_error(log)
        if not low * (1 - _RATE_DIGITS) - edge <= stated <= high * (1 + _RATE_DIGITS) + edge:
            why = f"a mean latency of {mean:f} ns is {high:.6g}"
            yield contradict(log, keys.RESULT_QPS_WITHOUT_LOADGEN_OVERHEAD, f"{stated:f}", why, key)


def _check_within_clock(log: DetailLog, key: str, seconds: Decimal) -> Iterator[Inconsistency]:
    """The run ends with the last completion (``GetMaxCompletionTime``, loadgen.cc:553 at v5.1.1), so the total time of
    consecutive queries does not exceed it."""
    elapsed = read_longest_seconds(log)
    if elapsed is not None and seconds > elapsed + CLOCK + elapsed * DRIFT:
        why = f"that is {seconds:.6g} s of queries, and the run lasted {elapsed:.6g} s"
        yield contradict(log, key, show_value(log.index[key]), why, keys.POWER_END)


def _check_fills_clock(log: DetailLog, key: str, seconds: Decimal) -> Iterator[Inconsistency]:
    """All queries were complete after ``seconds``. By the same clock, the run must have ended then."""
    elapsed = read_run_seconds(log)
    if elapsed is not None and elapsed > seconds + ENDING + elapsed * DRIFT:
        why = f"the last answer came after {seconds:.6g} s at most, and the run lasted {elapsed:.6g} s"
        yield contradict(log, key, show_value(log.index[key]), why, keys.POWER_END)
