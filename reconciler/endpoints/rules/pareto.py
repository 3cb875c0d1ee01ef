"""The official curve, drawn in steps without interpolation, and its dominated points (rules §5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from msgspec import Struct

from reconciler.diff.timeline import CurvePoint, find_dominated
from reconciler.endpoints.rules.point import MeasuredPoint


class ParetoCurve(Struct, frozen=True):
    """``points``: by concurrency; ``ceiling``: tokens per second of a dedicated Offline run, which has no rate per
    user; ``dominated``: concurrencies of points that another one beats on both axes."""

    points: tuple[CurvePoint, ...]
    ceiling: Decimal | None
    dominated: frozenset[int]
    agentic: bool = False

    @property
    def peak(self) -> Decimal:
        """Return the maximum tokens per second of any point, including Offline."""
        return max((*(point.system_tps for point in self.points), self.ceiling or Decimal(0)))


def make_curve(points: Iterable[MeasuredPoint]) -> ParetoCurve:
    """Make a curve of the points that have a rate per user; others cannot be drawn."""
    measured = sorted(points, key=lambda point: point.concurrency)
    fixed = [point for point in measured if not point.is_offline]
    drawn = []
    for point in fixed:
        if point.per_user is not None:
            drawn.append(CurvePoint(point.concurrency, point.per_user, point.system_tps, point.ttft_p90_ms))
    ceiling = max((point.system_tps for point in measured if point.is_offline), default=None)
    agentic = any(point.is_agentic for point in fixed)
    return ParetoCurve(tuple(drawn), ceiling, find_dominated(drawn), agentic)


def read_recorded_point(concurrency: int, figures: Mapping[str, object], rate: object) -> CurvePoint | None:
    """Return the recorded point, None without a rate per user. ``figures``: from the record of its performance run;
    ``rate``: tokens per second."""
    per_user, ttft = figures.get("interactivity", figures.get("tps_per_user")), figures.get("ttft_p90_ms")
    if per_user is None:
        return None
    waited = None if ttft is None else Decimal(str(ttft))
    return CurvePoint(concurrency, Decimal(str(per_user)), Decimal(str(rate)), waited)


def trace_steps(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return the corners of the official line through the points, in the given order. From each point, the line stays
    level until it is above or below the next point, where it steps to that point."""
    corners: list[tuple[float, float]] = []
    for across, up in points:
        if corners:
            corners.append((across, corners[-1][1]))
        corners.append((across, up))
    return tuple(corners)
