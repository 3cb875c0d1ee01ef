"""Capacity of a system's power supplies, from systems/<system>_power.yaml (submission structure, from v6.1 on).

A component lists its supplies (``PSUs``, each with ``PowerCapacityWatts``) and the minimum number it needs. Only that
many count, the largest first, because spare supplies deliver no power. Components may be nested to any depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from reconciler.resource.quantities import parse_decimal

CAPACITY = "system_power_capacity"  # in systems/<system>.json: the same value as a number
_SUPPLIES, _NEEDED, _WATTS = "psus", "min psus needed", "PowerCapacityWatts"


def compute_capacity(document: object) -> Decimal:
    """Compute the capacity in watts from a parsed YAML document. Raises ValueError if a component does not match the
    template."""
    if isinstance(document, Mapping):
        names = {str(name).lower(): item for name, item in document.items()}
        if _SUPPLIES in names and _NEEDED in names:
            return _sum_needed(names[_SUPPLIES], names[_NEEDED])
        document = list(document.values())
    return sum(map(compute_capacity, document), Decimal(0)) if isinstance(document, list) else Decimal(0)


def _sum_needed(supplies: object, needed: object) -> Decimal:
    if not isinstance(supplies, Sequence) or isinstance(supplies, str) or not supplies:
        raise ValueError("PSUs names no power supply")
    if isinstance(needed, bool) or not isinstance(needed, int) or not 0 < needed <= len(supplies):
        raise ValueError(f"Min PSUs Needed is {needed!r}, of {len(supplies)} power supplies")
    return sum(sorted(map(_read_watts, supplies), reverse=True)[:needed], Decimal(0))


def _read_watts(supply: object) -> Decimal:
    watts = parse_decimal(supply.get(_WATTS)) if isinstance(supply, Mapping) else None
    if watts is None or watts <= 0:
        raise ValueError(f"a power supply has no {_WATTS}")
    return watts
