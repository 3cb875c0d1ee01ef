"""Detect whether this machine's clock was set during a run, by comparing the time of day with a monotonic clock."""

from __future__ import annotations

import time

CLOCK_SET = "clock_set"  # in a result's values: seconds by which it was set forward, or back if negative
_LEAST = 0.02  # seconds; such a difference in a run's logs is tolerated
_TRIES = 5  # preemption between two readings would look like a clock change


class ClockWatch:
    """Watches from its creation. Time synchronisation that slews the clock changes both alike, and is not detected."""

    def __init__(self) -> None:
        self._began = _read_apart()

    def describe(self) -> dict[str, float]:
        """Return nothing if the clock was not set."""
        moved = _read_apart() - self._began
        return {CLOCK_SET: round(moved, 3)} if abs(moved) > _LEAST else {}


def _read_apart() -> float:
    """Return the difference between the clocks in seconds, from the fastest of several readings."""
    readings = []
    for _ in range(_TRIES):
        before = time.monotonic()
        now = time.time()
        after = time.monotonic()
        readings.append((after - before, now - (before + after) / 2))
    return min(readings)[1]
