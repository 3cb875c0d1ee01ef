"""A plan as a value, and its schedule up to a deadline."""

from __future__ import annotations

from msgspec import Struct

from reconciler.diff.change import Change, Drift, Finding, InputChange
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, Freeze, find_freeze
from reconciler.resource.kinds import Address, Cell


class Step(Struct, frozen=True):
    """A step of a plan. ``shared``: further addresses with the same key, satisfied by the same outcome. ``seconds``:
    predicted, None if unknown; ``basis``: "history", "formula" or "alike". ``blocked``: why it cannot run here now, and
    ``fix``."""

    change: Change
    shared: tuple[Address, ...] = ()
    explained: tuple[InputChange, ...] = ()
    because: tuple[Address, ...] = ()
    seconds: float | None = None
    basis: str = ""
    blocked: str = ""
    fix: str = ""


class Plan(Struct, frozen=True):
    """Bound to its sources: the digest of the desired state and that of the set of records. ``excluded``: steps that
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
        """Return True if the step serves only frozen cells."""
        return all(find_freeze(address.cell, self.frozen) for address in (step.change.address, *step.shared))

    @property
    def in_sync(self) -> bool:
        return not self.steps and not self.findings


class DeadlineEntry(Struct, frozen=True):
    """Cells that are submitted together. ``seconds``: of their own steps; ``unknown``: the number of steps without a
    prediction; ``ends``: seconds from now if run in this order."""

    name: str
    cells: tuple[Cell, ...]
    seconds: float
    unknown: int
    ends: float


class MachineSchedule(Struct, frozen=True):
    """``fits``: entries in the order to run them; ``drops``: entries to leave out, the longest first. ``blocked``: why
    steps of one of its entries cannot run from here."""

    machine: str
    fits: tuple[DeadlineEntry, ...]
    drops: tuple[DeadlineEntry, ...]
    blocked: str = ""
