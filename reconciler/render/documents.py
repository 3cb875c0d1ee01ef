"""Reports as JSON documents: plain values, each with a version and every cell considered, including clean ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.errors import Problem
from reconciler.loadgen.settings import SETTINGS, Unit
from reconciler.plan.plan import Plan
from reconciler.resource.conditions import CellStatus, ConditionStatus
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, Cell

VERSION = 1
_VALUES = ("value", "before", "after")
_DECIMALS = frozenset(setting.name for setting in SETTINGS if setting.unit in (Unit.RATE, Unit.PERCENT))
_PLAIN = frozenset({str, int, float, bool, type(None)})

Document = dict[str, Any]


def render_document(kind: str, **parts: Any) -> dict[str, Any]:
    """Return a versioned report; every part as JSON values."""
    return {"version": VERSION, "report": kind, **{name: convert_plain_value(part) for name, part in parts.items()}}


def convert_plain_value(value: Any) -> Any:
    """Convert our values to JSON: addresses, cells and origins to their usual text, structs field by field."""
    if type(value) in _PLAIN:  # no enumeration is among these classes
        return value
    if isinstance(value, (Address, Cell, Origin, Path)):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Problem):
        return value._asdict()
    if isinstance(value, Struct):
        return _convert_struct(value)
    if isinstance(value, Mapping):
        return {str(name): convert_plain_value(item) for name, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(convert_plain_value, value))
    if isinstance(value, (list, tuple)):
        return [convert_plain_value(item) for item in value]
    if isinstance(value, Decimal):
        return _convert_decimal(value)
    return value if isinstance(value, (str, int, float)) else str(value)


def _convert_decimal(value: Decimal) -> int | float | str:
    """Return an equal number, or the text if there is none."""
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(str(float(value))) == value else str(value)


def _convert_struct(value: Struct) -> dict[str, Any]:
    """Convert each field; measured values and values of named settings become numbers."""
    fields = {name: convert_plain_value(getattr(value, name)) for name in value.__struct_fields__}
    if "unit" in fields and isinstance(fields.get("value"), str):
        fields["value"] = _read_number(fields["value"])
    elif isinstance(fields.get("name"), str):
        named = {key: convert_setting(fields["name"], fields[key]) for key in _VALUES if key in fields}
        fields.update(named)
    return fields


def convert_setting(name: str, value: Any) -> Any:
    """Convert the value of a setting; decimals, which keys contain as text, become numbers."""
    plain = convert_plain_value(value)
    decimal = name.rpartition(".")[2] in _DECIMALS or (name.startswith(("engine.", "run.")) and "." in str(plain))
    return convert_decimal_text(plain) if decimal and isinstance(plain, str) else plain


def convert_decimal_text(text: str) -> int | float | str:
    """Return the number if it is written like this in JSON, too; else the text."""
    number = _read_number(text)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return number if str(number) == text else text


def render_cells_part(standings: Sequence[CellStatus], plan: Plan | None = None) -> list[dict[str, Any]]:
    """Return one entry per cell: conditions, measurements, and the number of planned steps (0: clean)."""
    steps: dict[Cell | None, int] = {}
    for step in plan.steps if plan else ():
        for address in {step.change.address, *step.shared}:
            steps[address.cell] = steps.get(address.cell, 0) + 1
    return [
        {
            "cell": str(status.cell),
            "ready": status.ready is ConditionStatus.TRUE,
            "steps": steps.get(status.cell, 0),
            "metric": make_metric_document(status.metric),
            "accuracy": make_metric_document(status.accuracy),
            "efficiency": make_metric_document(status.efficiency),
            "validity": status.validity or None,
            "margin": {"name": status.margin[0], "headroom": _read_number(status.margin[1])} if status.margin else None,
            "marks": list(status.marks),
            "notes": list(status.notes),
            "conditions": convert_plain_value(status.conditions),
        }
        for status in standings
    ]


def convert_margin(margin: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a recorded margin, which has numbers as text; no headroom is null."""
    return {**margin, **{name: convert_number(margin[name]) for name in ("measured", "limit", "headroom")}}


def convert_number(text: str) -> float | str | None:
    """Return a number for JSON; null for none."""
    return _read_number(text) if text else None


def make_metric_document(metric: tuple[str, str] | None) -> dict[str, float | str] | None:
    return {"value": _read_number(metric[0]), "unit": metric[1]} if metric else None


def _read_number(text: str) -> float | str:
    """Return a number for JSON; text that is not a JSON number stays text."""
    try:
        number = float(text)
    except ValueError:
        return text
    return number if isfinite(number) else text
