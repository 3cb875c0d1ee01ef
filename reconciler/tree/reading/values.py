"""Read values of a log that anyone may have edited: each as the type that a rule needs, or None."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any

from reconciler.errors import LogError
from reconciler.loadgen.log import DetailLog
from reconciler.resource.quantities import parse_number
from reconciler.tree.findings import Place

_SHOWN = 80


def read_number(log: DetailLog, key: str) -> Decimal | None:
    """Return a finite number; None if the key is absent or has any other value."""
    return parse_number(log.get_plain(key))


def make_finite(value: Decimal | float | None) -> float | None:
    """Return None for a number that does not fit a float, such as 1e400, since anyone may have written it."""
    exact = None if value is None else float(value)
    return exact if exact is not None and math.isfinite(exact) else None


def show_value(found: Any) -> str:
    """Show a value in one short line; "nothing" for None."""
    if found is None:
        return "nothing"
    line = " ".join((found if isinstance(found, str) else _format_plain(found)).split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _format_plain(found: Any) -> str:
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, Decimal) and found.is_finite() and abs(found) < 10**20:
        return f"{found:f}"
    return str(found)


def find_at(log: DetailLog, key: str) -> Place:
    """Return the line of a key, or the log as a whole if it is absent."""
    return Place(log.file, log.find_line_number(key))


def read_start(log: DetailLog) -> datetime | None:
    try:
        return log.started
    except LogError:
        return None


def read_end(log: DetailLog) -> datetime | None:
    try:
        return log.ended
    except LogError:
        return None
