"""Decisions of people about cells: results that count although inputs differ, and cells that are left alone.

Each decision is one file in git that never changes, says who, when and why, and is read like a record: the fields of
these classes, in their order, are its format. One that comes later gets a default and ``LEFT_OUT`` (``records.py``), so
that files keep their bytes. Whether a decision holds today is asked in each pass; none enters a key.
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
    """An input that differs: as it was recorded, and as it is asked for. ``origin``: the line that asks."""

    before: Any
    after: Any
    origin: str


class KeyChange(Struct, frozen=True):
    """The key of the record that counts, and the one that it counts for."""

    before: str
    after: str


class AcceptedKey(Struct, frozen=True):
    """A resource whose record with the key before counts for the key after. ``inputs``: its own that differ."""

    address: Address
    key: KeyChange
    inputs: Mapping[str, AcceptedInput] = field(default_factory=dict)


class Acceptance(Struct, frozen=True):
    """``by``: name and address as git knows them; ``made``: UTC, ISO 8601; ``until``: the first day on which it no
    longer holds; ``commit``: HEAD when it was made, "" for none."""

    cell: Cell
    reason: str
    by: str
    made: str
    until: date
    commit: str
    accepted: tuple[AcceptedKey, ...]

    @property
    def inputs(self) -> tuple[tuple[Address, str, AcceptedInput], ...]:
        """Each input once, by name: what several resources read is named for the first."""
        found: dict[tuple[str, str], tuple[Address, str, AcceptedInput]] = {}
        for key in self.accepted:
            for name, item in key.inputs.items():
                found.setdefault((name, str(item.after)), (key.address, name, item))
        return tuple(found.values())


class Freeze(Struct, frozen=True):
    """``cell`` None: the whole submission. ``until`` None: until somebody ends it."""

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
    """A result that was corrected after it was submitted. ``objection``: where it was filed, or its text; ``commit``:
    the one that was submitted. ``result``: digests of the result then and as corrected; ``repeated``: the runs, scores
    and tests that were made again; ``metric``: then and now, as text, "" where there is none. ``inputs``: by the
    resource and name."""

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
    """Status of an acceptance today. CHANGED: other inputs are asked for than those that were accepted, or its records
    are gone. MEASURED: the inputs were measured since."""

    IN_FORCE = "in force"
    EXPIRED = "expired"
    CHANGED = "no longer fits"
    MEASURED = "not needed"


class Decisions(Struct, frozen=True):
    """By the path of their files. ``damaged``: path → why it has no effect. ``today``: a day in UTC."""

    acceptances: Mapping[str, Acceptance]
    freezes: Mapping[str, Freeze]
    damaged: Mapping[str, str]
    today: date
    amendments: Mapping[str, Amendment] = field(default_factory=dict)

    @property
    def frozen(self) -> tuple[Freeze, ...]:
        """Freezes in force today."""
        return tuple(f for f in self.freezes.values() if f.until is None or self.today < f.until)

    @property
    def digest(self) -> str:
        """Digest of the decisions that can change a plan; "" without any."""
        active = [p for p, a in self.acceptances.items() if self.today < a.until]
        active += [p for p, f in self.freezes.items() if f in self.frozen]
        return digest(sorted(active)) if active else ""


NONE = Decisions({}, {}, {}, date.min)


def find_freeze(cell: Cell | None, freezes: Iterable[Freeze]) -> Freeze | None:
    """The freeze that holds for a cell, or for what no cell owns; one of the whole submission goes first."""
    found = [freeze for freeze in freezes if freeze.covers(cell)]
    return min(found, key=lambda freeze: freeze.cell is not None, default=None)
