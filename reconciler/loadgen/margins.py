"""Margins by which a performance run met or missed each of LoadGen's constraints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from reconciler.loadgen import keys
from reconciler.loadgen.early_stopping import compute_allowed_over, compute_least_queries
from reconciler.loadgen.inconsistency import read_integer, read_number
from reconciler.loadgen.log import DetailLog
from reconciler.resource.canonical import show_decimal
from reconciler.resource.records import LATE_QUERIES, show_margin

_MILLISECOND = 1_000_000
_MISSING = re.compile(r"at least (\d+) more queries")  # in LoadGen's text on early stopping


class Margin(Struct, frozen=True):
    """One constraint, with the measured value and the limit as decimal text in ``unit``.

    ``headroom`` is the distance to the limit as a percentage of it, positive when the constraint is met with room to
    spare; empty when the limit is 0.
    """

    name: str
    measured: str
    limit: str
    unit: str
    met: bool
    headroom: str

    def __str__(self) -> str:
        return f"{show_margin(asdict(self))}: {'met' if self.met else 'not met'}"


def compute_margins(log: DetailLog) -> tuple[Margin, ...]:
    """Return every constraint that the log makes measurable, in a fixed order; empty for a run that did not end."""
    return tuple(_list_margins(log)) if log.complete else ()


def show_measured(number: Decimal, digits: int = 5) -> str:
    """Format the number with some significant digits, without an exponent."""
    rounded = Decimal(format(number, f".{digits}g")) if number.is_finite() else Decimal(0)
    return show_decimal(rounded)


def read_percentile(log: DetailLog) -> Decimal:
    """Return the percentile that the run has to prove, in percent."""
    return Decimal(log.get(keys.EFFECTIVE_TARGET_LATENCY_PERCENTILE, Decimal("0.99"))) * 100


def read_seconds(log: DetailLog) -> Decimal | None:
    """Return the run time. Offline: the slowest latency, as LoadGen measures it; else power_begin to power_end."""
    slowest = log.get(keys.RESULT_MAX_LATENCY_NS)
    if log.scenario == "Offline" and slowest is not None:
        return Decimal(slowest) / 1_000_000_000
    if log.started is None or log.ended is None:
        return None
    return Decimal(round((log.ended - log.started).total_seconds() * 1000)) / 1000


def _list_margins(log: DetailLog) -> Iterator[Margin]:
    least, lasted = log.get(keys.EFFECTIVE_MIN_DURATION_MS), read_seconds(log)
    if least is not None and lasted is not None:
        met = bool(log.get(keys.RESULT_MIN_DURATION_MET, True))
        yield _make_margin("duration", lasted, Decimal(least) / 1000, "s", met=met)
    yield from _list_query_margins(log)
    yield from _list_latency_margins(log)
    yield from _list_early_stopping_margins(log)


def _list_query_margins(log: DetailLog) -> Iterator[Margin]:
    issued_key, least_key, unit = keys.RESULT_QUERY_COUNT, keys.EFFECTIVE_MIN_QUERY_COUNT, "queries"
    if log.scenario == "Offline":
        issued_key, least_key, unit = keys.GENERATED_SAMPLES_PER_QUERY, keys.REQUESTED_MIN_QUERY_COUNT, "samples"
    issued, least = read_integer(log, issued_key), log.get(least_key)
    if issued is not None and least is not None:
        yield _make_margin(unit, issued, least, unit, met=bool(log.get(keys.RESULT_MIN_QUERIES_MET, True)))


def _list_latency_margins(log: DetailLog) -> Iterator[Margin]:
    """Server only: compare the percentile latency, or TTFT and TPOT if tokens are measured, with the configured
    targets."""
    if log.scenario != "Server":
        return
    rank = format(read_percentile(log), ".2f")
    if log.get(keys.REQUESTED_USE_TOKEN_LATENCIES):
        pairs: tuple[tuple[str, str, Any], ...] = (
            ("TTFT", keys.FIRST_TOKEN_PERCENTILES.get(rank, ""), log.get(keys.REQUESTED_SERVER_TTFT_LATENCY)),
            ("TPOT", keys.OUTPUT_TOKEN_PERCENTILES.get(rank, ""), log.get(keys.REQUESTED_SERVER_TPOT_LATENCY)),
        )
    else:
        pairs = (("latency", keys.RESULT_PERCENTILES.get(rank, ""), log.get(keys.EFFECTIVE_TARGET_LATENCY_NS)),)
    for name, key, limit in pairs:
        measured = read_number(log, key)
        if measured is not None and limit is not None:
            spent, most = Decimal(measured) / _MILLISECOND, Decimal(limit) / _MILLISECOND
            what = f"p{show_measured(read_percentile(log))} {name}"
            yield _make_margin(what, spent, most, "ms", met=spent <= most, is_limit=True)


def _list_early_stopping_margins(log: DetailLog) -> Iterator[Margin]:
    queries = read_integer(log, keys.RESULT_QUERY_COUNT)
    if queries is None or log.scenario == "Offline":
        return
    met = bool(log.get(keys.EARLY_STOPPING_MET, True))
    if log.scenario != "Server":
        # An estimate requires one discarded query, hence n(1).
        least = compute_least_queries(1, read_percentile(log))
        yield _make_margin("early stopping", queries, least, "queries", met=met)
        return
    if log.get(keys.REQUESTED_USE_TOKEN_LATENCIES):
        if not met:  # LoadGen counts queries over either latency, and states no count if the condition is met
            yield _make_margin("early stopping", queries, count_needed_queries(log, queries), "queries", met=met)
        return
    over = read_integer(log, keys.RESULT_OVERLATENCY_QUERY_COUNT)
    if over is None:
        return
    allowed = compute_allowed_over(queries, read_percentile(log))
    if allowed >= 0:
        yield _make_margin("early stopping", over, allowed, LATE_QUERIES, met=met, is_limit=True)
    else:
        least = compute_least_queries(0, read_percentile(log))
        yield _make_margin("early stopping", queries, least, "queries", met=met)


def count_needed_queries(log: DetailLog, queries: int) -> int:
    """Return how many queries prove the percentile of token latencies. According to LoadGen's text, that is if no
    further query is late. Without a text, return the number needed if no query at all is late."""
    texts = (str(log.get(f"early_stopping_{name}_result", "")) for name in ("ttft", "tpot"))
    missing = [int(found[1]) for text in texts if (found := _MISSING.search(text)) is not None]
    return queries + max(missing) if missing else compute_least_queries(0, read_percentile(log))


def _make_margin(
    name: str, measured: Decimal | int, bound: Decimal | int, unit: str, *, met: bool, is_limit: bool = False
) -> Margin:
    """``is_limit``: at most ``bound`` is allowed; otherwise at least ``bound`` is required."""
    measured, bound = Decimal(measured), Decimal(bound)
    left = bound - measured if is_limit else measured - bound
    room = format(left * 100 / bound, "+.1f") if bound else ""
    return Margin(name, show_measured(measured), show_measured(bound), unit, met, room)
