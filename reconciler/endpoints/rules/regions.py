"""Regions of concurrency: where a curve's points must be, which region each covers, and where more points are useful.

Above the lowest point, the concurrencies up to the declared maximum form three regions of equal width in log-2 space
(rules §5.4, §5.5; they round half to even, like Python's ``round``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.errors import ReconcilerError

LOW_LATENCY, LOW, MEDIUM, HIGH, MARGIN = (
    *("low_latency", "low_concurrency", "med_concurrency"),
    *("high_concurrency", "margin"),
)
REGIONS = (LOW_LATENCY, LOW, MEDIUM, HIGH, MARGIN)
CHOICE = "submitters_choice"  # a point may declare this in place of its region
ULTRA_LOW = "ultra_low_concurrency"
BANDS = (ULTRA_LOW, LOW, MEDIUM, HIGH)  # each needs a point, with accuracy
BAND_TITLES: Mapping[str, str] = {
    ULTRA_LOW: "Ultra Low Concurrency",
    LOW: "Low Concurrency",
    MEDIUM: "Medium Concurrency",
    HIGH: "High Concurrency",
}


class Region(Struct, frozen=True):
    """Concurrencies ``first`` to ``last``, inclusive; none if ``last`` is smaller."""

    name: str
    first: int
    last: int

    def __contains__(self, concurrency: int) -> bool:
        return self.first <= concurrency <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


class Regions(Struct, frozen=True):
    """The regions of one curve, ascending, ending with the margin above the maximum. ``ultra_low``: the band of the
    lowest concurrencies, which overlaps the low region unless ``c_min`` was declared."""

    c_min: int
    c_max: int
    ultra_low: Region
    regions: tuple[Region, ...]

    def find(self, concurrency: int) -> str:
        """Return the region of a concurrency, "" beyond the margin."""
        return next((region.name for region in self.regions if concurrency in region), "")

    def get(self, band: str) -> Region:
        return self.ultra_low if band == ULTRA_LOW else next(r for r in self.regions if r.name == band)

    def list_bands(self, concurrency: int, rules: CurveRules) -> tuple[str, ...]:
        """Return the mandatory bands that a point there could cover."""
        low = (ULTRA_LOW,) if concurrency in self.ultra_low else ()
        region = self.find(concurrency)
        if region == MARGIN:
            return (*low, HIGH) if rules.values.margin_covers_high else low
        return (*low, region) if region in BANDS else low


def compute_regions(c_max: int, c_min: int, rules: CurveRules, *, declared: bool = False) -> Regions:
    """Compute the regions. ``declared``: the lower bound was declared (c_min_override), so that the lowest band ends
    there.

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
        c_min=c_min,
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
    """Derive the regions from the fixed concurrencies of a curve: its lowest point, but at most 32, is the lower bound,
    unless ``c_min`` is declared. Raises ReconcilerError if there is no point, or none at the declared minimum."""
    found = sorted(set(concurrencies))
    if not found:
        raise ReconcilerError("no point has a concurrency", fix="declare `points`")
    if c_min is None:
        return compute_regions(c_max, min(found[0], rules.values.most_ultra_low_concurrency), rules)
    if c_min not in found:
        raise ReconcilerError(
            f"no point is at the declared minimum concurrency, {c_min}", fix=f"measure one at {c_min}"
        )
    return compute_regions(c_max, c_min, rules, declared=True)


def place_points(
    max_concurrency: int, rules: CurveRules, *, count: int = 0, min_concurrency: int = 1
) -> tuple[int, ...]:
    """Return concurrencies for a whole curve, ascending: the lowest, the middle of the low and the medium region in
    log-2 space, the maximum, and then, up to ``count`` (by default the minimum allowed), the middles of the widest
    gaps.

    The maximum is included, so that it can be elected as the Offline point. Raises ReconcilerError if ``count`` is out
    of range or the regions have no room for as many.
    """
    least, most = rules.values.least_points, rules.values.most_points
    wanted = count or least
    if not least <= wanted <= most:
        raise ReconcilerError(f"{wanted} points", fix=f"a curve has {least} to {most}")
    regions = compute_regions(max_concurrency, min_concurrency, rules)
    middles = (_middle(regions.get(band)) for band in (LOW, MEDIUM))
    chosen = sorted({min_concurrency, *middles, max_concurrency})
    while len(chosen) < wanted:
        between = _widest_gap(chosen)
        if between is None:
            raise ReconcilerError(
                f"there is no room for {wanted} points between {min_concurrency} and {max_concurrency}",
                fix="declare a larger max_supported_concurrency or fewer points",
            )
        chosen = sorted({*chosen, between})
    return tuple(chosen)


