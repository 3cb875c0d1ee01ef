"""Compute the regions of concurrency and place points in them.

The concurrencies between the lowest point and the declared maximum form three regions of equal width in log-2 space
(rules §5.4, §5.5). Bounds round half to even, like Python's ``round``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.errors import ReconcilerError

REGIONS = ("low_latency", "low_concurrency", "med_concurrency", "high_concurrency", "margin")
LOW_LATENCY, LOW, MEDIUM, HIGH, MARGIN = REGIONS
CHOICE = "submitters_choice"  # a point may declare this instead of its region
ULTRA_LOW = "ultra_low_concurrency"
BANDS = (ULTRA_LOW, LOW, MEDIUM, HIGH)  # each needs a point with an accuracy run
BAND_TITLES: Mapping[str, str] = {
    ULTRA_LOW: "Ultra Low Concurrency",
    LOW: "Low Concurrency",
    MEDIUM: "Medium Concurrency",
    HIGH: "High Concurrency",
}


class Region(Struct, frozen=True):
    """Concurrencies from ``first`` to ``last``, inclusive; empty if ``last`` is smaller."""

    name: str
    first: int
    last: int

    def __contains__(self, concurrency: int) -> bool:
        return self.first <= concurrency <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


class Regions(Struct, frozen=True):
    """The regions of a curve, ascending; the last one is the margin above the maximum. ``ultra_low``: the band of the
    lowest concurrencies, which overlaps the low region unless a minimum was declared."""

    c_max: int
    ultra_low: Region
    regions: tuple[Region, ...]

    def find(self, concurrency: int) -> str:
        """Return the region of a concurrency, "" beyond the margin."""
        return next((region.name for region in self.regions if concurrency in region), "")

    def get(self, band: str) -> Region:
        return self.ultra_low if band == ULTRA_LOW else next(r for r in self.regions if r.name == band)

    def list_bands(self, concurrency: int, rules: CurveRules) -> tuple[str, ...]:
        """Return the mandatory bands that a point at this concurrency can cover."""
        low = (ULTRA_LOW,) if concurrency in self.ultra_low else ()
        region = self.find(concurrency)
        if region == MARGIN:
            return (*low, HIGH) if rules.values.margin_covers_high else low
        return (*low, region) if region in BANDS else low


def compute_regions(c_max: int, c_min: int, rules: CurveRules, *, declared: bool = False) -> Regions:
    """Compute the regions. ``declared``: the lower bound was declared (c_min_override) and ends the lowest band.

    Raises ReconcilerError if the maximum is too small or the minimum is out of range.
    """
    limit, least = rules.values.most_ultra_low_concurrency, rules.values.least_max_concurrency
    if not 1 <= c_min <= limit:
        raise ReconcilerError(f"the lowest concurrency is {c_min}", fix=f"measure a point between 1 and {limit}")
    if c_max < least:
        raise ReconcilerError(
            f"max_supported_concurrency is {c_max}; three regions need at least {least}",
            fix="declare what the system supports, or ask the working group for an exception",
        )
    interval = math.log2(c_max - c_min) / 3
    low, medium = round(c_min + 2**interval), round(c_min + 2 ** (2 * interval))
    # In integers: in floating point, 1.1 times the maximum can exceed the next integer.
    margin = -(-c_max * int(rules.values.margin * 100) // 100)
    return Regions(
        c_max=c_max,
        ultra_low=Region(ULTRA_LOW, 1, c_min if declared else limit),
        regions=(
            Region(LOW_LATENCY, 1, c_min),
            Region(LOW, c_min + 1, low),
            Region(MEDIUM, low + 1, medium),
            Region(HIGH, medium + 1, c_max),
            Region(MARGIN, c_max + 1, margin),
        ),
    )


def derive_regions(concurrencies: Iterable[int], c_max: int, rules: CurveRules, c_min: int | None = None) -> Regions:
    """Derive the regions from a curve's fixed concurrencies. The lower bound is ``c_min`` if declared, else the lowest
    concurrency, at most 32. Raises ReconcilerError without any point, or without one at the declared minimum."""
    found = sorted(set(concurrencies))
    if not found:
        raise ReconcilerError("no point has a concurrency", fix="declare `points`")
    if c_min is None:
        return compute_regions(c_max, min(found[0], rules.values.most_ultra_low_concurrency), rules)
    if c_min not in found:
        message = f"no point is at the declared minimum concurrency, {c_min}"
        raise ReconcilerError(message, fix=f"measure one at {c_min}")
    return compute_regions(c_max, c_min, rules, declared=True)


def place_points(
    max_concurrency: int, rules: CurveRules, *, count: int = 0, min_concurrency: int = 1
) -> tuple[int, ...]:
    """Return the concurrencies of a new curve, ascending: the lowest, the middles of the low and the medium region in
    log-2 space, and the maximum, which can be elected as the Offline point. The middles of the widest gaps are added
    until there are ``count`` points (by default the minimum allowed).

    Raises ReconcilerError if ``count`` is out of range or more than the concurrencies allow.
    """
    least, most = rules.values.least_points, rules.values.most_points
    wanted = count or least
    if not least <= wanted <= most:
        raise ReconcilerError(f"{wanted} points", fix=f"use between {least} and {most} points")
    regions = compute_regions(max_concurrency, min_concurrency, rules)
    middles = (_find_middle(regions.get(band)) for band in (LOW, MEDIUM))
    chosen = sorted({min_concurrency, *middles, max_concurrency})
    while len(chosen) < wanted:
        between = _split_widest_gap(chosen)
        if between is None:
            message = f"{wanted} points do not fit between {min_concurrency} and {max_concurrency}"
            raise ReconcilerError(message, fix="increase max_supported_concurrency or declare fewer points")
        chosen = sorted({*chosen, between})
    return tuple(chosen)


def _find_middle(region: Region) -> int:
    return _find_between(region.first, region.last)


def _find_between(low: int, high: int) -> int:
    """Return an integer between two others, different from both if possible."""
    return round(math.sqrt(low * high))


def _split_widest_gap(chosen: Sequence[int]) -> int | None:
    """Return the middle, in log-2 space, of the widest gap between neighbours; None if all are adjacent."""
    gaps = [(math.log2(high / low), low, high) for low, high in pairwise(chosen) if high - low > 1]
    if not gaps:
        return None
    _, low, high = max(gaps, key=lambda gap: (gap[0], -gap[1]))
    return _find_between(low, high)


def choose_accuracy_points(
    concurrencies: Iterable[int], regions: Regions, rules: CurveRules, *, elected: int | None = None
) -> dict[str, int]:
    """Choose the points at which accuracy is measured: map each band to a concurrency, each used at most once.

    The elected point covers the high region, since its accuracy also counts for Offline. The lowest point covers the
    lowest band; other regions get the point nearest to their middle.
    """
    found = sorted(set(concurrencies))
    preferred = sorted(found, key=lambda c: (c != elected, c != found[0], _measure_distance(c, regions), c))
    return match_bands([(concurrency, regions.list_bands(concurrency, rules)) for concurrency in preferred])


def _measure_distance(concurrency: int, regions: Regions) -> float:
    region = next((item for item in regions.regions if concurrency in item), None)
    return abs(math.log2(concurrency / _find_middle(region))) if region else math.inf


def match_bands(candidates: Sequence[tuple[int, Sequence[str]]]) -> dict[str, int]:
    """Map as many bands as possible to concurrencies, each used at most once (a maximum bipartite matching). A later
    candidate can move an earlier one to another band, but never drops it."""
    owner: dict[str, int] = {}
    options = dict(candidates)

    def take(concurrency: int, seen: set[str]) -> bool:
        for band in options[concurrency]:
            if band in seen:
                continue
            seen.add(band)
            if band not in owner or take(owner[band], seen):
                owner[band] = concurrency
                return True
        return False

    for concurrency, _ in candidates:
        take(concurrency, set())
    return {band: owner[band] for band in BANDS if band in owner}


def find_gaps(concurrencies: Iterable[int], regions: Regions, rules: CurveRules) -> tuple[Region, ...]:
    """Return the mandatory bands without any point. A point in two bands covers both."""
    covered = {band for concurrency in concurrencies for band in regions.list_bands(concurrency, rules)}
    return tuple(regions.get(band) for band in BANDS if band not in covered)


def place_denser(
    measured: Sequence[tuple[int, float, float]], count: int, taken: Collection[int] = ()
) -> tuple[int, ...]:
    """Return up to ``count`` more concurrencies near the sharpest bends of a curve, ascending.

    ``measured``: (concurrency, tokens per second per user, tokens per second of the system), the rates normalised by
    their largest values; ``taken``: concurrencies of existing points, measured or not. Without three measured points
    there is no bend.
    """
    points = sorted(measured)
    if len(points) < 3:
        return ()
    widest, highest = max(x for _, x, _ in points) or 1.0, max(y for _, _, y in points) or 1.0
    places = [(concurrency, x / widest, y / highest) for concurrency, x, y in points]
    gains: dict[int, float] = {}
    for before, bend, after in zip(places, places[1:], places[2:], strict=False):
        area = _compute_area(before, bend, after)
        for low, high in ((before, bend), (bend, after)):
            if high[0] - low[0] > 1:
                middle = _find_between(low[0], high[0])
                if middle in taken:
                    continue
                share = math.hypot(high[1] - low[1], high[2] - low[2])
                gains[middle] = max(gains.get(middle, 0.0), area * share)
    best = sorted(gains, key=lambda concurrency: (-gains[concurrency], concurrency))[:count]
    return tuple(sorted(best))


def _compute_area(a: tuple[int, float, float], b: tuple[int, float, float], c: tuple[int, float, float]) -> float:
    """Compute the area of the triangle of three neighbours; 0 if they are on a line."""
    return abs((b[1] - a[1]) * (c[2] - a[2]) - (c[1] - a[1]) * (b[2] - a[2])) / 2
