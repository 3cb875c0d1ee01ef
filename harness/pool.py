"""What a session may have in flight: a stream, a lane, a process, or room for one batch more."""

from __future__ import annotations

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
