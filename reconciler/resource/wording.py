"""Format resolved values and users' decisions for readers: with units, and with shortened digests."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any

from reconciler.resource.canonical import show_decimal
from reconciler.resource.codec import decode_json
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, AcceptedInput
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.quantities import join_listing
from reconciler.storage.packaged_files import SCHEMA, UNIT, read_shipped

# Units, the smallest first.
_NANOSECONDS = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_MILLIWATTS = {"mW": 1, "W": 10**3, "kW": 10**6}
_DIGEST = re.compile(r"[0-9a-f]{40,64}")
_LONGEST = 48


@cache
def _load_units() -> dict[str, tuple[int, Mapping[str, int]]]:
    """Map a field's name to its unit, in terms of a table. The units are read from the schema, since importing the
    models would load pydantic."""
    groups = decode_json(read_shipped(SCHEMA), Any)["$defs"].values()
    fields = [item for group in groups for item in group.get("properties", {}).items()]
    named = {name: field[UNIT].replace("us", "µs") for name, field in fields if UNIT in field}
    tables = {unit: table for table in (_NANOSECONDS, _MILLIWATTS) for unit in table}
    return {name: (tables[unit][unit], tables[unit]) for name, unit in named.items()}


def _show_quantity(number: int, units: Mapping[str, int]) -> str:
    """Format a number in the largest unit that keeps it a short exact decimal; 0 stays 0."""
    if number == 0:
        return "0"
    for unit, size in reversed([*units.items()]):
        amount = Decimal(number) / size
        if abs(amount) >= 1 and -amount.as_tuple().exponent <= 3:  # type: ignore[operator]
            return f"{show_decimal(amount)} {unit}"
    return f"{number} {next(iter(units))}"


def show_value(name: str, value: Any) -> str:
    """Format the value of a setting, in full except for digests."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    last = name.rpartition(".")[2]
    if (unit := _load_units().get(last)) and not isinstance(value, (Mapping, list, tuple)):
        factor, units = unit
        try:
            return _show_quantity(int(Decimal(value) * factor), units)
        except (InvalidOperation, ValueError, TypeError):
            return str(value)
    if isinstance(value, str):
        return value[:12] if _DIGEST.fullmatch(value) else value or '""'
    if isinstance(value, int):
        return str(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def shorten_value(text: str, longest: int = _LONGEST) -> str:
    """Put a text on one line, and cut its middle, so that both ends of a path stay readable."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    head = longest // 2
    return f"{text[:head]}…{text[len(text) - (longest - head - 1) :]}"


def name_setting(name: str, kind: Kind) -> str:
    """Return the name of a setting within its kind: an Engine's ``engine.batch_size`` is "batch_size"."""
    return name.removeprefix(f"{str(kind).lower()}.")


def show_change(name: str, before: Any, after: Any, kind: Kind | None = None) -> str:
    """Format a change: "batch_size 8 → 16"; without a kind by its whole name: "engine.batch_size 8 → 16"."""
    old, new = (shorten_value(show_value(name, value)) for value in (before, after))
    return f"{name if kind is None else name_setting(name, kind)} {old} → {new}"


def show_acceptance(item: Acceptance, status: AcceptanceStatus = AcceptanceStatus.IN_FORCE) -> str:
    """Format an acceptance: "batch_size 8 → 16, until 2026-12-20, by Ada: the kernels are the same"."""
    changed = show_accepted(item)
    if status is AcceptanceStatus.IN_FORCE:
        return f"{changed}, until {item.until}, by {item.by.partition(' <')[0]}: {item.reason}"
    when = f" since {item.until}" if status is AcceptanceStatus.EXPIRED else ""
    return f"{changed}: {status}{when}, so it has no effect"


def show_accepted(item: Acceptance) -> str:
    """Format the inputs whose differences are accepted; the first three by name."""
    texts = [show_accepted_input(*changed) for changed in item.inputs]
    return join_listing(texts, most=3) if texts else "a new revision of our own code"


def show_accepted_input(address: Address, name: str, item: AcceptedInput) -> str:
    return show_change(name, item.before, item.after, address.kind)
