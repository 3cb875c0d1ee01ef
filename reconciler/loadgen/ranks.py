"""Counts and estimates against the sorted latencies that LoadGen reads them from (``results.cc``).

A percentile p of n latencies is the one at place n * p, cut to a whole number, of the sorted ones. So a percentile
above the limit says how many queries were over it at least, one below how many at most; and an estimate of early
stopping, which is at a place that follows from the number of queries alone, lies between percentiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from reconciler.loadgen import keys
from reconciler.loadgen.early_stopping import is_allowed_over
from reconciler.loadgen.inconsistency import LOADGEN, Inconsistency, read_integer, read_number, show_value
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_line import LogLine
from reconciler.resource.rules import rule

_PROCESSED = re.compile(r"(?:processed |queries \()(?P<count>\d{1,12})\b", re.ASCII | re.IGNORECASE)
_DISCARDED = re.compile(r"discard (?P<count>\d{1,12})\b", re.ASCII)
_MOST = 10**10  # queries, far above any run's: more would take long to judge
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
    yield from _over_latency(log, queries)
    entry = log.find_line(keys.EARLY_STOPPING_RESULT)
    if entry is not None and log.scenario != "Offline" and log.release >= keys.FIRST_KNOWN_RELEASE:
        yield from _stated_counts(log, entry, queries)
    if log.scenario in _STREAMS and not log.get(keys.REQUESTED_USE_TOKEN_LATENCIES):  # else they are of tokens
        yield from _estimates(log, queries)


def _over_latency(log: DetailLog, queries: int) -> Iterator[Inconsistency]:
    """In Server a query has one sample, also where LoadGen hands several over at once."""
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
            yield Inconsistency(key, str(over), derived, log.find_line_number(key), log.find_line_number(source))
            return


def _stated_counts(log: DetailLog, entry: LogLine, queries: int) -> Iterator[Inconsistency]:
    """The text of early stopping says how many queries there were, and how many of them it leaves out."""
    key, text = keys.EARLY_STOPPING_RESULT, str(entry.value)
    met = log.find_line(keys.EARLY_STOPPING_MET)
    if not _FORMS[log.scenario == "Server"].match(text):
        yield Inconsistency(key, show_value(entry), f"LoadGen words it otherwise in {log.scenario}", entry.line)
    unmet = _UNMET in text.lower()
    if met is not None and isinstance(met.value, bool) and met.value is unmet and "unsuccessful" not in text.lower():
        yield Inconsistency(
            keys.EARLY_STOPPING_MET, show_value(met), f"{key} is {show_value(entry)}", met.line, entry.line
        )
    stated = _PROCESSED.search(text)
    if stated is not None and int(stated["count"]) != queries:
        derived = f"{queries} queries were issued"
        yield Inconsistency(key, stated["count"], derived, entry.line, log.find_line_number(keys.RESULT_QUERY_COUNT))
    left, percentile = _DISCARDED.search(text), _read_percentile(log)
    if left is None or percentile is None:
        return
    over = int(left["count"]) + 1
    if not is_allowed_over(over, queries, percentile) or is_allowed_over(over + 1, queries, percentile):
        derived = f"{queries} queries do not let LoadGen discard just so many"
        yield Inconsistency(
            key, f"discards {left['count']}", derived, entry.line, log.find_line_number(keys.RESULT_QUERY_COUNT)
        )


def _estimates(log: DetailLog, queries: int) -> Iterator[Inconsistency]:
    """Each is the latency at the place ``queries`` - t, where t is the most that may be over it."""
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
            # Below it: more may be over the estimate than lie at that place and behind it. Above: fewer.
            if is_allowed_over(behind + below, queries, percentile) is below:
                continue
            side = "below" if below else "above"
            why = f"{source} is {latency:f}, and the estimate from {queries} queries is not {side} it"
            yield Inconsistency(key, f"{estimate:f}", why, log.find_line_number(key), log.find_line_number(source))
            break


def _read_percentile(log: DetailLog) -> Decimal | None:
    share = read_number(log, keys.EFFECTIVE_TARGET_LATENCY_PERCENTILE)
    return share * 100 if share is not None and 0 < share < 1 else None
