"""Capacity of a session in flight: a stream, a lane, a process, or room for one batch more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
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


# Threads that compute, each for a stream of its own: all of them begin, or it is known why one does not.


def start_streams(
    count: int, begin: Callable[[int], None], serve: Callable[[int], None], name: str
) -> tuple[list[threading.Thread], Exception | None]:
    """Each calls ``begin`` with its number, then ``serve``. Once all have begun: the threads, and what kept the first
    from it that could not. Without it fewer would compute than were asked for, or none, unnoticed."""
    begun: SimpleQueue[Exception | None] = SimpleQueue()
    threads: list[threading.Thread] = []

    def run(stream: int) -> None:
        try:
            begin(stream)
        except Exception as error:
            begun.put(error)
        except BaseException as error:  # of a library that exits or panics: the caller would wait here for ever
            begun.put(RuntimeError(f"{type(error).__name__}: {error}"))
        else:
            begun.put(None)
            serve(stream)

    try:
        for stream in range(count):
            thread = threading.Thread(target=run, args=(stream,), name=name, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError as error:  # there are no more for this process; those that began are to be ended all the same
        return threads, error
    return threads, next(filter(None, [begun.get() for _ in threads]), None)
