"""Whether the figures of one result can be those of one run: the client computes all of them from the same samples."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise

from reconciler.endpoints.rules.point import Distribution, MeasuredPoint

_ROUNDING = Decimal("1e-6")  # of means, which are doubles
_HALF = Decimal(50)
_CLOCKS = Decimal("1.01")  # of durations
_CLOSE = Decimal("1.01")  # of percentiles of a histogram


def find_impossible_figures(point: MeasuredPoint, *, turns: bool) -> Iterator[str]:
    """``turns``: latencies are of the turns of conversations, of which one sample has several."""
    for name, found in (("ttft", point.ttft), ("tpot", point.tpot), ("latency", point.latency)):
        yield from _order(name, found)
    if not turns:
        yield from _count(point)
        yield from _overlap(point)


def _order(name: str, found: Distribution) -> Iterator[str]:
    ranked = [(f"percentile {percent:f}", value) for percent, value in sorted(found.percentiles.items())]
    ends = [[(word, end)] if end is not None else [] for word, end in (("min", found.least), ("max", found.most))]
    for (low, less), (high, more) in pairwise([*ends[0], *ranked, *ends[1]]):
        if more < less:
            yield f"{name}: {high} is {more:f}, and {low} is {less:f}"
            return
    yield from _place_median(name, found)
    if found.mean is None:
        return
    room = abs(found.mean) * _ROUNDING
    if found.least is not None and found.mean + room < found.least:
        yield f"{name}: the mean is {found.mean:f}, and the least {found.least:f}"
    if found.most is not None and found.mean - room > found.most:
        yield f"{name}: the mean is {found.mean:f}, and the most {found.most:f}"


def _place_median(name: str, found: Distribution) -> Iterator[str]:
    """Between the percentiles around it, which may be rounded otherwise."""
    below = [value for percent, value in found.percentiles.items() if percent < _HALF]
    above = [value for percent, value in found.percentiles.items() if percent > _HALF]
    least = max([*below, *([found.least] if found.least is not None else [])], default=None)
    most = min([*above, *([found.most] if found.most is not None else [])], default=None)
    if found.median is not None and (
        (least is not None and found.median * _CLOSE < least) or (most is not None and found.median > most * _CLOSE)
    ):
        yield f"{name}: the median is {found.median:f}, and the percentiles around it {least} and {most}"


def _count(point: MeasuredPoint) -> Iterator[str]:
    """Each completed sample has a latency: their sum by their mean is their number. No more of them have a first
    token, or tokens after it."""
    for name, found in (("ttft", point.ttft), ("tpot", point.tpot)):
        if found.total and found.mean and point.issued:
            counted = found.total / found.mean
            if counted > point.issued + counted * _ROUNDING + 1:
                yield f"{name}: total by avg are {counted:.6g} samples, and {point.issued} were issued"
    total, mean = point.latency.total, point.latency.mean
    if not total or not mean or not point.issued:
        return
    counted = total / mean
    room = counted * _ROUNDING + 1
    if not point.completed - room <= counted <= point.issued + room:
        yield f"latency: total by avg are {counted:.6g} samples, and {point.completed} were completed"


def _overlap(point: MeasuredPoint) -> Iterator[str]:
    """Each of the users waits for one answer at a time."""
    if point.is_offline or not point.duration_ns:
        return
    most = point.concurrency * (point.duration_ns * _CLOCKS + (point.latency.most or 0))
    if point.latency.total > most:
        yield (
            f"latency: {point.latency.total / 10**9:.6g} s in all, and {point.concurrency} requests at a time in "
            f"{point.seconds:.6g} s cannot take that long"
        )
