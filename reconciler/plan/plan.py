"""A plan as a value, and what a deadline leaves of it."""

from __future__ import annotations

from msgspec import Struct

from reconciler.diff.change import Change, Drift, Finding, InputChange
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, Freeze, find_freeze
from reconciler.resource.kinds import Address, Cell


class Step(Struct, frozen=True):
    """One thing to do. ``shared``: further addresses with the same key, satisfied by the same outcome. ``seconds``:
    predicted, None when it is unknown; ``basis`` "history", "formula" or "alike". ``blocked``: why it cannot be done
    here now, and ``fix``."""

    change: Change
    shared: tuple[Address, ...] = ()
    explained: tuple[InputChange, ...] = ()
    because: tuple[Address, ...] = ()
    seconds: float | None = None
    basis: str = ""
    blocked: str = ""
    fix: str = ""


class Plan(Struct, frozen=True):
    """Bound to what it was made from: the desired digest and the digest of the set of records. ``excluded``: steps that
    selectors left out. ``acceptances``: path, acceptance, its status; ``frozen``: the freezes in force."""

    name: str
    desired: str
    recorded: str
    steps: tuple[Step, ...]
    unchanged: int = 0
    excluded: int = 0
    drifts: tuple[Drift, ...] = ()
    findings: tuple[Finding, ...] = ()
    undeclared: tuple[Address, ...] = ()
    acceptances: tuple[tuple[str, Acceptance, AcceptanceStatus], ...] = ()
    frozen: tuple[Freeze, ...] = ()

    def withholds(self, step: Step) -> bool:
        """True where people want all that this step is for left alone."""
        return all(find_freeze(address.cell, self.frozen) for address in (step.change.address, *step.shared))

    @property
    def in_sync(self) -> bool:
        return not self.steps and not self.findings


class DeadlineEntry(Struct, frozen=True):
    """Cells that are submitted together. ``seconds``: of their own steps; ``unknown``: how many of these have no
    prediction; ``ends``: seconds from now when they come in this order."""

    name: str
    cells: tuple[Cell, ...]
    seconds: float
    unknown: int
    ends: float


class MachineSchedule(Struct, frozen=True):
    """``fits`` in the order to run them; ``drops``: what to leave out, first what saves the most. ``blocked``: why the
    steps of one of its entries cannot be done from here."""

    machine: str
    fits: tuple[DeadlineEntry, ...]
    drops: tuple[DeadlineEntry, ...]
    blocked: str = ""
