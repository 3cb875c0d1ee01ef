"""Starting values for a system that others submitted before: published ones, each with its source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from ruamel.yaml import YAML

from reconciler.resource.canonical import show_decimal

_FILE = Path(__file__).with_suffix(".yaml")
_COUNT = re.compile(r"x(\d{1,3})\b|\b(\d{1,3})x|[-_](\d{1,3})\b")
# Family → how its driver names the accelerator, "" for a CPU, and how many a node usually has.
_HARDWARE: Mapping[str, tuple[str, int]] = {
    "GB200": ("NVIDIA GB200", 4),
    "B200": ("NVIDIA B200", 8),
    "H200": ("NVIDIA H200", 8),
    "H100": ("NVIDIA H100", 8),
    "L40S": ("NVIDIA L40S", 8),
    "A100": ("NVIDIA A100", 8),
    "Orin": ("NVIDIA Jetson AGX Orin", 1),
    "MI300X": ("AMD Instinct MI300X", 8),
    "Xeon": ("", 2),
}


class StartingValue(Struct, frozen=True):
    """``setting``: target_qps of the whole node, or target_latency; ``source``: the published result; ``shown``: how
    the value follows from it."""

    setting: str
    value: str
    weights: str
    source: str
    shown: str


class Family(Struct, frozen=True):
    """``count``: accelerators of a node; of a CPU system its sockets."""

    name: str
    accelerator: str
    count: int


def find_family(system: str) -> Family | None:
    """By the name that people give such a system: h200x8, 4xB200, xeon."""
    lower = system.lower()
    name = next((name for name in _HARDWARE if name.lower() in lower), None)
    if name is None:
        return None
    accelerator, usual = _HARDWARE[name]
    found = _COUNT.search(lower.replace(name.lower(), " "))
    count = int(next(filter(None, found.groups()))) if found else usual
    return Family(name, accelerator, count)


def find_starting_value(family: Family, official: str, scenario: str) -> StartingValue | None:
    """None where no closed result of such a system is known."""
    found = _load().get(family.name, {}).get(official, {}).get(scenario)
    if found is None:
        return None
    if "target_latency" in found:
        return StartingValue(
            "target_latency", found["target_latency"], found["weights"], found["source"], found["target_latency"]
        )
    each = Decimal(found["target_qps"])
    what = "accelerator" if family.accelerator else "socket"
    whole = show_decimal(each * family.count)
    return StartingValue("target_qps", whole, found["weights"], found["source"], f"{show_decimal(each)} per {what}")


@cache
def _load() -> Mapping[str, Any]:
    values: Mapping[str, Any] = YAML(typ="safe").load(_FILE)
    return values
