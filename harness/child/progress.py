"""Progress of a child: a counter in a small file that it keeps, and that its follower reads."""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

STAGES = (
    *("starting", "loading", "building", "warming up", "running", "completing", "scoring", "done"),
    *("starting service", "serving"),
)
# Stage, unused, done, expected, when the stage began and when the last bump was (both monotonic ns).
_COUNTER = struct.Struct("=IIQQQQ")


class Counter:
    """A progress counter in a small file that parent and child both map.

    One writer, the child; readers tolerate a torn read, since the next one fixes it. CLOCK_MONOTONIC is one clock for
    all processes of a machine, so the parent computes rates without a clock of its own in the file.
    """

    def __init__(self, path: str | Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, _COUNTER.size)
            self._map = mmap.mmap(descriptor, _COUNTER.size)
        finally:
            os.close(descriptor)
        self._stage, self._done, self._expected, self._began = 0, 0, 0, time.monotonic_ns()

    def stage(self, name: str, expected: int = 0) -> None:
        """Enter a stage; ``expected`` units of work (samples, layers), 0 when not known."""
        self._stage, self._done, self._expected, self._began = STAGES.index(name), 0, expected, time.monotonic_ns()
        self._write()

    def bump(self, count: int) -> None:
        """Add finished work. Called per batch, never per sample."""
        self._done += count
        self._write()

    @property
    def done(self) -> int:
        """Finished work of this stage."""
        return self._done

    def _write(self) -> None:
        _COUNTER.pack_into(self._map, 0, self._stage, 0, self._done, self._expected, self._began, time.monotonic_ns())

    def close(self) -> None:
        self._map.close()


@dataclass(frozen=True, slots=True)
class Progress:
    """One reading of a counter: work done and expected, seconds in this stage and since the last bump; the last line
    that a command printed."""

    stage: str
    done: int
    expected: int
    seconds: float
    idle: float
    text: str = ""


def read_progress(path: str | Path) -> Progress | None:
    """None while the child has not made its counter yet."""
    try:
        data = Path(path).read_bytes()
        stage, _, done, expected, began, last = _COUNTER.unpack(data)
    except (OSError, struct.error):
        return None
    now = time.monotonic_ns()
    name = STAGES[stage] if stage < len(STAGES) else STAGES[0]
    return Progress(name, done, expected, (now - began) / 1e9 if began else 0.0, (now - last) / 1e9 if last else 0.0)


class CounterCopy:
    """Copies the progress of a child whose clock is another machine's into a counter of this one."""

    def __init__(self, there: str | Path, here: str | Path) -> None:
        self._there, self._here = there, Counter(here)
        self._here.stage(STAGES[0])
        self._seen: Progress | None = None

    def copy(self) -> None:
        found = read_progress(self._there)
        if found is None:
            return
        seen = self._seen
        if seen is None or (seen.stage, seen.expected) != (found.stage, found.expected) or found.done < seen.done:
            self._here.stage(found.stage, found.expected)
            self._here.bump(found.done)
        elif found.done > seen.done:
            self._here.bump(found.done - seen.done)
        self._seen = found

    def close(self) -> None:
        self._here.close()
