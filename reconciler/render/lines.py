"""The events of a pass as plain lines: for logs, pipes and CI."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from reconciler.execute.outcome import Event, Message, Outcome, Status, StepProgress, StepStarted
from reconciler.render.colour import Paint, show_plain
from reconciler.render.progress import (
    PassProgress,
    name_step,
    render_outcome_text,
    render_progress_text,
    render_started_text,
)
from reconciler.resource.kinds import Address

EVERY = 10.0  # seconds between two progress lines of one step


class Lines:
    """A line when a step begins and ends, and at most one each ``EVERY`` seconds between."""

    def __init__(
        self, write: Callable[[str], None], *, paint: Paint = show_plain, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._paint, self._clock = write, paint, clock
        self._last: dict[Address, float] = {}
        self._pass = PassProgress(clock())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._last.clear()

    def report(self, event: Event) -> None:
        self._pass.take(event, self._clock())
        match event:
            case StepStarted(step=step, attempt=attempt):
                self._last[step.change.address] = self._clock()
                began = ", ".join(filter(None, (render_started_text(step, attempt), self._pass.count())))
                self._write(f"{name_step(step)}: {began}")
            case StepProgress(progress=progress) if progress.stage == "done":
                pass  # its outcome follows, with what it measured
            case StepProgress(step=step):
                now = self._clock()
                if now - self._last.get(step.change.address, float("-inf")) >= EVERY:
                    self._last[step.change.address] = now
                    left = self._pass.predict(step, now)
                    self._write(f"{name_step(step)}: {render_progress_text(event, predicted=left)}")
            case Outcome(step=step):
                self._last.pop(step.change.address, None)
                self._write(f"{name_step(step)}: {render_outcome_text(event, self._paint)}")
            case Message(text=text, waits=step):
                self._write(f"{name_step(step)}: {text}" if step else text)


class Failures(Lines):
    """Failures of a quiet pass: only the steps that failed or could not be made."""

    def report(self, event: Event) -> None:
        if isinstance(event, Outcome) and event.status in (Status.FAILED, Status.BLOCKED):
            super().report(event)
