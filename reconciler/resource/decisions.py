"""Users' decisions about cells: accepting results although inputs differ, and freezing cells.

Each decision is one immutable file in git that records who made it, when and why. It is read like a record: the fields
of these classes, in order, define its format. Fields added later get a default and ``LEFT_OUT`` (``records.py``), so
that files keep their bytes. Each pass checks whether a decision is in force; none enters a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from reconciler.resource.canonical import digest
from reconciler.resource.kinds import Address, Cell

FORMAT = 1


class AcceptedInput(Struct, frozen=True):
    """An input that differs: its recorded and its requested value. ``origin``: the line that requests it."""

    before: Any
    after: Any
    origin: str


class KeyChange(Struct, frozen=True):
    """The key of the record that counts, and the key for which it counts."""

    before: str
    after: str


class AcceptedKey(Struct, frozen=True):
    """A resource whose record with the earlier key counts for the later key. ``inputs``: its own inputs that differ."""

    address: Address
    key: KeyChange
    inputs: Mapping[str, AcceptedInput] = field(default_factory=dict)


class Acceptance(Struct, frozen=True):
    """Acceptance of results. ``by``: name and address from git; ``made``: UTC, ISO 8601; ``until``: the first day on
    which it is no longer valid; ``commit``: HEAD at that time, "" if there is none."""

    cell: Cell
    reason: str
    by: str
    made: str
    until: date
    commit: str
    accepted: tuple[AcceptedKey, ...]

    @property
    def inputs(self) -> tuple[tuple[Address, str, AcceptedInput], ...]:
        """Return each input once, with its name; an input of several resources is listed under the first of them."""
        found: dict[tuple[str, str], tuple[Address, str, AcceptedInput]] = {}
        for key in self.accepted:
            for name, item in key.inputs.items():
                found.setdefault((name, str(item.after)), (key.address, name, item))
        return tuple(found.values())


class Freeze(Struct, frozen=True):
    """Freeze of a cell. ``cell``: None freezes the entire submission. ``until``: None means no end date."""

    cell: Cell | None
    reason: str
    by: str
    made: str
    until: date | None
    commit: str

    def covers(self, cell: Cell | None) -> bool:
        return self.cell is None or self.cell == cell

    def __str__(self) -> str:
        """ "frozen until 2026-12-01 by Ada: the deadline is over"."""
        end = f"until {self.until}" if self.until else f"since {self.made[:10]}"
        return f"frozen {end} by {self.by.partition(' <')[0]}: {self.reason}"


class Amendment(Struct, frozen=True):
    """Correction of a submitted result. ``objection``: where it was filed, or its text; ``commit``: the submitted
    commit. ``result``: digests of the result before and after; ``repeated``: the runs, scores and tests that were
    repeated; ``metric``: before and after, as text, "" if there is none. ``inputs``: by resource and name."""

    cell: Cell
    objection: str
    reason: str
    by: str
    made: str
    commit: str
    result: KeyChange
    inputs: Mapping[str, AcceptedInput]
    repeated: tuple[str, ...]
    metric: tuple[str, str]


class AcceptanceStatus(StrEnum):
    """Status of an acceptance today. CHANGED: the requested inputs differ from the accepted ones, or its records are
    gone. MEASURED: the inputs were measured later."""

    IN_FORCE = "in force"
    EXPIRED = "expired"
    CHANGED = "no longer fits"
    MEASURED = "not needed"


class Decisions(Struct, frozen=True):
    """Decisions by file path. ``damaged``: path → why it has no effect. ``today``: today's date in UTC."""

    acceptances: Mapping[str, Acceptance]
    freezes: Mapping[str, Freeze]
    damaged: Mapping[str, str]
    today: date
    amendments: Mapping[str, Amendment] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, Acceptance | Freeze | Amendment]:
        """Return every decision by its path."""
        return {**self.acceptances, **self.freezes, **self.amendments}

    @property
    def frozen(self) -> tuple[Freeze, ...]:
        """Freezes in force today."""
        return tuple(f for f in self.freezes.values() if f.until is None or self.today < f.until)

    @property
    def digest(self) -> str:
        """Return the digest of the decisions that can change a plan; "" if there are none."""
        active = [p for p, a in self.acceptances.items() if self.today < a.until]
        active += [p for p, f in self.freezes.items() if f in self.frozen]
        return digest(sorted(active)) if active else ""


NONE = Decisions({}, {}, {}, date.min)


def find_freeze(cell: Cell | None, freezes: Iterable[Freeze]) -> Freeze | None:
    """Find the freeze in force for a cell, or for resources without a cell; one of the entire submission takes
    precedence."""
    found = [freeze for freeze in freezes if freeze.covers(cell)]
    return min(found, key=lambda freeze: freeze.cell is not None, default=None)
