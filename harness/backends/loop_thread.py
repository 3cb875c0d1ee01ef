"""An event loop on its own thread, for backends with an asynchronous library."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

try:  # it reads a socket in a third of the time that Python's own loop takes
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop


class LoopThread:
    """Runs from its creation until ``stop``."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await the coroutine on the loop's thread and return its result, or raise its error."""
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def post(self, function: Callable[..., object], *arguments: object) -> None:
        """Schedule the call on the loop's thread, and return at once."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
