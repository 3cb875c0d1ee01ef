"""Whose turn it is on a machine: one timed run at a time, and one server; and none while others load it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from msgspec import Struct

from reconciler.errors import LockedError
from reconciler.execute.outcome import Event, Message
from reconciler.execute.perform import Check
from reconciler.plan.plan import Step
from reconciler.resource.quantities import show_duration
from reconciler.storage.files import Lock

_LOOK = 0.5  # seconds between two looks at whether a step that waits is wanted still
_PAUSE = 5.0  # seconds between two looks at a busy machine, each of which takes some itself
_AGAIN = 600.0  # seconds after which a pass that still waits says so again


class MachineTurns(Struct):
    """``waited``: seconds spent waiting for others, ``probed``: looking at machines. ``patience``: the most that a step
    waits; once it was in vain, none waits again. ``said``: which step waits for what, and when that was."""

    check: Check
    report: Callable[[Event], None]
    waited: float = 0.0
    probed: float = 0.0
    patience: float = math.inf
    said: tuple[Step | None, str, float] = (None, "", 0.0)

    def take(self, lock: Lock, step: Step, note: str = "", give_up: float | None = None) -> None:
        """Others time a run, or keep a server for their runs. LockedError where that takes longer than patience lasts,
        or the clock shows ``give_up``; raises what ``check`` raises. ``note``: what others who wait are shown."""
        try:
            lock.acquire(note=note)
        except LockedError as error:
            began = time.monotonic()
            self._say(step, error.message)
            try:
                self._wait(lock, step, note, self.find_end() if give_up is None else give_up)
            finally:
                self.waited += time.monotonic() - began

    def find_end(self) -> float:
        """When patience ends for what begins to wait now."""
        return time.monotonic() + self.patience

    def _wait(self, lock: Lock, step: Step, note: str, give_up: float) -> None:
        while True:
            self.check(step, False)
            try:
                lock.acquire(wait=_LOOK, note=note)
                return
            except LockedError as error:
                self._say(step, error.message)
                if time.monotonic() >= give_up:
                    self.patience = 0.0
                    raise

    def pause(self, step: Step, busy: str, give_up: float) -> bool:
        """Let some time pass in which a busy machine may become idle; False where patience is at its end."""
        began = time.monotonic()
        if began >= give_up:
            self.patience = 0.0
            return False
        self._say(step, f"an idle machine ({busy})")
        until = min(give_up, began + _PAUSE)
        while (left := until - time.monotonic()) > 0:
            self.check(step, False)
            time.sleep(min(left, _LOOK))
        self.waited += time.monotonic() - began
        return True

    def _say(self, step: Step, what: str) -> None:
        """Once for each step and what it waits for, and again after a while."""
        now, (*before, when) = time.monotonic(), self.said
        if [step, what] == before and now - when < _AGAIN:
            return
        most = "" if math.isinf(self.patience) else f", at most {show_duration(self.patience)} (--wait-idle)"
        self.said = step, what, now
        self.report(Message(f"waiting for {what}{most}", step))
