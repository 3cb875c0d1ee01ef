"""LoadGen's early stopping: the number of queries that prove a latency percentile (inference rules, "early stopping").

With percentile p, confidence 0.99 and tolerance 0, t queries over the latency are compatible with the percentile when
at least n(t) queries ran, the least n for which Binomial(n, 1 - p) gives at most t with probability at most 0.01.
Server counts queries over its latency limit; SingleStream and MultiStream discard the t slowest instead and report the
next.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from decimal import Decimal
from fractions import Fraction

_DOUBT = 0.01  # 1 - confidence


def compute_least_queries(over: int, percentile: Decimal) -> int:
    """Return n(t), the queries needed when ``over`` of them exceed the latency. ``percentile`` in percent: 90, 99,
    99.9."""
    rate = _compute_late_share(percentile)
    low, high = over, 64 + 2 * over
    while _compute_probability(over, high, rate) > _DOUBT:
        low, high = high, 2 * high
    between = range(low + 1, high)
    return low + 1 + bisect_left(between, True, key=lambda n: _compute_probability(over, n, rate) <= _DOUBT)


def compute_queries_at_rate(late: Fraction, percentile: Decimal, most: int) -> int | None:
    """Return how many queries prove the percentile if this share of them is late. More queries include more late ones.
    Return None if ``most`` are not enough."""

    def suffices(queries: int) -> bool:
        return is_allowed_over(math.ceil(queries * late), queries, percentile)

    low, high = 0, compute_least_queries(math.ceil(late), percentile)
    while not suffices(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def is_allowed_over(over: int, queries: int, percentile: Decimal) -> bool:
    """Return True if n(``over``) <= ``queries``."""
    return over < 0 or _compute_probability(over, queries, _compute_late_share(percentile)) <= _DOUBT


def compute_allowed_over(queries: int, percentile: Decimal) -> int:
    """Return the greatest t with n(t) <= ``queries``, or -1 if there are too few queries even with none over the
    latency."""
    rate = _compute_late_share(percentile)
    possible = range(math.ceil(queries * rate) + 1)
    return bisect_left(possible, True, key=lambda over: _compute_probability(over, queries, rate) > _DOUBT) - 1


def _compute_late_share(percentile: Decimal) -> float:
    if not 0 < percentile < 100:
        raise ValueError(f"no percentile: {percentile}")
    return float((100 - percentile) / 100)


def _compute_probability(over: int, queries: int, rate: float) -> float:
    """Return P(Binomial(queries, rate) <= over), or some number above ``_DOUBT`` if the probability certainly exceeds
    it."""
    if over >= queries:
        return 1.0
    logarithm = (
        math.lgamma(queries + 1)
        - math.lgamma(over + 1)
        - math.lgamma(queries - over + 1)
        + over * math.log(rate)
        + (queries - over) * math.log1p(-rate)
    )
    term = math.exp(logarithm)
    if over > queries * rate:
        return 0.5  # above the mean: the median differs from it by at most one
    total, count = 0.0, over
    while count >= 0 and term > total * 1e-17:
        total += term
        term *= count * (1 - rate) / ((queries - count + 1) * rate)
        count -= 1
    return total
