"""Consequences of merging one commit into another, as values; ``history`` computes them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from reconciler.diff.change import InputChange
from reconciler.resource.kinds import Cell


class Effect(StrEnum):
    """Effect of merging on a cell. STALE: the merge makes it stale; WAS_STALE: it is stale on both sides; NEVER: it is
    recorded on neither; ACCEPTED: its results are accepted although inputs differ."""

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
    """``due``: the labels of the resources to make; ``causes``: its own inputs that differ; ``seconds``: predicted."""

    cell: Cell
    effect: Effect
    due: tuple[str, ...] = ()
    causes: tuple[InputChange, ...] = ()
    seconds: float | None = None


class Remark(Struct, frozen=True):
    """A remark for a reviewer. ``level`` is "error", "warning" or "notice"; ``line`` and ``column`` are 0 if
    unknown."""

    level: str
    file: str
    line: int
    message: str
    fix: str = ""
    column: int = 0


class Impact(Struct, frozen=True):
    """``counts``: the resources to make, by label, once per key. ``seconds``: their sum, None if a part is unknown.
    ``withheld``: why measurements are left out, "" if none are."""

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
        """Return True if anything must be made. False is a proof, since both complete desired states were compared."""
        due = (Effect.ADDED, Effect.STALE, Effect.WAS_STALE, Effect.NEVER)
        return any(cell.effect in due and cell.due for cell in self.cells)

    @property
    def adds_work(self) -> bool:
        """Return True if merging makes additional resources due."""
        return any(cell.effect in (Effect.ADDED, Effect.STALE) and cell.due for cell in self.cells)
