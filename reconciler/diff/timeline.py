"""Measurements of cells over time, and the changes between them, as values; ``history`` computes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct

from reconciler.resource.kinds import Cell


class Written(Struct, frozen=True):
    """A commit."""

    commit: str
    author: str
    when: datetime
    subject: str


class MeasuredValue(Struct, frozen=True):
    """A recorded result. ``what``: "Run performance" or "Score". ``started``: UTC, ISO 8601. ``written``: the commit
    that added the record. ``kept``: whether the newest commit still contains it."""

    record: str
    what: str
    started: str
    value: str
    unit: str
    validity: str
    marks: tuple[str, ...]
    written: Written
    kept: bool

    @property
    def number(self) -> float | None:
        return parse_number(self.value)


class ChangeCause(Struct, frozen=True):
    """An input or fact that differs between two results. ``of``: its resource; ``where``: the line that sets it, "" for
    a fact; ``by``: the commit that last changed that line, None if it is unknown."""

    of: str
    name: str
    before: Any
    after: Any
    where: str = ""
    by: Written | None = None


def drop_repeated(causes: Iterable[ChangeCause]) -> tuple[ChangeCause, ...]:
    """Remove duplicate causes: two upstream resources may differ by the same line of a spec."""
    found: list[ChangeCause] = []
    for cause in causes:
        if cause not in found:  # a set would fail, since values may be lists
            found.append(cause)
    return tuple(found)


class TimelineStep(Struct, frozen=True):
    """From one result to the next of the same kind. Without causes, the same configuration was measured again."""

    before: MeasuredValue
    after: MeasuredValue
    causes: tuple[ChangeCause, ...]

    @property
    def change(self) -> float | None:
        """Relative change: 0.1 is ten per cent more."""
        return compute_ratio(self.before.value, self.after.value, less=1.0)


class CellChange(Struct, frozen=True):
    """A cell at two commits. ``before`` and ``after``: (value, unit), None without a result; ``due``: resources that
    the later commit has not recorded yet."""

    cell: Cell
    declared: tuple[bool, bool]
    causes: tuple[ChangeCause, ...]
    before: tuple[str, str] | None
    after: tuple[str, str] | None
    due: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        return self.declared == (True, True) and not self.causes and self.before == self.after


class CurvePoint(Struct, frozen=True):
    """A point of a curve on its chart. ``per_user``: tokens per second per user; for an agentic benchmark, its
    interactivity."""

    concurrency: int
    per_user: Decimal
    system_tps: Decimal
    ttft_p90_ms: Decimal | None = None


def find_dominated(points: Sequence[CurvePoint]) -> frozenset[int]:
    """Return the concurrencies of points that another point beats."""
    return frozenset(point.concurrency for point in points if any(beats(other, point) for other in points))


def beats(other: CurvePoint, point: CurvePoint) -> bool:
    """Return True if ``other`` is at least as good on both axes and better on one."""
    as_good = other.per_user >= point.per_user and other.system_tps >= point.system_tps
    return as_good and (other.per_user, other.system_tps) != (point.per_user, point.system_tps)


STALE = "STALE"  # validity of a side that has only results from other inputs than those declared


class Side(Struct, frozen=True):
    """One side of a comparison of cells. ``count``: accelerators of all nodes, 0 if not declared; ``headroom``: per
    cent below the tightest latency limit, "" if there is none or it is unknown. ``entered``: the official benchmark, if
    its name is known to differ; ``point``: a point of a curve; ``offline``: the curve's Offline run, its ceiling."""

    cell: Cell
    value: str
    unit: str
    validity: str = ""
    count: int = 0
    accelerator: str = ""
    headroom: str = ""
    entered: str = ""
    point: CurvePoint | None = None
    offline: bool = False

    @property
    def task(self) -> tuple[str, str]:
        """Measured task, under its official name if known."""
        return self.entered or self.cell.benchmark, self.cell.scenario

    @property
    def curve(self) -> str:
        """Name of the curve that the point belongs to."""
        return f"{self.cell.division}/{self.cell.system}/{self.cell.benchmark}"


class Pair(Struct, frozen=True):
    one: Side
    other: Side

    @property
    def likeness(self) -> tuple[bool, bool, bool]:
        """How similar the two sides are apart from their results: same division, accelerator, count."""
        alike = bool(self.one.accelerator) and self.one.accelerator == self.other.accelerator
        same = self.one.count == self.other.count
        return self.one.cell.division == self.other.cell.division, alike, same

    @property
    def ratio(self) -> float | None:
        """Ratio of the other value to the first."""
        return compute_ratio(self.one.value, self.other.value) if self.one.unit == self.other.unit else None

    @property
    def per_accelerator(self) -> float | None:
        """Ratio per accelerator, for throughputs if both sides declare a count."""
        if self.ratio is None or not (self.one.count and self.other.count and self.one.unit.endswith("/s")):
            return None
        return self.ratio * self.one.count / self.other.count


class CurvePair(Struct, frozen=True):
    """Two curves of one task. ``points``: number of each curve's points that no other point of it beats; ``peaks``: the
    highest tokens per second of each; ``beaten``: concurrencies of those points that the other curve beats on both
    axes."""

    curves: tuple[str, str]
    points: tuple[int, int]
    peaks: tuple[Decimal, Decimal]
    beaten: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def ratio(self) -> float | None:
        return compute_ratio(*self.peaks)


class ResultComparison(Struct, frozen=True):
    """``alone``: cells that only one side has, by that side's name; ``invalid``: those whose run is INVALID. ``stale``:
    cells of the other side whose results are stale on this one, by this one's name."""

    names: tuple[str, str]
    pairs: tuple[Pair, ...]
    alone: Mapping[str, tuple[Cell, ...]]
    curves: tuple[CurvePair, ...] = ()
    invalid: tuple[Cell, ...] = ()
    stale: Mapping[str, tuple[Cell, ...]] = {}


def parse_number(text: object) -> float | None:
    try:
        return float(Decimal(str(text)))
    except InvalidOperation:
        return None


def compute_ratio(one: object, other: object, less: float = 0.0) -> float | None:
    first, second = parse_number(one), parse_number(other)
    return second / first - less if first and second is not None else None
