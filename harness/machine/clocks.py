"""Check that the clock of this machine was not set while something ran: the time of day against one that only
counts."""

from __future__ import annotations

import time

CLOCK_SET = "clock_set"  # in a result's values: seconds by which it was put forward, or back where they are negative
_LEAST = 0.02  # seconds; the logs of a run may differ by as much
_TRIES = 5  # losing the processor between two readings would look like a clock that moved


class ClockWatch:
    """From its making on. Time synchronisation that slews a clock changes both alike, and is not seen."""

    def __init__(self) -> None:
        self._began = _read_apart()

    def values(self) -> dict[str, float]:
        """Give nothing where the clock was not set."""
        moved = _read_apart() - self._began
        return {CLOCK_SET: round(moved, 3)} if abs(moved) > _LEAST else {}


def _read_apart() -> float:
    """Seconds from one clock to the other, of the reading that took the least time."""
    readings = []
    for _ in range(_TRIES):
        before = time.monotonic()
        now = time.time()
        after = time.monotonic()
        readings.append((after - before, now - (before + after) / 2))
    return min(readings)[1]
