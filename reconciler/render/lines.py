"""The events of a pass as plain lines: for logs, pipes and CI."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from reconciler.execute.outcome import Began, Event, Moved, Note, Outcome
from reconciler.render.paint import Paint, plain
from reconciler.render.progress import began_text, outcome_text, progress_text, step_name
from reconciler.resource.kinds import Address

EVERY = 10.0  # seconds between two progress lines of one step


class Lines:
    """A line when a step begins and ends, and at most one each ``EVERY`` seconds between."""

    def __init__(
        self, write: Callable[[str], None], *, paint: Paint = plain, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._paint, self._clock = write, paint, clock
        self._last: dict[Address, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._last.clear()

    def tell(self, event: Event) -> None:
        match event:
            case Began(step=step, attempt=attempt):
                self._last[step.change.address] = self._clock()
                self._write(f"{step_name(step)}: {began_text(step, attempt)}")
            case Moved(step=step):
                now = self._clock()
                if now - self._last.get(step.change.address, float("-inf")) >= EVERY:
                    self._last[step.change.address] = now
                    self._write(f"{step_name(step)}: {progress_text(event)}")
            case Outcome(step=step):
                self._last.pop(step.change.address, None)
                self._write(f"{step_name(step)}: {outcome_text(event, self._paint)}")
            case Note(text=text):
                self._write(text)
