"""Whose turn it is on a machine: one timed run at a time, and one server."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from reconciler.errors import LockedError
from reconciler.execute.outcome import Event, Message
from reconciler.execute.perform import Check
from reconciler.files import Lock
from reconciler.plan.plan import Step

_LOOK = 0.5  # seconds between two looks at whether a step that waits is wanted still


class MachineTurns(Struct):
    """``waited``: seconds spent waiting for others."""

    check: Check
    report: Callable[[Event], None]
    waited: float = 0.0

    def take(self, lock: Lock, step: Step) -> None:
        """However long it takes: who holds it times a run, or keeps a server for its runs. Raises what ``check``
        raises."""
        try:
            lock.acquire()
        except LockedError as error:
            self.report(Message(f"waiting: {error}"))
            began = time.monotonic()
            self._wait(lock, step)
            self.waited += time.monotonic() - began

    def _wait(self, lock: Lock, step: Step) -> None:
        while True:
            self.check(step, False)
            with suppress(LockedError):
                lock.acquire(wait=_LOOK)
                return
