"""Measurements of cells over time, and the changes between them, as values; ``history`` works them out."""

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
    """One recorded result. ``what``: "Run performance" or "Score". ``started``: UTC, ISO 8601. ``written``: the commit
    that brought the record. ``kept``: the newest commit still has it."""

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
    """An input or a fact that differs between two results. ``of``: what it belongs to; ``where``: the line that sets
    it, "" of a fact; ``by``: the commit that last changed that line, None when it is unknown."""

    of: str
    name: str
    before: Any
    after: Any
    where: str = ""
    by: Written | None = None


def drop_repeated(causes: Iterable[ChangeCause]) -> tuple[ChangeCause, ...]:
    """The first of those that are equal: two upstreams may differ by one line of a spec."""
    found: list[ChangeCause] = []
    for cause in causes:
        if cause not in found:  # values may be lists, which have no hash
            found.append(cause)
    return tuple(found)


class TimelineStep(Struct, frozen=True):
    """From one result to the next of the same kind. No causes: the same inputs and evidence, measured again."""

    before: MeasuredValue
    after: MeasuredValue
    causes: tuple[ChangeCause, ...]

    @property
    def change(self) -> float | None:
        """Relative: 0.1 is ten per cent more."""
        return compute_ratio(self.before.value, self.after.value, less=1.0)


class CellChange(Struct, frozen=True):
    """A cell at two commits. ``before`` and ``after``: (value, unit), None where it has no result; ``due``: what the
    later commit has not recorded yet."""

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
    """A point of a curve on its chart. ``per_user``: tokens a second per user, or, of an agentic benchmark,
    interactivity."""

    concurrency: int
    per_user: Decimal
    system_tps: Decimal
    ttft_p90_ms: Decimal | None = None


def find_dominated(points: Sequence[CurvePoint]) -> frozenset[int]:
    """Concurrencies of points than which another is as good on both axes and better on one."""
    return frozenset(point.concurrency for point in points if any(beats(other, point) for other in points))


def beats(other: CurvePoint, point: CurvePoint) -> bool:
    """As good on both axes, and better on one."""
    as_good = other.per_user >= point.per_user and other.system_tps >= point.system_tps
    return as_good and (other.per_user, other.system_tps) != (point.per_user, point.system_tps)


class Side(Struct, frozen=True):
    """One side of a comparison, of a cell. ``count``: accelerators of all nodes, 0 when not declared; ``headroom``: per
    cent below the tightest latency limit, "" where there is none or it is unknown. ``entered``: the official benchmark,
    where that is known to have another name; ``point``: of a curve; ``offline``: the dedicated Offline run of one, its
    ceiling."""

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
        """Measured task, whatever the submitter calls it."""
        return self.entered or self.cell.benchmark, self.cell.scenario

    @property
    def curve(self) -> str:
        """The name of the curve that it is a point of."""
        return f"{self.cell.division}/{self.cell.system}/{self.cell.benchmark}"


class Pair(Struct, frozen=True):
    one: Side
    other: Side

    @property
    def likeness(self) -> tuple[bool, bool, bool]:
        """How much alike the two are but for their result: same division, accelerator, count."""
        alike = bool(self.one.accelerator) and self.one.accelerator == self.other.accelerator
        same = self.one.count == self.other.count
        return self.one.cell.division == self.other.cell.division, alike, same

    @property
    def ratio(self) -> float | None:
        """The other over the one."""
        return compute_ratio(self.one.value, self.other.value) if self.one.unit == self.other.unit else None

    @property
    def per_accelerator(self) -> float | None:
        """The same for each accelerator; of throughputs only, and where both sides declare a count."""
        if self.ratio is None or not (self.one.count and self.other.count and self.one.unit.endswith("/s")):
            return None
        return self.ratio * self.one.count / self.other.count


class CurvePair(Struct, frozen=True):
    """Two curves of one task. ``points``: how many each has that none of its own beats; ``peaks``: the most tokens a
    second of each; ``beaten``: concurrencies of those at which a point of the other is better on both axes."""

    curves: tuple[str, str]
    points: tuple[int, int]
    peaks: tuple[Decimal, Decimal]
    beaten: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def ratio(self) -> float | None:
        return compute_ratio(*self.peaks)


class ResultComparison(Struct, frozen=True):
    """``alone``: cells that only one side has, by the name of that side."""

    names: tuple[str, str]
    pairs: tuple[Pair, ...]
    alone: Mapping[str, tuple[Cell, ...]]
    curves: tuple[CurvePair, ...] = ()


def parse_number(text: object) -> float | None:
    try:
        return float(Decimal(str(text)))
    except InvalidOperation:
        return None


def compute_ratio(one: object, other: object, less: float = 0.0) -> float | None:
    first, second = parse_number(one), parse_number(other)
    return second / first - less if first and second is not None else None
