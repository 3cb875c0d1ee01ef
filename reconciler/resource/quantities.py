"""Format durations, ages, rates, sizes and counts, rounded for readers, and parse numbers from text.

The exact values are in the JSON output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import TypeGuard

_DAY, _MONTH, _YEAR = 86400, 30 * 86400, 365 * 86400
# The unit of an age: from how many seconds it is used, its size in seconds, its name.
_SPANS = (
    *((_YEAR, _YEAR, "year"), (2 * _MONTH, _MONTH, "month"), (_DAY, _DAY, "day")),
    *((3600, 3600, "hour"), (60, 60, "minute"), (1, 1, "second")),
)
_LARGEST_EXPONENT = 400  # larger exponents exceed a double
_MOST_DIGITS = 18  # digits of a count written as text


def show_duration(seconds: float) -> str:
    """Format a duration in at most two units: "1 h 50 min", "2 min 10 s", "3.4 s", "12 ms"."""
    if seconds < 0:
        return f"-{show_duration(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _show_two_units(whole, 60, "min", "s")
    minutes = round(seconds / 60)
    if minutes < 1440:
        return _show_two_units(minutes, 60, "h", "min")
    return _show_two_units(round(seconds / 3600), 24, "d", "h")


def _show_two_units(total: int, large: int, large_name: str, small_name: str) -> str:
    first, rest = divmod(total, large)
    return f"{first} {large_name}" + (f" {rest} {small_name}" if rest else "")


def show_age(seconds: float) -> str:
    """Format an age in one unit: "2 days ago"."""
    if seconds < 1:
        return "just now"
    size, name = next((size, name) for least, size, name in _SPANS if seconds >= least)
    return f"{show_count(int(seconds // size), name)} ago"


def show_rate(per_second: float) -> str:
    """Format a rate with three significant digits: "107", "1,240", "8.31", "0.042"."""
    if per_second >= 100:
        return f"{per_second:,.0f}"
    return f"{per_second:.3g}"


def show_size(count_of_bytes: int) -> str:
    """Format a size in binary units: "512 B", "1.4 MiB"."""
    amount = float(count_of_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.3g} TiB"


def show_count(number: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: "1 step", "4 steps", "1,200 queries"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def join_listing(names: Iterable[str], *, most: int = 6) -> str:
    """Join names: "a, b and c"; a long list ends in "and 12 more"."""
    items = list(names)
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most:,} more"
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def join_counted(names: Iterable[str]) -> str:
    """Count and join names: "8 x NVIDIA H200 and 1 x NVIDIA T4", in the order of first occurrence; "" for none."""
    return join_listing([f"{count} x {name}" for name, count in Counter(names).items()])


def is_whole(value: object) -> TypeGuard[int]:
    """Return True for an integer; true and false do not count."""
    return isinstance(value, int) and not isinstance(value, bool)


def read_count(found: object, usual: int) -> int:
    """Read an integer, which may be written as text; return ``usual`` for anything else."""
    stated = str(found).strip()
    return int(stated) if stated.isdecimal() and len(stated) <= _MOST_DIGITS else usual


def parse_decimal(found: object) -> Decimal | None:
    """Parse a finite number exactly; None for anything else, and for numbers too large or too small to compute with or
    display."""
    try:
        exact = None if isinstance(found, bool) else found if isinstance(found, Decimal) else Decimal(str(found))
    except (InvalidOperation, ValueError):  # ValueError: an integer with thousands of digits
        return None
    if exact is None or not exact.is_finite() or (exact and abs(exact.adjusted()) > _LARGEST_EXPONENT):
        return None
    return exact if exact or abs(exact.adjusted()) <= _LARGEST_EXPONENT else Decimal(0)


def parse_number(found: object) -> Decimal | None:
    """Return a finite number; None for text and anything else."""
    if isinstance(found, bool) or not isinstance(found, (int, float, Decimal)):
        return None
    return parse_decimal(found)
