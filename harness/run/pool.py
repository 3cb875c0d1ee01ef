"""Capacity of a session in flight: a stream, a lane, a process, or room for one batch more."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")


class Pool(SimpleQueue[Item]):
    """Items of which a batch takes one (``get``), waiting for it, and gives it back (``put``), from any thread."""

    size = 0

    def fill(self, items: Iterable[Item]) -> None:
        for item in items:
            self.put(item)
            self.size += 1

    def wait(self) -> None:
        """Until one is there. For the thread that takes them."""
        self.put(self.get())

    def drain(self) -> None:
        """Until all are back."""
        taken = [self.get() for _ in range(self.size)]
        for item in taken:
            self.put(item)


class BatchRoom:
    """Room for ``most`` batches in flight. One thread takes it, others give it back.

    A thread that finds it full sleeps until no more than ``refilled_at`` are in flight: where that is far below
    ``most``, it does not take turns with those that compute.
    """

    def __init__(self, most: int, refilled_at: int) -> None:
        self._most, self._refilled_at = most, refilled_at
        self._taken = self._returned = 0
        self._wake_at = -1
        self._lock = threading.Lock()
        self._woken = threading.Semaphore(0)

    def take(self) -> None:
        self.wait()
        self._taken += 1

    def give_back(self) -> None:
        with self._lock:
            self._returned += 1
            wake = self._returned == self._wake_at
        if wake:
            self._woken.release()

    def wait(self) -> None:
        """Until there is room."""
        if self._taken - self._returned >= self._most:
            self._wait_for(self._refilled_at)

    def drain(self) -> None:
        """Until all is given back."""
        self._wait_for(0)

    def _wait_for(self, left: int) -> None:
        with self._lock:
            self._wake_at = self._taken - left
            if self._returned >= self._wake_at:
                return
        self._woken.acquire()
