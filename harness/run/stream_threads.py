"""Threads that compute, each for a stream of its own: all of them begin, or it is known why one does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


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
