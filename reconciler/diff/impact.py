"""Consequences of merging one commit into another, as values; ``history`` works them out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from reconciler.diff.change import InputChange
from reconciler.resource.kinds import Cell


class Effect(StrEnum):
    """Effect of merging on a cell. STALE: this change makes it so; WAS_STALE: it is so on both sides; NEVER: it was
    never recorded on either; ACCEPTED: its results count by a decision although inputs differ."""

    ADDED = "added"
    REMOVED = "removed"
    STALE = "stale"
    WAS_STALE = "already stale"
    NEVER = "not recorded yet"
    SETTLED = "settled"
    ACCEPTED = "accepted"
    RENDERED = "rendered again"
    UNAFFECTED = "unaffected"


class CellEffect(Struct, frozen=True):
    """``due`` are the labels of what must be made; ``causes`` the inputs of its own that differ; ``seconds``
    predicted."""

    cell: Cell
    effect: Effect
    due: tuple[str, ...] = ()
    causes: tuple[InputChange, ...] = ()
    seconds: float | None = None


class Remark(Struct, frozen=True):
    """Something for a reviewer. ``level`` is "error", "warning" or "notice"; ``line`` and ``column`` 0 when there is
    none."""

    level: str
    file: str
    line: int
    message: str
    fix: str = ""
    column: int = 0


class Impact(Struct, frozen=True):
    """``counts``: what is to be made, by label, once per key. ``seconds``: their sum, None when a part is unknown.
    ``withheld``: why nothing measured is in it, "" when it holds all."""

    base: str
    head: str
    cells: tuple[CellEffect, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    seconds: float | None = 0.0
    unknown: int = 0
    remarks: tuple[Remark, ...] = ()
    withheld: str = ""

    @property
    def errors(self) -> bool:
        return any(remark.level == "error" for remark in self.remarks)

    @property
    def work(self) -> bool:
        """True where anything must be made; False is a proof, since both desired states were compiled and compared
        whole."""
        due = (Effect.ADDED, Effect.STALE, Effect.WAS_STALE, Effect.NEVER)
        return any(cell.effect in due and cell.due for cell in self.cells)

    @property
    def adds_work(self) -> bool:
        """True where merging makes anything due; anything due before is not this change's doing."""
        return any(cell.effect in (Effect.ADDED, Effect.STALE) and cell.due for cell in self.cells)
