"""Threads that compute, each for a stream of its own: all of them begin, or it is known why one does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


def start_streams(
    count: int, begin: Callable[[int], None], serve: Callable[[int], None], name: str
) -> tuple[list[threading.Thread], Exception | None]:
    """Each calls ``begin`` with its number, then ``serve``. Once all have begun: the threads, and what kept the first
    from it that could not. Without it fewer would compute than were asked for, or none, and nobody would hear of it."""
    begun: SimpleQueue[Exception | None] = SimpleQueue()

    def run(stream: int) -> None:
        try:
            begin(stream)
        except Exception as error:
            begun.put(error)
            return
        begun.put(None)
        serve(stream)

    threads = [threading.Thread(target=run, args=(stream,), name=name, daemon=True) for stream in range(count)]
    for thread in threads:
        thread.start()
    return threads, next(filter(None, [begun.get() for _ in threads]), None)
