"""A queue of topics, not of events: a thousand changes of one kind are one reason to look, once it is quiet."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

_PATIENCE = 10  # times the quiet time: changes that never cease are looked at all the same


class Queue:
    """Filled by any thread, emptied by one."""

    def __init__(self, quiet: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet, self._clock = quiet, clock
        self._condition = threading.Condition()
        self._topics: dict[str, None] = {}
        self._first = self._last = 0.0
        self._added = Counter[str]()

    def add(self, topic: str) -> None:
        with self._condition:
            self._last = self._clock()
            if not self._topics:
                self._first = self._last
            self._topics[topic] = None
            self._added[topic] += 1
            self._condition.notify_all()

    def take(self, until: float) -> tuple[str, ...]:
        """Wait until something was added and it has been quiet since; () when nothing came before ``until``."""
        with self._condition:
            while True:
                now, at = self._clock(), self._ready_at()
                if self._topics and now >= at:
                    topics = tuple(self._topics)
                    self._topics.clear()
                    return topics
                if not self._topics and now >= until:
                    return ()
                self._condition.wait((at if self._topics else until) - now)

    def count_added(self) -> dict[str, int]:
        """How often each topic was ever added, whether it was taken since or not."""
        with self._condition:
            return dict(self._added)

    def compute_wait(self) -> float:
        """Seconds until what is queued may be taken; 0 when it may, or nothing is queued."""
        with self._condition:
            return max(0.0, self._ready_at() - self._clock()) if self._topics else 0.0

    def _ready_at(self) -> float:
        return min(self._last + self._quiet, self._first + _PATIENCE * self._quiet)
