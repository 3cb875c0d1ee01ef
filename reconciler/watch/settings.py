"""The options of `watch` as one value: its waits, cells and hours, and whether it commits and pushes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from msgspec import Struct, field

from reconciler.errors import ReconcilerError
from reconciler.plan.select import Selector
from reconciler.reconcile.planning import Options


class WatchSettings(Struct, frozen=True):
    """Times in seconds. ``stop``: end a superseded child instead of waiting for it. ``remote``: the remote to follow,
    ``push``: the one to push to; "" for none. ``health``: a port on the loopback interface, 0 for none."""

    options: Options = field(default_factory=Options)
    debounce: float = 0.1
    resync: float = 120.0
    stop: bool = False
    observed: tuple[Selector, ...] = ()
    windows: tuple[TimeWindow, ...] = ()
    commit: bool = False
    remote: str = ""
    poll: float = 60.0
    push: str = ""
    health: int = 0


# Freeze windows: times of day, on this machine's clock, in which nothing is built or run. Pure.

_WINDOW = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)")


class TimeWindow(Struct, frozen=True):
    """From ``start`` up to ``end``, in minutes after midnight; it spans midnight unless the end is later than the
    start."""

    start: int
    end: int

    def __str__(self) -> str:
        return "-".join(f"{minute // 60:02}:{minute % 60:02}" for minute in (self.start, self.end))

    def find_end(self, now: datetime) -> datetime | None:
        """Return the end of the window that contains ``now``; None outside it."""
        minute = now.hour * 60 + now.minute
        over = self.end <= self.start
        inside = minute >= self.start or minute < self.end if over else self.start <= minute < self.end
        if not inside:
            return None
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return day + timedelta(days=over and minute >= self.start, minutes=self.end)


def parse(text: str) -> TimeWindow:
    """Parse "22:00-06:00". Raises ReconcilerError."""
    found = _WINDOW.fullmatch(text.strip())
    if found is None:
        raise ReconcilerError(f"not a freeze window: {text!r}", fix="write it as 22:00-06:00")
    hours = [int(group) for group in found.groups()]
    return TimeWindow(hours[0] * 60 + hours[1], hours[2] * 60 + hours[3])


def find_freeze_end(windows: Iterable[TimeWindow], now: datetime) -> datetime | None:
    return max((end for window in windows if (end := window.find_end(now)) is not None), default=None)


# Backoff of retries by class of error: doubling, with a low cap, so that a fixed problem is soon noticed.

# Class → (first wait, longest wait), in seconds. "resources": a child ran out of memory or hung; "preempted",
# "node-failure", "requeued" and "lost": how a cluster's queue ended its job.
WAITS = {
    "locked": (2.0, 30.0),
    "storage": (10.0, 300.0),
    "remote": (15.0, 300.0),
    "repository": (10.0, 300.0),
    "resources": (30.0, 300.0),
    "preempted": (30.0, 300.0),
    "node-failure": (30.0, 300.0),
    "requeued": (30.0, 300.0),
    "lost": (30.0, 300.0),
    "failed": (60.0, 900.0),
}


class Wait(Struct, frozen=True):
    """``until``: on the caller's clock; ``seconds``: length of this wait; ``tries``: consecutive failures."""

    kind: str
    tries: int
    seconds: float
    until: float


class Backoff(Struct):
    """Waits by name: a step's key, or the name of an operation of the loop itself."""

    waits: dict[str, Wait] = field(default_factory=dict)

    def record_failure(self, name: str, kind: str, now: float) -> Wait:
        first, longest = WAITS.get(kind, WAITS["failed"])
        tries = self.waits[name].tries + 1 if name in self.waits else 1
        seconds = min(longest, first * 2 ** min(tries - 1, 30))
        self.waits[name] = Wait(kind, tries, seconds, now + seconds)
        return self.waits[name]

    def record_success(self, name: str) -> None:
        self.waits.pop(name, None)

    def keep(self, names: set[str]) -> None:
        """Forget steps that are no longer wanted."""
        self.waits = {name: wait for name, wait in self.waits.items() if name in names}

    def list_waiting(self, now: float) -> frozenset[str]:
        return frozenset(name for name, wait in self.waits.items() if wait.until > now)

    def list_ends(self, now: float) -> Iterator[float]:
        return (wait.until for wait in self.waits.values() if wait.until > now)
