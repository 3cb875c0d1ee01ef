"""Index of a detail log's lines by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from reconciler.loadgen import keys
from reconciler.loadgen.log_line import STRING, LogLine, compile_line

_CLOCK, _LONGEST_CLOCK = compile_line(STRING), 15  # digits of whole milliseconds


class LogIndex(dict[str, LogLine]):
    """First line of each key, in log order.

    ``lines``: all entries. ``repeated``: those whose key an earlier line has. ``made``: values that other code computed
    from the log. ``began_at``, ``ended_at``: milliseconds from the start of LoadGen's logger to its power_begin and
    power_end lines; None if it wrote none. ``structured``: lines are objects, as since v1.0.
    """

    def __init__(self, lines: Iterable[LogLine], *, structured: bool = True) -> None:
        super().__init__()
        self.lines, self.structured = tuple(lines), structured
        self.made: dict[Callable[..., Any], Any] = {}
        self.repeated = [line for line in self.lines if self.setdefault(line.key, line) is not line]
        self.began_at, self.ended_at = (_read_clock(self.get(key)) for key in (keys.POWER_BEGIN, keys.POWER_END))


def _read_clock(line: LogLine | None) -> Decimal | None:
    found = _CLOCK.fullmatch(line.text) if line is not None else None
    return Decimal(found[1].decode()) if found and found[1].index(b".") <= _LONGEST_CLOCK else None