def _middle(region: Region) -> int:
    return _between(region.first, region.last)


def _between(low: int, high: int) -> int:
    """Return a number between them, different from both if there is one."""
    return round(math.sqrt(low * high))


def _widest_gap(chosen: Sequence[int]) -> int | None:
    """Return the middle, in log-2 space, of the neighbours that are farthest apart; None if all are adjacent."""
    gaps = [(math.log2(high / low), low, high) for low, high in pairwise(chosen) if high - low > 1]
    if not gaps:
        return None
    _, low, high = max(gaps, key=lambda gap: (gap[0], -gap[1]))
    return _between(low, high)


def choose_accuracy_points(
    concurrencies: Iterable[int], regions: Regions, rules: CurveRules, *, elected: int | None = None
) -> dict[str, int]:
    """Map each band to the concurrency that covers it, each point at most once: accuracy is measured there.

    The elected point takes the high region, since its accuracy also counts for Offline; otherwise the lowest point
    takes the lowest band, and the point nearest to the middle of a region takes that region.
    """
    found = sorted(set(concurrencies))
    options: dict[int, tuple[str, ...]] = {}
    for concurrency in found:
        options[concurrency] = regions.list_bands(concurrency, rules)
    preferred = sorted(found, key=lambda c: (c != elected, c != found[0], _distance(c, regions), c))
    return match_bands([(concurrency, options[concurrency]) for concurrency in preferred])


def _distance(concurrency: int, regions: Regions) -> float:
    region = next((item for item in regions.regions if concurrency in item), None)
    return abs(math.log2(concurrency / _middle(region))) if region else math.inf


def match_bands(candidates: Sequence[tuple[int, Sequence[str]]]) -> dict[str, int]:
    """Map as many bands as possible to a concurrency, each point at most once; earlier candidates are never dropped for
    later ones, only moved to another band (a maximum bipartite matching)."""
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
    """Return the mandatory bands without any point. A point may lie in two of them, and covers both."""
    covered = {band for concurrency in concurrencies for band in regions.list_bands(concurrency, rules)}
    return tuple(regions.get(band) for band in BANDS if band not in covered)


def place_denser(
    measured: Sequence[tuple[int, float, float]], count: int, taken: Collection[int] = ()
) -> tuple[int, ...]:
    """Place ``count`` more points where they show most of a curve: near the sharpest bends, ascending.

    ``measured``: (concurrency, tokens per second per user, tokens per second of the system). The latter two are
    normalised by their largest values. ``taken``: concurrencies of existing points, measured or not. Fewer than three
    points have no bend; then, and between neighbours without an integer between them, fewer are returned.
    """
    points = sorted(measured)
    if len(points) < 3:
        return ()
    widest, highest = max(x for _, x, _ in points) or 1.0, max(y for _, _, y in points) or 1.0
    places = [(concurrency, x / widest, y / highest) for concurrency, x, y in points]
    gains: dict[int, float] = {}
    for before, bend, after in zip(places, places[1:], places[2:], strict=False):
        area = _area(before, bend, after)
        for low, high in ((before, bend), (bend, after)):
            if high[0] - low[0] > 1:
                middle = _between(low[0], high[0])
                if middle in taken:
                    continue
                share = math.hypot(high[1] - low[1], high[2] - low[2])
                gains[middle] = max(gains.get(middle, 0.0), area * share)
    best = sorted(gains, key=lambda concurrency: (-gains[concurrency], concurrency))[:count]
    return tuple(sorted(best))


def _area(a: tuple[int, float, float], b: tuple[int, float, float], c: tuple[int, float, float]) -> float:
    """Compute the area of the triangle of three neighbours: 0 if they are on one line."""
    return abs((b[1] - a[1]) * (c[2] - a[2]) - (c[1] - a[1]) * (b[2] - a[2])) / 2
