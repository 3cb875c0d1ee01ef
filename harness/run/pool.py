"""Capacity of a session: streams, lanes, processes, or room for batches in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")


class Pool(SimpleQueue[Item]):
    """Items of which each batch takes one (``get``, which waits) and returns it (``put``), from any thread."""

    size = 0

    def fill(self, items: Iterable[Item]) -> None:
        for item in items:
            self.put(item)
            self.size += 1

    def wait(self) -> None:
        """Wait until an item is free. Called by the thread that takes items."""
        self.put(self.get())

    def drain(self) -> None:
        """Wait until all items are returned."""
        taken = [self.get() for _ in range(self.size)]
        for item in taken:
            self.put(item)


class BatchRoom:
    """Room for ``most`` batches in flight. One thread takes room, others return it.

    A thread that finds no room sleeps until at most ``refilled_at`` are in flight: if that is far below ``most``, the
    thread does not alternate with those that compute.
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
        if self._taken - self._returned >= self._most:
            self._wait_for(self._refilled_at)

    def drain(self) -> None:
        self._wait_for(0)

    def _wait_for(self, left: int) -> None:
        with self._lock:
            self._wake_at = self._taken - left
            if self._returned >= self._wake_at:
                return
        self._woken.acquire()


# Computing threads, one per stream: either all of them start, or the caller learns why one failed.


def start_streams(
    count: int, begin: Callable[[int], None], serve: Callable[[int], None], name: str
) -> tuple[list[threading.Thread], Exception | None]:
    """Start threads that each call ``begin`` with their number, then ``serve``. After all have begun, return the
    threads and the first error. Without this, fewer threads than requested, or none, might compute without anyone
    noticing."""
    begun: SimpleQueue[Exception | None] = SimpleQueue()
    threads: list[threading.Thread] = []

    def run(stream: int) -> None:
        try:
            begin(stream)
        except Exception as error:
            begun.put(error)
        except BaseException as error:  # a library may exit or panic, and the caller would wait forever
            begun.put(RuntimeError(f"{type(error).__name__}: {error}"))
        else:
            begun.put(None)
            serve(stream)

    try:
        for stream in range(count):
            thread = threading.Thread(target=run, args=(stream,), name=name, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError as error:  # this process gets no more threads; those that started must still be ended
        return threads, error
    return threads, next(filter(None, [begun.get() for _ in threads]), None)
