"""A plan as a value."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.diff.change import Change, Drift, Finding, InputChange
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, Freeze, find_freeze
from reconciler.resource.kinds import Address


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. ``shared``: further addresses with the same key, satisfied by the same outcome. ``seconds``:
    predicted, None when it is unknown; ``basis`` "history" or "formula". ``blocked``: why it cannot be done here
    now, and ``fix``."""

    change: Change
    shared: tuple[Address, ...] = ()
    explained: tuple[InputChange, ...] = ()
    because: tuple[Address, ...] = ()
    seconds: float | None = None
    basis: str = ""
    blocked: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Bound to what it was made from: the desired digest and the digest of the set of records. ``excluded``: steps
    that selectors left out. ``acceptances``: path, acceptance, how it stands; ``frozen``: the freezes that hold."""

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
        """Whether people want all that this step is for left alone."""
        return all(find_freeze(address.cell, self.frozen) for address in (step.change.address, *step.shared))

    @property
    def in_sync(self) -> bool:
        return not self.steps and not self.findings
