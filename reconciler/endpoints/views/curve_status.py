"""Status of the curves of MLPerf Endpoints: points per region, gaps, points that others beat, and the cost of one
more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from reconciler.diff.timeline import CurvePoint, find_dominated
from reconciler.endpoints.rules.curve_rules import ROUND_PREFIX, CurveRules, load_endpoints_rules
from reconciler.endpoints.rules.pareto import read_recorded_point
from reconciler.endpoints.rules.regions import BAND_TITLES, BANDS, Regions, derive_regions, place_denser
from reconciler.reconcile.planning import PlanResult, make_expectation
from reconciler.record.index import load_record
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress, read_point
from reconciler.resource.quantities import join_listing, show_count, show_duration, show_rate
from reconciler.resource.settings import DEDICATED_OFFLINE, MAXIMUM, MINIMUM
from reconciler.rules.results.format import RecordValues

_SUGGESTED = 2
_BENDING = 3  # minimum points for a bend


class BandStatus(Struct, frozen=True):
    """A mandatory band: its concurrencies, its declared points, and the declared points that are measured."""

    title: str
    first: int
    last: int
    declared: tuple[int, ...]
    measured: tuple[int, ...]


class CurveStatus(Struct, frozen=True):
    """``dominated``: points that another beats on both axes. ``denser``: concurrencies near the sharpest bends;
    ``seconds``: duration of one more point, None if unknown. ``points``: those that can be drawn. ``offline``: samples
    of a dedicated Offline run, 0 if the point at the maximum is elected; ``ceiling``: its tokens per second;
    ``agentic``: whether the benchmark is."""

    curve: str
    max_concurrency: int
    declared: tuple[int, ...]
    measured: tuple[int, ...]
    bands: tuple[BandStatus, ...]
    dominated: tuple[int, ...] = ()
    denser: tuple[int, ...] = ()
    seconds: float | None = None
    points: tuple[CurvePoint, ...] = ()
    offline: int = 0
    ceiling: Decimal | None = None
    agentic: bool = False


def list_curves(seen: PlanResult, suggested: int = _SUGGESTED) -> tuple[CurveStatus, ...]:
    """Return the status of every declared curve. ``suggested``: the number of concurrencies to suggest near the bends
    of each."""
    if not seen.desired.submission.round.startswith(ROUND_PREFIX):
        return ()
    rules = load_endpoints_rules(seen.desired.submission.round.removeprefix(ROUND_PREFIX))
    curves: dict[tuple[str, str, str], dict[int, Cell]] = {}
    for resource in seen.desired.resources:
        if resource.kind is Kind.RESULT and (cell := resource.cell) is not None:
            points = curves.setdefault((cell.division, cell.system, cell.benchmark), {})
            points[read_point(cell)] = cell
    return tuple(_sum_up_whole("/".join(names), points, seen, rules, suggested) for names, points in curves.items())


def _sum_up_whole(
    name: str, points: dict[int, Cell], seen: PlanResult, rules: CurveRules, suggested: int
) -> CurveStatus:
    """Summarise a curve. A dedicated Offline run belongs to no region. It is not on the curve's line, but is its
    ceiling."""
    settings = {point: seen.desired.detail(Address(Kind.RESULT, str(cell))).settings for point, cell in points.items()}
    fixed = {point: cell for point, cell in points.items() if DEDICATED_OFFLINE not in settings[point]}
    room = max(0, rules.values.most_points - len(points))
    status = _sum_up(name, fixed, seen, rules, min(suggested, room))
    offline = next((point for point in points if point not in fixed), 0)
    values = _read_measured(points[offline], seen) if offline else {}
    rate = (values.get("metric") or {}).get("value")
    return replace(status, offline=offline, ceiling=None if rate is None else Decimal(str(rate)))


def _sum_up(name: str, points: dict[int, Cell], seen: PlanResult, rules: CurveRules, suggested: int) -> CurveStatus:
    declared = tuple(sorted(points))
    first = points[declared[0]]
    settings = seen.desired.detail(Address(Kind.RESULT, str(first))).settings
    c_max, c_min = settings.get_number(MAXIMUM), settings.get_number(MINIMUM) or None
    benchmark = rules.benchmarks.get(settings.official or first.benchmark)
    regions = derive_regions(declared, c_max, rules, c_min)
    drawn = tuple(_list_measured(points, seen))
    measured = tuple(point.concurrency for point in drawn)
    rates = [(point.concurrency, float(point.per_user), float(point.system_tps)) for point in drawn]
    return CurveStatus(
        curve=name,
        max_concurrency=c_max,
        declared=declared,
        measured=measured,
        bands=tuple(_sum_up_band(band, declared, measured, regions, rules) for band in BANDS),
        dominated=tuple(sorted(find_dominated(drawn))),
        denser=place_denser(rates, suggested, declared),
        seconds=_predict_cost(points, seen),
        points=drawn,
        agentic=benchmark is not None and benchmark.agentic,
    )


def _list_measured(points: dict[int, Cell], seen: PlanResult) -> Iterator[CurvePoint]:
    for _, cell in sorted(points.items()):
        values = _read_measured(cell, seen)
        figures, rate = values.get("point") or {}, (values.get("metric") or {}).get("value", 0)
        if point := read_recorded_point(read_point(cell), figures, rate):
            yield point


def _read_measured(cell: Cell, seen: PlanResult) -> RecordValues:
    """Read the published performance run; return nothing if there is none."""
    chosen = seen.difference.chosen.get(cell)
    return dict(load_record(seen.paths, chosen.performance).values) if chosen and chosen.performance else {}


def _sum_up_band(
    band: str, declared: tuple[int, ...], measured: tuple[int, ...], regions: Regions, rules: CurveRules
) -> BandStatus:
    region = regions.get(band)
    own, done = (
        tuple(point for point in points if band in regions.list_bands(point, rules)) for points in (declared, measured)
    )
    return BandStatus(BAND_TITLES[band], region.first, region.last, own, done)


def _predict_cost(points: dict[int, Cell], seen: PlanResult) -> float | None:
    """Predict the duration of one more point as the longest of the declared points; it has no accuracy run."""
    expectation = make_expectation(seen.desired, seen.recorded)
    runs = (RunAddress(cell, PERFORMANCE).address for cell in points.values())
    known = [seconds for run in runs if (seconds := expectation.predict(run)[0]) is not None]
    return max(known, default=None)


def render_curves_text(curves: Iterable[CurveStatus]) -> str:
    return "\n".join(line for curve in curves for line in _render_curve(curve))


def _render_curve(curve: CurveStatus) -> Iterator[str]:
    far = f"{len(curve.measured)} of {show_count(len(curve.declared), 'point')} measured"
    yield f"Curve {curve.curve}: {far}, up to {curve.max_concurrency} requests at a time"
    width = max(len(band.title) for band in curve.bands)
    for band in curve.bands:
        missing = [point for point in band.declared if point not in band.measured]
        shown = _join(band.declared) if band.declared else "no point"
        left = f"; not measured: {_join(missing)}" if missing and band.measured else ""
        yield f"  {band.title:<{width}}  {f'{band.first}-{band.last}':<9} {shown}{left}"
    if curve.offline:
        rate = "not measured" if curve.ceiling is None else f"{show_rate(float(curve.ceiling))} tokens/s"
        yield f"  Dedicated Offline run of {curve.offline} samples: {rate}"
    if curve.dominated:
        yield f"  Beaten on both axes by another point: {_join(curve.dominated)}"
    if curve.seconds is not None:
        bends = f"; the sharpest bends are around {_join(curve.denser)}" if curve.denser else ""
        yield f"  One more point takes about {show_duration(curve.seconds)}{bends}"


def render_denser_text(curve: CurveStatus, patch: str) -> str:
    """Render the suggested points. ``patch``: the edit of the spec that adds ``curve.denser``."""
    if curve.denser:
        cost = "" if curve.seconds is None else f", about {show_duration(curve.seconds)} each"
        count = show_count(len(curve.denser), "more point")
        return f"{count} for {curve.curve} near its sharpest bends: {_join(curve.denser)}{cost}\n\n{patch}".rstrip()
    if len(curve.measured) < _BENDING:
        few = show_count(len(curve.measured), "point")
        return f"{curve.curve} has {few} measured: a bend needs {_BENDING}. No points proposed."
    return f"{curve.curve} has no room for another point near a bend. No points proposed."


def _join(points: Sequence[int]) -> str:
    return join_listing(list(map(str, points)), most=12)
