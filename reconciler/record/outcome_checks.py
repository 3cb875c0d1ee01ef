"""Limits of a record's outcome. It may come from anybody's branch: a value of another shape, or of a size that nothing
measured has, would end every command that shows it, and so it makes the record a damaged one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec

from reconciler.resource.quantities import parse_decimal
from reconciler.resource.records import Record

_LONGEST = 1e9  # seconds, thirty years
_LARGEST = 1 << 62  # bytes
_KEYED = frozenset((str, int, bool, type(None)))
_MOST = 40  # powers of ten on either side of 1: no rate, latency or power is beyond


class _Measured(msgspec.Struct):
    value: str
    unit: str


class _Margin(msgspec.Struct):
    name: str
    measured: str
    limit: str
    unit: str
    met: bool
    headroom: str


class _Suggestion(msgspec.Struct):
    setting: str
    value: str
    unit: str
    why: str


class _Bar(msgspec.Struct):
    metric: str
    measured: str
    met: bool
    least: str | None = None
    most: str | None = None


class _Power(msgspec.Struct):
    efficiency: _Measured | None = None


class _Imported(msgspec.Struct):
    declared: dict[str, Any] = {}


class _Values(msgspec.Struct):
    """Values that are shown or compared; the rest of a record is never read."""

    validity: str = ""
    reasons: list[str] = []
    metric: _Measured | None = None
    margins: list[_Margin] = []
    suggestion: _Suggestion | None = None
    bars: list[_Bar] = []
    accuracy_met: bool = True
    passed: bool = True
    figures: dict[str, Any] = {}
    power: _Power | None = None
    inferred: dict[str, _Measured] = {}
    imported: _Imported | None = None


def check_plausible(record: Record) -> None:
    """ValueError for what no pass has recorded."""
    if not (math.isfinite(record.seconds) and 0 <= record.seconds < _LONGEST):
        raise ValueError("seconds is not a duration")
    for item in record.artifacts:
        if not 0 <= item.size < _LARGEST:
            raise ValueError("an artifact has no size")
    for name, given in record.inputs.items():
        if type(given.value) not in _KEYED and not _is_keyed(given.value):
            raise ValueError(f"input {name!r} has a value that no key was made of")
    if not record.values:  # of whatever was built, and of accuracy runs
        return
    for name, text in _list_numbers(msgspec.convert(record.values, _Values)):
        number = parse_decimal(text)
        if number is None or (number and abs(number.adjusted()) > _MOST):
            raise ValueError(f"{name} is {text[:40]!r}, and not a number that was measured")


def _is_keyed(value: Any) -> bool:
    """Text, whole numbers, yes and no, and what is made of them."""
    if type(value) in _KEYED:
        return True
    parts = value.values() if isinstance(value, dict) else value
    return isinstance(value, (list, tuple, dict)) and all(map(_is_keyed, parts))


def _list_numbers(values: _Values) -> Iterator[tuple[str, str]]:
    """Name and text of each number that people are shown. An empty text is none."""
    measured = (values.metric, values.power.efficiency if values.power else None, *values.inferred.values())
    found = [("value", item.value) for item in measured if item is not None]
    for margin in values.margins:
        found += [(name, getattr(margin, name)) for name in ("measured", "limit", "headroom")]
    for bar in values.bars:
        found += [(name, getattr(bar, name) or "") for name in ("measured", "least", "most")]
    if values.suggestion is not None:
        found.append(("suggestion", values.suggestion.value))
    yield from (item for item in found if item[1])
