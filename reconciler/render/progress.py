"""A step under way, in numbers that both event views share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from textwrap import fill
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from harness.contract import Progress
from reconciler.diff.change import Work
from reconciler.execute.outcome import Event, Message, Outcome, Status, StepProgress, StepStarted
from reconciler.plan.plan import Step
from reconciler.render.causes import choose_action_word, label
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.documents import convert_plain_value
from reconciler.render.plan import render_heading
from reconciler.resource.kinds import Address
from reconciler.resource.quantities import show_count, show_duration, show_rate

# The events of a pass as plain lines: for logs, pipes and CI.

_WIDTH, _INDENT = 80, 6 * " "  # of a message
EVERY = 10.0  # seconds between two progress lines of one step


class Lines:
    """A line when a step begins and ends, and at most one each ``EVERY`` seconds between."""

    def __init__(
        self, write: Callable[[str], None], *, paint: Paint = show_plain, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._paint, self._clock = write, paint, clock
        self._last: dict[Address, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._last.clear()

    def report(self, event: Event) -> None:
        match event:
            case StepStarted(step=step, attempt=attempt):
                self._last[step.change.address] = self._clock()
                self._write(f"{name_step(step)}: {render_started_text(step, attempt)}")
            case StepProgress(progress=progress) if progress.stage == "done":
                pass  # its outcome follows, with what it measured
            case StepProgress(step=step):
                now = self._clock()
                if now - self._last.get(step.change.address, float("-inf")) >= EVERY:
                    self._last[step.change.address] = now
                    self._write(f"{name_step(step)}: {render_progress_text(event)}")
            case Outcome(step=step):
                self._last.pop(step.change.address, None)
                self._write(f"{name_step(step)}: {render_outcome_text(event, self._paint)}")
            case Message(text=text):
                self._write(
                    fill(text, _WIDTH, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False)
                )


class Failures(Lines):
    """Failures of a quiet pass: only the steps that failed or could not be made."""

    def report(self, event: Event) -> None:
        if isinstance(event, Outcome) and event.status in (Status.FAILED, Status.BLOCKED):
            super().report(event)


# Events and progress of a pass, as JSON documents. A plan, which did nothing, loads none of this.


def render_outcome_part(outcome: Outcome) -> dict[str, Any]:
    record = outcome.record
    return {
        "address": str(outcome.step.change.address),
        "action": outcome.step.change.action.value,
        "status": outcome.status.value,
        "seconds": outcome.seconds,
        "message": outcome.message,
        "fix": outcome.fix,
        "log": outcome.log,
        "values": convert_plain_value(record.values) if record else {},
        "marks": list(record.marks) if record else [],
    }


def render_outcomes_part(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    return [render_outcome_part(outcome) for outcome in outcomes]


def render_event_part(event: Event) -> dict[str, Any]:
    """One event of a pass, for a stream of JSON lines."""
    match event:
        case StepStarted(step=step, minimum=minimum, attempt=attempt):
            return {"event": "began", "address": str(step.change.address), "minimum": minimum, "attempt": attempt}
        case StepProgress(step=step, progress=progress):
            return {"event": "moved", "address": str(step.change.address), "progress": convert_plain_value(progress)}
        case Outcome():
            return {"event": "outcome", **render_outcome_part(event)}
        case Message(text=text):
            return {"event": "note", "text": text}


_LEFT_OUT = ("text", "pace", "done", "stage")  # on a narrow terminal, in this order
_LEAST_NAME = 24  # characters
_TONES = {Status.DONE: Tone.GOOD, Status.BLOCKED: Tone.DOUBT, Status.RETRY: Tone.DOUBT, Status.FAILED: Tone.BAD}


class Pace(Struct, frozen=True):
    """``per_second`` and ``left`` (seconds) are None while it is unknown. ``fraction`` in 0..1."""

    fraction: float | None
    per_second: float | None
    left: float | None


def measure_pace(progress: Progress, minimum: float = 0.0) -> Pace:
    """How fast, and how long still: the samples left at this rate, but at least what LoadGen's minimum duration leaves.

    ``minimum`` in seconds. Until it is over LoadGen may issue more samples than expected, so the later end counts.
    """
    per_second = progress.done / progress.seconds if progress.done and progress.seconds > 0 else None
    ends: list[float] = []
    if progress.expected and per_second:
        ends.append(max(0, progress.expected - progress.done) / per_second)
    if minimum and progress.stage == "running":
        ends.append(max(0.0, minimum - progress.seconds))
    left = max(ends) if ends and (per_second or not progress.expected) else None
    return Pace(_fraction(progress, left), per_second, left)


def _fraction(progress: Progress, left: float | None) -> float | None:
    if left is not None and progress.seconds + left > 0:
        return min(1.0, progress.seconds / (progress.seconds + left))
    return min(1.0, progress.done / progress.expected) if progress.expected else None


def name_step(step: Step) -> str:
    """ "open / box / digits / Offline  Run perf"; of what two benchmarks share, both."""
    address = step.change.address
    others = [a for a in step.shared if a.cell is None and a.kind is address.kind] if address.cell is None else []
    heading = ", ".join(dict.fromkeys(map(render_heading, (address, *others))))
    return f"{heading}  {label(address)}"


def render_progress_text(moved: StepProgress, width: int | None = None) -> str:
    """ "running, 1,200 of 5,000, 107/s, 36 s left". Where it has to fit into ``width``, the time left stays longest."""
    return render_progress_of(moved.progress, moved.minimum, width)


def render_progress_of(progress: Progress, minimum: float = 0.0, width: int | None = None) -> str:
    found = measure_pace(progress, minimum)
    done = f"{progress.done:,} of {progress.expected:,}" if progress.expected else f"{progress.done:,} done"
    parts = {
        "stage": progress.stage,
        "done": done if progress.expected or progress.done else "",
        "pace": f"{show_rate(found.per_second)}/s" if found.per_second is not None else "",
        "left": _show_left(found.left),
        "text": progress.text,
    }
    for name in (None, *_LEFT_OUT):
        parts.pop(name or "", None)
        text = ", ".join(filter(None, parts.values()))
        if width is None or len(text) <= width:
            break
    return text


def _show_left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{show_duration(seconds)} left" if seconds > 0 else "longer than expected"


def fit_progress(name: str, moved: StepProgress, width: int) -> tuple[str, str]:
    """Name and progress of a step, on one line of ``width`` together. The name keeps its end, which distinguishes runs
    of one cell."""
    now = render_progress_text(moved, width - min(len(name), _LEAST_NAME))
    return fit_name(name, width - len(now)), now


def fit_name(name: str, room: int) -> str:
    room = max(room, _LEAST_NAME)
    return name if len(name) <= room else f"…{name[1 - room :]}"


def render_started_text(step: Step, attempt: int) -> str:
    again = f", attempt {attempt}" if attempt > 1 else ""
    expected = f", about {show_duration(step.seconds)}" if step.seconds is not None else ""
    word = "starting service" if step.change.how is Work.START else choose_action_word(step)
    return f"{word}{again}{expected}"


def render_outcome_text(outcome: Outcome, paint: Paint = show_plain) -> str:
    """ "done in 36 s, 107 samples/s, VALID"; for what went wrong the message, the fix and the log."""
    head = paint(outcome.status.value.lower(), _TONES[outcome.status])
    if outcome.status is Status.DONE:
        took = [f"in {show_duration(outcome.seconds)}"] if outcome.seconds else []
        return " ".join([head, *took]) + (f", {outcome.message}" if outcome.message else "")
    lines = [f"{head}: {outcome.message}"]
    lines += [f"      fix: {outcome.fix}"] if outcome.fix else []
    shown = (outcome.message, f"fix: {outcome.fix}")
    log = "\n".join(line for line in outcome.log.splitlines() if line.strip() not in shown)
    lines += [f"      log: {log}"] if log else []
    return "\n".join(lines)


def count_outcomes(outcomes: tuple[Outcome, ...]) -> str:
    """ "5 done, 1 failed, 2 blocked"."""
    words = [outcome.status for outcome in outcomes]
    return ", ".join(f"{words.count(s):,} {s.value.lower()}" for s in Status if s in words) or show_count(0, "step")
