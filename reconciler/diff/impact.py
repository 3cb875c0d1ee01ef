"""Consequences of merging one commit into another, as values; ``history`` computes them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

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
    """``due``: the labels of the resources to make; ``due_before``: those that are already due on the base. ``causes``:
    its own inputs that differ from the records; ``causes_before``: those that already differ on the base. ``seconds``:
    predicted."""

    cell: Cell
    effect: Effect
    due: tuple[str, ...] = ()
    due_before: tuple[str, ...] = ()
    causes: tuple[InputChange, ...] = ()
    causes_before: tuple[InputChange, ...] = ()
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


class DueWork(Struct, frozen=True):
    """``counts``: the resources to make, by label, once per key. ``seconds``: the sum of the predicted times;
    ``unknown``: the number of resources without one."""

    counts: Mapping[str, int] = {}
    seconds: float = 0.0
    unknown: int = 0


class Impact(Struct, frozen=True):
    """``added``: what only merging makes due; ``due_before``: what is due on the base, too. ``withheld``: why
    measurements are left out, "" if none are."""

    base: str
    head: str
    cells: tuple[CellEffect, ...]
    added: DueWork = DueWork()
    due_before: DueWork = DueWork()
    remarks: tuple[Remark, ...] = ()
    withheld: str = ""

    @property
    def due(self) -> DueWork:
        """Everything that is due after merging."""
        one, other = self.added, self.due_before
        counts = {n: one.counts.get(n, 0) + other.counts.get(n, 0) for n in {**one.counts, **other.counts}}
        return DueWork(counts, one.seconds + other.seconds, one.unknown + other.unknown)

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
