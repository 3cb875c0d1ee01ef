"""Convert quantities with units exactly to integers in base units, without binary floats.

Every function accepts a YAML value (text, a number's text, or anything else) and raises ``UnfitError`` with the fix.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

from msgspec import Struct

from reconciler.resource.canonical import show_decimal

# LoadGen stores counts and durations in unsigned 64-bit integers; half of that leaves room for sums.
LARGEST = 2**63 - 1

_QUANTITY = re.compile(r"([-+]?(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([-+]?[0-9]+))?)[ \t]*(.*)")
_COUNT = re.compile(r"\+?[0-9][0-9_]*")
_THOUSANDS = re.compile(r"([0-9]{1,3}(?:,[0-9]{3})+)")  # "24,576"
_COUNTED = re.compile(r"([1-9][0-9]*) ?[A-Za-z]{2,}")  # "8 GPUs"
# a part of "1h30m" or "10 min 5 s"
_PARTS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([A-Za-z]+\.?)(?:,? and |, ?| )?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]")
_EACH = re.compile(r"(.*?)[ \t]+per[ \t]+(accelerator|gpu|device|card)s?", re.IGNORECASE)
PER_ACCELERATOR = " per accelerator"  # suffix of a rate that is multiplied by the system's accelerators
_MOST_DIGITS = 40  # maximum length of a number's text; exponents have at most two digits


class UnfitError(ValueError):
    """A value that cannot be used: the problem, and the fix."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class Dimension(Struct, frozen=True):
    """``units``: each unit's size in the smallest one; ``example``: shown in fixes."""

    noun: str
    units: dict[str, int]
    example: str


