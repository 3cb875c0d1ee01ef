"""Freeze windows: times of day, on this machine's clock, in which nothing is built or run. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from reconciler.errors import ReconcilerError

_WINDOW = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)")


class TimeWindow(Struct, frozen=True):
    """From ``start`` up to ``end``, in minutes after midnight; over midnight when the end is not the later."""

    start: int
    end: int

    def __str__(self) -> str:
        return "-".join(f"{minute // 60:02}:{minute % 60:02}" for minute in (self.start, self.end))

    def find_end(self, now: datetime) -> datetime | None:
        """When the window that ``now`` is in ends; None outside it."""
        minute = now.hour * 60 + now.minute
        over = self.end <= self.start
        inside = minute >= self.start or minute < self.end if over else self.start <= minute < self.end
        if not inside:
            return None
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return day + timedelta(days=over and minute >= self.start, minutes=self.end)


def parse(text: str) -> TimeWindow:
    """ "22:00-06:00". Raises ReconcilerError."""
    found = _WINDOW.fullmatch(text.strip())
    if found is None:
        raise ReconcilerError(f"not a freeze window: {text!r}", fix="write it as 22:00-06:00")
    hours = [int(group) for group in found.groups()]
    return TimeWindow(hours[0] * 60 + hours[1], hours[2] * 60 + hours[3])


def find_freeze_end(windows: Iterable[TimeWindow], now: datetime) -> datetime | None:
    return max((end for window in windows if (end := window.find_end(now)) is not None), default=None)
