"""What people have decided about cells: results that count although inputs differ, and cells that are left alone.

Each decision is one file in git that never changes, says who, when and why, and is read like a record. Whether it
holds today is asked at each look; no decision enters a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, NamedTuple

from reconciler.resource.canonical import digest
from reconciler.resource.kinds import Address, Cell

FORMAT = 1


class AcceptedInput(NamedTuple):
    """An input that differs: as it was recorded, and as it is asked for. ``origin``: the line that asks."""

    name: str
    before: Any
    after: Any
    origin: str


class AcceptedKey(NamedTuple):
    """A resource whose record with the key ``before`` counts for the key ``after``. ``inputs``: its own that differ."""

    address: Address
    before: str
    after: str
    inputs: tuple[AcceptedInput, ...] = ()


@dataclass(frozen=True, slots=True)
class Acceptance:
    """``by``: name and address as git knows them; ``made``: UTC, ISO 8601; ``until``: the first day on which it no
    longer holds; ``commit``: HEAD when it was made, "" for none."""

    cell: Cell
    reason: str
    by: str
    made: str
    until: date
    commit: str
    keys: tuple[AcceptedKey, ...]

    @property
    def inputs(self) -> tuple[tuple[Address, AcceptedInput], ...]:
        """Each input once: what several resources read is named for the first."""
        found: dict[tuple[str, str], tuple[Address, AcceptedInput]] = {}
        for key in self.keys:
            for item in key.inputs:
                found.setdefault((item.name, str(item.after)), (key.address, item))
        return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Freeze:
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


class AcceptanceStatus(StrEnum):
    """How an acceptance stands today. CHANGED: other inputs are asked for than those that were accepted, or its records
    are gone. MEASURED: the inputs were measured since."""

    IN_FORCE = "in force"
    EXPIRED = "expired"
    CHANGED = "no longer fits"
    MEASURED = "not needed"


@dataclass(frozen=True, slots=True)
class Decisions:
    """By the path of their files. ``damaged``: path → why it has no effect. ``today``: a day in UTC."""

    acceptances: Mapping[str, Acceptance]
    freezes: Mapping[str, Freeze]
    damaged: Mapping[str, str]
    today: date

    @property
    def frozen(self) -> tuple[Freeze, ...]:
        """Those that hold today."""
        return tuple(f for f in self.freezes.values() if f.until is None or self.today < f.until)

    @property
    def digest(self) -> str:
        """Of what can change a plan; "" where nobody decided anything."""
        held = [p for p, a in self.acceptances.items() if self.today < a.until]
        held += [p for p, f in self.freezes.items() if f in self.frozen]
        return digest(sorted(held)) if held else ""


NONE = Decisions({}, {}, {}, date.min)


def find_freeze(cell: Cell | None, freezes: Iterable[Freeze]) -> Freeze | None:
    """The freeze that holds for a cell, or for what no cell owns; one of the whole submission goes first."""
    found = [freeze for freeze in freezes if freeze.covers(cell)]
    return min(found, key=lambda freeze: freeze.cell is not None, default=None)


def encode_acceptance(item: Acceptance) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "cell": str(item.cell),
        "reason": item.reason,
        "by": item.by,
        "made": item.made,
        "until": item.until.isoformat(),
        "commit": item.commit,
        "accepted": [
            {
                "address": str(key.address),
                "key": {"before": key.before, "after": key.after},
                "inputs": {i.name: {"before": i.before, "after": i.after, "origin": i.origin} for i in key.inputs},
            }
            for key in item.keys
        ],
    }


def decode_acceptance(document: Mapping[str, Any]) -> Acceptance:
    """Raises ValueError, KeyError, TypeError or AttributeError for what is none."""
    keys = tuple(
        AcceptedKey(
            Address.parse(entry["address"]),
            entry["key"]["before"],
            entry["key"]["after"],
            tuple(AcceptedInput(n, i["before"], i["after"], i["origin"]) for n, i in entry["inputs"].items()),
        )
        for entry in document["accepted"]
    )
    until = date.fromisoformat(document["until"])
    reason, by, made = (str(document[name]) for name in ("reason", "by", "made"))
    return Acceptance(Cell.parse(document["cell"]), reason, by, made, until, str(document["commit"]), keys)


def encode_freeze(item: Freeze) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "cell": str(item.cell) if item.cell else None,
        "reason": item.reason,
        "by": item.by,
        "made": item.made,
        "until": item.until.isoformat() if item.until else None,
        "commit": item.commit,
    }


def decode_freeze(document: Mapping[str, Any]) -> Freeze:
    """Raises as ``acceptance_of`` does."""
    cell, until = document["cell"], document["until"]
    reason, by, made = (str(document[name]) for name in ("reason", "by", "made"))
    return Freeze(
        Cell.parse(cell) if cell else None,
        reason,
        by,
        made,
        date.fromisoformat(until) if until else None,
        str(document["commit"]),
    )