DURATION = Dimension(
    "duration",
    {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "µs": 10**3, "μs": 10**3},
    "600 s",
)
POWER = Dimension("power", {"mW": 1, "W": 10**3, "kW": 10**6}, "300 W")
SIZE = Dimension(
    "size",
    {
        "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
        "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    },
    "512 MiB",
)  # fmt: skip
RATE = Dimension("rate", {"/s": 1, "qps": 1, "queries/s": 1, "samples/s": 1}, "54 /s")
_DIMENSIONS = (DURATION, POWER, SIZE, RATE)
# Spellings of units, in lower case and without a plural s.
_MEANT = {
    **dict.fromkeys(("nsec", "nanosecond"), "ns"),
    **dict.fromkeys(("usec", "microsecond", "micro"), "us"),
    **dict.fromkeys(("msec", "milli", "millisecond"), "ms"),
    **dict.fromkeys(("sec", "second"), "s"),
    **dict.fromkeys(("m", "minute", "mn"), "min"),
    **dict.fromkeys(("hr", "hour"), "h"),
    **dict.fromkeys(("watt",), "W"),
    **dict.fromkeys(("gb", "g", "gigabyte"), "GB"),
    **dict.fromkeys(("mb", "megabyte"), "MB"),
    **dict.fromkeys(("tb", "terabyte"), "TB"),
    **dict.fromkeys(("hz", "rp", "q/s", "query/s", "sample/s", "per second", "token/s"), "/s"),
}


def show_quantity(value: Any) -> str:
    """Describe a value for a message: text is quoted and shortened, other values are named by type."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a group of settings"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = "".join(character if character.isprintable() else "�" for character in str(value)[:61])
    return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"


def _list_units(dimension: Dimension) -> str:
    return ", ".join(unit for unit in dimension.units if unit.isascii())


def _explain_unit(text: str, unit: str, dimension: Dimension) -> UnfitError:
    fix = f"write a {dimension.noun} in {_list_units(dimension)}, such as {dimension.example}"
    if not unit:
        also = ""
        if dimension is DURATION and text.isdecimal() and 6 <= len(text) <= 15:  # probably in ns
            also = f"; {text} ns, as LoadGen has it, is {show_decimal(Decimal(text) / 10**6)} ms"
        fix = f"write its unit ({_list_units(dimension)}), such as {dimension.example}{also}"
        return UnfitError(f"{show_quantity(text)} has no unit", fix)
    if dimension is DURATION and (total := _sum_parts(text)):
        return UnfitError(f"{show_quantity(text)} has several units; use one", f"write '{total}'")
    for known in _DIMENSIONS:
        if unit in known.units:
            return UnfitError(f"{show_quantity(text)} is a {known.noun}, not a {dimension.noun}", fix)
    thousands = {"k": 10**3, "m": 10**6}.get(unit.casefold()) if dimension is RATE else None
    if thousands:
        fix = f"write {show_decimal(Decimal(text.removesuffix(unit).strip().replace('_', '')) * thousands)}"
    elif meant := _find_meant(unit, dimension):
        fix = f"write '{text.removesuffix(unit).strip()} {meant}' (units: {_list_units(dimension)})"
    return UnfitError(f"{show_quantity(text)} has an unknown unit {show_quantity(unit)}", fix)


def _find_meant(unit: str, dimension: Dimension) -> str:
    """Return the unit that a full name, another case or an abbreviation with a dot means; "" for any other word."""
    word = unit.strip().rstrip(".").casefold()
    same = next((known for known in dimension.units if known.casefold() == word), "")
    meant = same or _MEANT.get(word) or _MEANT.get(word.removesuffix("s")) or ""
    return meant if meant in dimension.units else ""


def _sum_parts(text: str) -> str:
    """Sum up durations such as "10 min 5 s" in the largest unit without a fraction; "" for anything else."""
    parts, end = [], 0
    while (part := _PARTS.match(text, end)) is not None:
        parts.append((Fraction(part[1]), _find_meant(part[2], DURATION)))
        end = part.end()
    if end != len(text) or len(parts) < 2 or not all(unit for _, unit in parts):
        return ""
    total = sum(number * DURATION.units[unit] for number, unit in parts)
    sizes = sorted(((size, unit) for unit, size in DURATION.units.items() if unit.isascii()), reverse=True)
    return next((f"{total // size} {unit}" for size, unit in sizes if total and total % size == 0), "")


def _split_unit(value: Any, dimension: Dimension) -> tuple[str, Decimal, str]:
    fix = f"write a {dimension.noun} such as {dimension.example}"
    if not isinstance(value, (str, int, Decimal)) or isinstance(value, bool):
        raise UnfitError(f"expected a {dimension.noun}, not {show_quantity(value)}", fix)
    text = str(value).strip()
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnfitError(f"{show_quantity(text)} is not a {dimension.noun}", fix)
    if len(match[1]) > _MOST_DIGITS or len((match[2] or "").lstrip("+-")) > 2:
        raise UnfitError(f"{show_quantity(match[1])} is out of range", fix)
    if _LEADING_ZERO.match(match[1]):
        raise _explain_zero(text, match[1])
    number = Decimal(match[1].replace("_", ""))
    if number < 0:
        problem = f"{show_quantity(text)} is negative"
        raise UnfitError(problem, f"write a positive {dimension.noun} such as {dimension.example}")
    return text, number, match[3]


def _parse_whole(value: Any, dimension: Dimension, base: str, *, zero: bool) -> int:
    text, number, unit = _split_unit(value, dimension)
    if unit not in dimension.units and not (number == 0 and not unit):
        raise _explain_unit(text, unit, dimension)
    if number == 0 and not zero:
        problem = f"the {dimension.noun} is zero"
        raise UnfitError(problem, f"write a {dimension.noun} above 0, such as {dimension.example}")
    exact = Fraction(number) * dimension.units.get(unit, 1) / dimension.units[base]
    if exact.denominator != 1:
        raise UnfitError(f"{show_quantity(text)} is not a whole number of {base}", f"round it to whole {base}")
    if exact > LARGEST:
        raise UnfitError(f"{show_quantity(text)} is too large", f"write at most {LARGEST} {base}")
    return int(exact)


def _explain_zero(text: str, number: str) -> UnfitError:
    """Refuse a leading zero, which some programs read as octal."""
    plain = number.lstrip("+-").lstrip("0_") or "0"
    return UnfitError(f"{show_quantity(text)} starts with 0, which some parsers read as octal", f"write {plain}")


def parse_duration(value: Any, base: str, *, zero: bool = True) -> int:
    """Parse a duration to an integer in ``base`` units (ns, us, ms, s). 0 needs no unit if ``zero`` allows it."""
    return _parse_whole(value, DURATION, base, zero=zero)


def parse_power(value: Any) -> int:
    """Parse a power above 0 to milliwatts."""
    return _parse_whole(value, POWER, "mW", zero=False)


def parse_rate(value: Any) -> str:
    """Parse a rate above 0 (queries or samples per second) to decimal text. A plain number is per second. A rate per
    accelerator keeps the suffix ``PER_ACCELERATOR``."""
    if isinstance(value, str) and (each := _EACH.fullmatch(value.strip())) is not None:
        if (rate := parse_rate(each[1])).endswith(PER_ACCELERATOR):
            raise UnfitError(f"{show_quantity(value)} is per accelerator twice", f"write '{rate}'")
        if each[2].casefold() != "accelerator":
            raise UnfitError(f"{show_quantity(value)} is per {each[2]}", f"write '{each[1]}{PER_ACCELERATOR}'")
        return f"{rate}{PER_ACCELERATOR}"
    text, number, unit = _split_unit(value, RATE)
    if unit and unit not in RATE.units:
        raise _explain_unit(text, unit, RATE)
    if number == 0:
        raise UnfitError("the rate is zero", "write a rate above 0, such as 54")
    if number > LARGEST:
        raise UnfitError(f"{show_quantity(text)} is out of range", f"write a rate of at most {LARGEST}")
    return show_decimal(number)


def parse_count(value: Any, *, least: int = 1, most: int = LARGEST) -> int:
    """Parse an integer between ``least`` and ``most``; underscores may group digits (24_576)."""
    bounds = f"from {least} to {most}" if most < LARGEST else f"of at least {least}"
    fix = f"write a whole number {bounds}"
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise UnfitError(f"expected a whole number, not {show_quantity(value)}", fix)
    text = str(value).strip()
    if _LEADING_ZERO.match(text) and _COUNT.fullmatch(text):
        raise _explain_zero(text, text)
    if not _COUNT.fullmatch(text):
        meant = _THOUSANDS.fullmatch(text) or _COUNTED.fullmatch(text)
        fix = f"write {meant[1].replace(',', '')}" if meant else fix
        raise UnfitError(f"{show_quantity(text)} is not a whole number", fix)
    if len(text) > _MOST_DIGITS or (number := int(text.replace("_", ""))) > most:
        raise UnfitError(f"{text[:_MOST_DIGITS]} is out of range", f"write a whole number from {least} to {most}")
    if number < least:
        raise UnfitError(f"{number} is out of range", fix)
    return number
