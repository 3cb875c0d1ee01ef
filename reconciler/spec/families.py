"""Accelerators that systems are named after, and starting values for systems that others submitted before: published
values with their sources."""

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

_FILE = Path(__file__).with_name("starting_values.yaml")
# Where a name may state the number of accelerators, the most reliable place first; \0 means the accelerator. A
# suffix such as _TRT or _MaxQ may follow.
_COUNTS = (
    r"(?<![a-z0-9])(\d{1,3})x[_-]?\0",
    r"x(\d{1,3})\0",
    r"\0.*?x(\d{1,3})(?![a-z0-9])",
    r"x(\d{1,3})(?![a-z0-9])",
    r"(?<![a-z0-9])(\d{1,3})x",
    r"[-_](\d{1,3})\b",
)
_CARD = re.compile(r"(?<![a-z])(PCIe|NVL)(?![a-wyz0-9])", re.IGNORECASE)
# Families that have modules and also cards, which are slower.
_BOTH = {"H200", "H100"}
# Families of modules. A name with more modules than a node has means several nodes.
_MODULES = re.compile(r"(GB|B|H|MI)\d")
# Family → the start of its accelerator's name in the driver, "" for a CPU, and the usual number per node; the first
# match is used.
_HARDWARE: Mapping[str, tuple[str, int]] = {
    "GB300": ("NVIDIA GB300", 4),
    "GB200": ("NVIDIA GB200", 4),
    "B300": ("NVIDIA B300", 8),
    "B200": ("NVIDIA B200", 8),
    "H200": ("NVIDIA H200", 8),
    "H100": ("NVIDIA H100", 8),
    "L40S": ("NVIDIA L40S", 8),
    "A100": ("NVIDIA A100", 8),
    "A30": ("NVIDIA A30", 1),
    "A10": ("NVIDIA A10", 1),
    "A2": ("NVIDIA A2", 1),
    "T4": ("Tesla T4", 1),
    "TitanRTX": ("TITAN RTX", 1),
    "GeForceRTX3090": ("NVIDIA GeForce RTX 3090", 1),
    "GeForceRTX3080": ("NVIDIA GeForce RTX 3080", 1),
    "Orin": ("NVIDIA Jetson AGX Orin", 1),
    "Xavier_NX": ("NVIDIA Jetson Xavier NX", 1),
    "Xavier": ("NVIDIA Jetson AGX Xavier", 1),
    "MI300X": ("AMD Instinct MI300X", 8),
    "MI325X": ("AMD Instinct MI325X", 8),
    "MI350X": ("AMD Instinct MI350X", 8),
    "MI355X": ("AMD Instinct MI355X", 8),
    "Xeon": ("", 2),
}


class StartingValue(Struct, frozen=True):
    """``setting``: target_qps of the whole node, or target_latency; ``source``: the published result; ``shown``: how
    the value was derived from it; ``further``: other settings of the same configuration."""

    setting: str
    value: str
    weights: str
    source: str
    shown: str
    further: tuple[str, ...] = ()


class Family(Struct, frozen=True):
    """``count``: accelerators of all nodes, or sockets of a CPU system."""

    name: str
    accelerator: str
    count: int
    nodes: int = 1


def find_family(system: str) -> Family | None:
    """Find a family by a system's usual name: h200x8, 4xB200, xeon."""
    written_as = ((name, re.search(_make_name_pattern(name), system, re.I)) for name in _HARDWARE)
    name, written = next(((name, where) for name, where in written_as if where is not None), ("", None))
    if written is None:
        return None
    accelerator, usual = _HARDWARE[name]
    rest = f"{system[: written.start()]}\0{system[written.end() :]}".lower()
    found = next(filter(None, (re.search(place, rest) for place in _COUNTS)), None)
    count = int(found[1]) if found else usual
    if name in _BOTH and (card := _CARD.search(rest)):
        kind = "NVL" if card[1] == "nvl" else "PCIe"
        return Family(f"{name} {kind}", f"{accelerator} {kind}", count)
    return Family(name, accelerator, count, 1 if count % usual or not _MODULES.match(name) else max(1, count // usual))


_STATED = re.compile(r"\d[a-z]*x(\d{1,3})(?![a-z0-9])|(?<![a-z0-9])(\d{1,3})x(?=[_-]?[a-z])")
_PROCESSOR = re.compile(r"(?:\d{1,3}x[_-]?)?(?:xeon|epyc)[a-z0-9]*")
_MODEL = re.compile(r"(?!\d+GB\b|HBM)[A-Za-z]*\d[A-Za-z0-9]*")


def find_stated_count(system: str) -> int | None:
    """Return the number of accelerators that a name states with their model, even an unknown one: 4 for
    GH200-96GB_aarch64x4_TRT. Return None for a name without these, such as box2."""
    found = _STATED.search(_PROCESSOR.sub("", system.lower()))
    return int(found[1] or found[2]) if found else None


def names_accelerator(system: str, accelerator: str) -> bool:
    """Return True if a system's name contains the model number of an accelerator, as the driver writes it."""
    models = (word for word in accelerator.split() if _MODEL.fullmatch(word))
    return any(re.search(_make_name_pattern(word.upper()), system, re.I) for word in models)


def _make_name_pattern(family: str) -> str:
    """Return a pattern for any spelling of a family. A short name such as T4 must be a separate word, but may follow
    8x. The x of mi300x8 belongs both to the name and to the number. GH200 is not an H200."""
    *parts, last = re.findall(r"[A-Z]+[a-z]*|\d+", family)
    words = r"[ _-]?".join([*parts, r"(?:X(?!\d)|(?=x\d))" if last == "X" else last])
    return rf"(?<!G){words}(?!\d)" if len(family) > 3 else rf"(?:(?<![a-z0-9])|(?<=\dx)){words}(?!\d)"


def find_chip(accelerator: str) -> Family | None:
    """Find a family with one accelerator, by the driver's name for it. Cards with lower power are different chips."""
    found = (name for name, (driver, _) in _HARDWARE.items() if driver and accelerator.startswith(driver))
    name = next(found, None) if not _CARD.search(accelerator) else None
    return Family(name, accelerator, 1) if name else None


def find_starting_value(family: Family, official: str, scenario: str) -> StartingValue | None:
    """Find a starting value; None if no result of such a system in the closed division is known."""
    found = _load_values().get(family.name, {}).get(official, {}).get(scenario)
    if found is None:
        return None
    if latency := found.get("target_latency"):
        return StartingValue("target_latency", latency, found["weights"], found["source"], latency)
    each = Decimal(found["target_qps"])
    what = "accelerator" if family.accelerator else "socket"
    whole = show_decimal(each * family.count)
    return StartingValue("target_qps", whole, found["weights"], found["source"], f"{show_decimal(each)} per {what}")


@cache
def _load_values() -> Mapping[str, Any]:
    values: Mapping[str, Any] = YAML(typ="safe").load(_FILE)
    return values
