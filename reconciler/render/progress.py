"""The progress of a pass and its steps, in numbers that both event views share."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from msgspec import Struct, field

from harness.contract import Progress
from reconciler.diff.change import Work
from reconciler.execute.outcome import Event, Message, Outcome, Status, StepProgress, StepsDue, StepStarted
from reconciler.plan.plan import Step
from reconciler.render.causes import choose_action_word
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.render.documents import convert_plain_value
from reconciler.render.plan import render_heading
from reconciler.resource.kinds import Address
from reconciler.resource.quantities import show_count, show_duration, show_rate

# The events of a pass as plain lines: for logs, pipes and CI.

EVERY = 10.0  # seconds between two progress lines of one step


class Lines:
    """Print a line when a step begins and ends, and at most one every ``EVERY`` seconds in between."""

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
                pass  # the outcome follows, with the measurements
            case StepProgress(step=step, progress=progress, minimum=minimum):
                now = self._clock()
                if now - self._last.get(step.change.address, float("-inf")) >= EVERY:
                    self._last[step.change.address] = now
                    left = self._pass.predict(step, now)
                    self._write(f"{name_step(step)}: {render_progress_text(progress, minimum, predicted=left)}")
            case Outcome(step=step):
                self._last.pop(step.change.address, None)
                self._write(f"{name_step(step)}: {render_outcome_text(event, self._paint)}")
            case Message(text=text, waits=step):
                self._write(f"{name_step(step)}: {text}" if step else text)


class Failures(Lines):
    """Print only the failures of a quiet pass: steps that failed or could not be made."""

    def report(self, event: Event) -> None:
        if isinstance(event, Outcome) and event.status in (Status.FAILED, Status.BLOCKED):
            super().report(event)


# Events and progress of a pass as JSON documents. A plan, which did nothing, loads none of this.


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


def render_event_part(event: Event) -> dict[str, Any]:
    """Return one event of a pass, for a stream of JSON lines."""
    match event:
        case StepsDue(steps=steps):
            return {"event": "due", "steps": [str(step.change.address) for step in steps]}
        case StepStarted(step=step, minimum=minimum, attempt=attempt):
            return {"event": "began", "address": str(step.change.address), "minimum": minimum, "attempt": attempt}
        case StepProgress(step=step, progress=progress):
            return {"event": "moved", "address": str(step.change.address), "progress": convert_plain_value(progress)}
        case Outcome():
            return {"event": "outcome", **render_outcome_part(event)}
        case Message(text=text):
            return {"event": "note", "text": text}


# "120/1000 [00:30<03:40, 4.00it/s]" of tqdm, "120/1000 samples", "120 of 1,000".
_COUNTED = re.compile(
    r"(?<![\d.,/])(?P<done>\d[\d,]*)(?:/(?P<of>)| of )(?P<expected>\d[\d,]*)"
    r"(?: \[(?P<began>[\d:]+)<| (?:samples|queries|requests|prompts)|(?(of)(?!)))"
)
_LEFT_OUT = ("text", "pace", "done", "stage")  # omitted on a narrow terminal, in this order
LEAST_NAME = 24  # characters
_TONES = {Status.DONE: Tone.GOOD, Status.BLOCKED: Tone.DOUBT, Status.RETRY: Tone.DOUBT, Status.FAILED: Tone.BAD}


class Pace(Struct, frozen=True):
    """``per_second`` and ``left`` (seconds) are None while unknown. ``fraction`` in 0..1."""

    fraction: float | None
    per_second: float | None
    left: float | None


def measure_pace(progress: Progress, minimum: float = 0.0, predicted: float = 0.0) -> Pace:
    """Measure the rate, and the time left: the time for the remaining samples at this rate, or until LoadGen's minimum
    duration ends, if that is later. If neither is known, use ``predicted``: seconds left according to earlier attempts,
    0 if there are none.

    ``minimum`` in seconds. Before it has passed, LoadGen may issue more samples than expected, so the later end counts.
    """
    counted = count_samples(progress)
    per_second = counted.done / counted.seconds if counted.done and counted.seconds > 0 else None
    ends: list[float] = []
    if counted.expected and per_second:
        ends.append(max(0, counted.expected - counted.done) / per_second)
    if minimum and progress.stage == "running":
        ends.append(max(0.0, minimum - progress.seconds))
    left = max(ends) if ends and (per_second or not counted.expected) else predicted or None
    return Pace(_compute_fraction(counted, left), per_second, left)


def count_samples(progress: Progress) -> Progress:
    """Return the progress of a command that counts its own work, from the progress bar in its last line."""
    found = None if progress.expected or progress.stage != "running" else _COUNTED.search(progress.text)
    if found is None:
        return progress
    done, expected = (int(number.replace(",", "")) for number in found.group("done", "expected"))
    if not 0 <= done <= expected:
        return progress
    began = [int(part) for part in (found["began"] or "").split(":") if part]
    seconds = sum(part * 60**place for place, part in enumerate(reversed(began)))
    return Progress(progress.stage, done, expected, float(seconds) or progress.seconds, progress.idle, progress.text)


def _compute_fraction(progress: Progress, left: float | None) -> float | None:
    if left is not None and progress.seconds + left > 0:
        return min(1.0, progress.seconds / (progress.seconds + left))
    return min(1.0, progress.done / progress.expected) if progress.expected else None


class PassProgress(Struct):
    """Progress of a pass. ``due``: steps that have not ended, in order; ``began``: running steps, and ``left`` their
    reported seconds left; ``ended``: number of ended steps. ``waiting``: steps that cannot begin, with the reason and
    since when. All times are monotonic."""

    start: float
    due: dict[Address, Step] = field(default_factory=dict)
    began: dict[Address, float] = field(default_factory=dict)
    left: dict[Address, float] = field(default_factory=dict)
    ended: int = 0
    waiting: dict[Address, tuple[Step, str, float]] = field(default_factory=dict)

    def take(self, event: Event, now: float) -> None:
        match event:
            case StepsDue(steps=steps):
                self.due = {step.change.address: step for step in steps}
            case Message(text=text, waits=Step() as step):
                since = self.waiting[step.change.address][2] if step.change.address in self.waiting else now
                self.waiting[step.change.address] = step, text, since
            case StepStarted(step=step):
                self.waiting.pop(step.change.address, None)
                self.began[step.change.address] = now
                self.left.pop(step.change.address, None)
            case StepProgress(step=step, progress=progress, minimum=minimum):
                left = measure_pace(progress, minimum, self.predict(step, now)).left
                if left is not None:
                    self.left[step.change.address] = left
            case Outcome(step=step, status=status):
                self.waiting.pop(step.change.address, None)
                self.began.pop(step.change.address, None)
                self.left.pop(step.change.address, None)
                if status is not Status.RETRY and self.due.pop(step.change.address, None) is not None:
                    self.ended += 1

    def predict(self, step: Step, now: float) -> float:
        """Predict the seconds left of a running step from earlier attempts; 0 once it exceeds them."""
        return max(0.0, (step.seconds or 0.0) - (now - self.began.get(step.change.address, now)))

    def measure_left(self, now: float) -> tuple[float, int]:
        """Return the seconds until all machines, working in parallel, are done; and the number of steps without a
        prediction."""
        machines: dict[str, float] = {}
        unknown = 0
        for address, step in self.due.items():
            seconds = self.left.get(address, self.predict(step, now))
            unknown += step.seconds is None and address not in self.left
            system = address.cell.system if address.cell else ""
            machines[system] = machines.get(system, 0.0) + seconds
        shared = machines.pop("", 0.0)
        return shared + max(machines.values(), default=0.0), unknown

    def count(self) -> str:
        """Return "step 3 of 12" for the step that begins now; "" if it is not part of a pass."""
        total = self.ended + len(self.due)
        return f"step {self.ended + max(1, len(self.began))} of {total}" if self.due else ""

    def render(self, now: float) -> str:
        """Return "3 of 12 steps in 4 min, about 35 min left"."""
        total = show_count(self.ended + len(self.due), "step")
        parts = [f"{self.ended} of {total} in {show_duration(now - self.start)}"]
        seconds, unknown = self.measure_left(now)
        if seconds >= 1:
            parts.append(f"{'at least' if unknown else 'about'} {show_duration(seconds)} left")
        parts += [f"{show_count(unknown, 'step')} without a prediction"] if unknown else []
        return ", ".join(parts)

    def list_waiting(self, now: float) -> list[str]:
        return [
            f"{name_step(step)}: {text}, {show_duration(now - since)}" for step, text, since in self.waiting.values()
        ]

    def find_next(self) -> Step | None:
        """Find the step that this pass makes next, after those that are running or waiting."""
        begun = {*self.began, *self.waiting}
        return next((step for address, step in self.due.items() if address not in begun), None)


def name_step(step: Step) -> str:
    """Return "open/box/digits/Offline Run performance"; both benchmarks of a shared step."""
    address = step.change.address
    others = [a for a in step.shared if a.cell is None and a.kind is address.kind] if address.cell is None else []
    heading = ", ".join(dict.fromkeys(map(render_heading, (address, *others))))
    return f"{heading}  {address.label}"


def render_progress_text(
    progress: Progress, minimum: float = 0.0, width: int | None = None, predicted: float = 0.0
) -> str:
    """Return "running, 1,200 of 5,000, 107/s, 36 s left". If ``width`` is too small, the time left is dropped last."""
    found, counted = measure_pace(progress, minimum, predicted), count_samples(progress)
    done = f"{counted.done:,} of {counted.expected:,}" if counted.expected else f"{counted.done:,} done"
    parts = {
        "stage": progress.stage,
        "done": done if counted.expected or counted.done else "",
        "pace": f"{show_rate(found.per_second)}/s" if found.per_second is not None else "",
        "left": _show_left(found.left, counted) or _show_elapsed(counted),
        "text": "" if counted is not progress else progress.text,
    }
    for name in (None, *_LEFT_OUT):
        parts.pop(name or "", None)
        text = ", ".join(filter(None, parts.values()))
        if width is None or len(text) <= width:
            break
    return text


def _show_left(seconds: float | None, progress: Progress) -> str:
    """Describe the end: the last samples have been issued, or LoadGen continues after its minimum duration for an
    unknown time."""
    if seconds is None:
        return ""
    if seconds > 0:
        return f"{show_duration(max(1.0, seconds))} left"
    return "ending" if progress.expected else "longer than expected"


def _show_elapsed(progress: Progress) -> str:
    """Return how long a step that reports only its stage has run."""
    return f"for {show_duration(progress.seconds)}" if progress.seconds >= EVERY and not progress.done else ""


def fit_progress(name: str, moved: StepProgress, width: int, predicted: float = 0.0) -> tuple[str, str]:
    """Fit a step's name and progress into one line of ``width``. The name keeps its end, which distinguishes the runs
    of one cell."""
    now = render_progress_text(moved.progress, moved.minimum, width - min(len(name), LEAST_NAME), predicted)
    return fit_name(name, width - len(now)), now


def fit_name(name: str, room: int) -> str:
    room = max(room, LEAST_NAME)
    return name if len(name) <= room else f"…{name[1 - room :]}"


def render_started_text(step: Step, attempt: int) -> str:
    again = f", attempt {attempt}" if attempt > 1 else ""
    expected = f", about {show_duration(step.seconds)}" if step.seconds is not None else ""
    word = "starting service" if step.change.how is Work.START else choose_action_word(step)
    return f"{word}{again}{expected}"


def render_outcome_text(outcome: Outcome, paint: Paint = show_plain) -> str:
    """Return "done in 36 s, 107 samples/s, VALID"; for a failure the message, the fix and the log."""
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
    """Return "5 done, 1 failed, 2 blocked"."""
    words = [outcome.status for outcome in outcomes]
    return ", ".join(f"{words.count(s):,} {s.value.lower()}" for s in Status if s in words) or show_count(0, "step")
