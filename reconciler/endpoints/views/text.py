"""Curves of MLPerf Endpoints as text: what is measured in each region, what is beaten, what one more point costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from msgspec import Struct

from reconciler.diff.timeline import CurvePoint
from reconciler.resource.quantities import join_listing, show_count, show_duration, show_rate

_BENDING = 3  # points that make a bend


class BandStatus(Struct, frozen=True):
    """A mandatory band: its concurrencies, the points that are declared there, and those of them that are measured."""

    title: str
    first: int
    last: int
    declared: tuple[int, ...]
    measured: tuple[int, ...]


class CurveStatus(Struct, frozen=True):
    """``dominated``: points than which another is better on both axes. ``denser``: concurrencies near the sharpest
    bends; ``seconds``: what one more point takes, None where it is unknown. ``points``: those that can be drawn.
    ``offline``: samples of a dedicated Offline run, 0 where the point at the maximum is elected; ``ceiling``: its
    tokens a second."""

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


def render_curves_text(curves: Iterable[CurveStatus]) -> str:
    return "\n".join(line for curve in curves for line in _curve(curve))


def _curve(curve: CurveStatus) -> Iterator[str]:
    far = f"{len(curve.measured)} of {show_count(len(curve.declared), 'point')} measured"
    yield f"Curve {curve.curve}: {far}, up to {curve.max_concurrency} requests at a time"
    width = max(len(band.title) for band in curve.bands)
    for band in curve.bands:
        missing = [point for point in band.declared if point not in band.measured]
        shown = _list(band.declared) if band.declared else "no point"
        left = f"; not measured: {_list(missing)}" if missing and band.measured else ""
        yield f"  {band.title:<{width}}  {f'{band.first}-{band.last}':<9} {shown}{left}"
    if curve.offline:
        rate = "not measured" if curve.ceiling is None else f"{show_rate(float(curve.ceiling))} tokens/s"
        yield f"  Dedicated Offline run of {curve.offline} samples: {rate}"
    if curve.dominated:
        yield f"  Beaten on both axes by another point: {_list(curve.dominated)}"
    if curve.seconds is not None:
        bends = f"; the sharpest bends are around {_list(curve.denser)}" if curve.denser else ""
        yield f"  One more point takes about {show_duration(curve.seconds)}{bends}"


def render_denser_text(curve: CurveStatus, patch: str) -> str:
    """``patch``: the edit of the spec that adds ``curve.denser``."""
    if curve.denser:
        cost = "" if curve.seconds is None else f", about {show_duration(curve.seconds)} each"
        count = show_count(len(curve.denser), "more point")
        return f"{count} for {curve.curve} near its sharpest bends: {_list(curve.denser)}{cost}\n\n{patch}".rstrip()
    if len(curve.measured) < _BENDING:
        few = show_count(len(curve.measured), "point")
        return f"{curve.curve} has {few} measured: it takes {_BENDING} to see a bend. Nothing is proposed."
    return f"{curve.curve} has no room for another point near a bend. Nothing is proposed."


def _list(points: Sequence[int]) -> str:
    return join_listing(list(map(str, points)), most=12)
