"""Status of the curves of MLPerf Endpoints: points per region, gaps, points that others beat, the cost of one more."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from msgspec.structs import replace

from reconciler.diff.timeline import CurvePoint, find_dominated
from reconciler.endpoints.rules.curve_rules import CurveRules, load_endpoints_rules
from reconciler.endpoints.rules.pareto import read_recorded_point
from reconciler.endpoints.rules.regions import BAND_TITLES, BANDS, Regions, derive_regions, place_denser
from reconciler.endpoints.rules.ruleset import ROUND_PREFIX
from reconciler.endpoints.views.text import BandStatus, CurveStatus
from reconciler.reconcile.planning import PlanResult, make_expectation
from reconciler.record.index import load_record
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress, read_point
from reconciler.resource.settings import DEDICATED_OFFLINE, MAXIMUM
from reconciler.rules.results.format import RecordValues

_SUGGESTED = 2


def list_curves(seen: PlanResult, suggested: int = _SUGGESTED) -> tuple[CurveStatus, ...]:
    """None where the spec declares no curve. ``suggested``: the number of concurrencies near bends that each gives."""
    if not seen.desired.submission.round.startswith(ROUND_PREFIX):
        return ()
    rules = load_endpoints_rules(seen.desired.submission.round.removeprefix(ROUND_PREFIX))
    curves: dict[tuple[str, str, str], dict[int, Cell]] = {}
    for resource in seen.desired.resources:
        if resource.kind is Kind.RESULT and (cell := resource.cell) is not None:
            points = curves.setdefault((cell.division, cell.system, cell.benchmark), {})
            points[read_point(cell)] = cell
    return tuple(_stand_whole("/".join(names), points, seen, rules, suggested) for names, points in curves.items())


def _stand_whole(
    name: str, points: dict[int, Cell], seen: PlanResult, rules: CurveRules, suggested: int
) -> CurveStatus:
    """A dedicated Offline run is of no region, and no point of the curve's line: it is its ceiling."""
    settings = {point: seen.desired.detail(Address(Kind.RESULT, str(cell))).settings for point, cell in points.items()}
    fixed = {point: cell for point, cell in points.items() if DEDICATED_OFFLINE not in settings[point]}
    room = max(0, rules.values.most_points - len(points))
    standing = _stand(name, fixed, seen, rules, min(suggested, room))
    offline = next((point for point in points if point not in fixed), 0)
    values = _read_measured(points[offline], seen) if offline else {}
    rate = (values.get("metric") or {}).get("value")
    return replace(standing, offline=offline, ceiling=None if rate is None else Decimal(str(rate)))


def _stand(name: str, points: dict[int, Cell], seen: PlanResult, rules: CurveRules, suggested: int) -> CurveStatus:
    declared = tuple(sorted(points))
    first = points[declared[0]]
    c_max = seen.desired.detail(Address(Kind.RESULT, str(first))).settings.get_number(MAXIMUM)
    c_min = seen.desired.detail(Address(Kind.RESULT, str(first))).settings.get_number("min_concurrency") or None
    regions = derive_regions(declared, c_max, rules, c_min)
    drawn = tuple(_list_measured(points, seen))
    measured = tuple(point.concurrency for point in drawn)
    rates = [(point.concurrency, float(point.per_user), float(point.system_tps)) for point in drawn]
    return CurveStatus(
        curve=name,
        max_concurrency=c_max,
        declared=declared,
        measured=measured,
        bands=tuple(_band(band, declared, measured, regions, rules) for band in BANDS),
        dominated=tuple(sorted(find_dominated(drawn))),
        denser=place_denser(rates, suggested, declared),
        seconds=_cost(points, seen),
        points=drawn,
    )


def _list_measured(points: dict[int, Cell], seen: PlanResult) -> Iterator[CurvePoint]:
    for _, cell in sorted(points.items()):
        values = _read_measured(cell, seen)
        figures, rate = values.get("point") or {}, (values.get("metric") or {}).get("value", 0)
        if point := read_recorded_point(read_point(cell), figures, rate):
            yield point


def _read_measured(cell: Cell, seen: PlanResult) -> RecordValues:
    """Read the published performance run; nothing where there is none."""
    chosen = seen.difference.chosen.get(cell)
    return dict(load_record(seen.paths, chosen.performance).values) if chosen and chosen.performance else {}


def _band(
    band: str, declared: tuple[int, ...], measured: tuple[int, ...], regions: Regions, rules: CurveRules
) -> BandStatus:
    region = regions.get(band)
    own, done = (
        tuple(point for point in points if band in regions.list_bands(point, rules)) for points in (declared, measured)
    )
    return BandStatus(BAND_TITLES[band], region.first, region.last, own, done)


def _cost(points: dict[int, Cell], seen: PlanResult) -> float | None:
    """As long as the longest of those that are declared: a point more has no accuracy run of its own."""
    expectation = make_expectation(seen.desired, seen.recorded)
    runs = (RunAddress(cell, PERFORMANCE).address for cell in points.values())
    known = [seconds for run in runs if (seconds := expectation.predict(run)[0]) is not None]
    return max(known, default=None)
