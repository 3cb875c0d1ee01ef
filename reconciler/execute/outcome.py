"""The outcome of one attempt, in memory; its stored form is a Record."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from harness.contract import Progress
from reconciler.plan.plan import Step
from reconciler.resource.kinds import Address
from reconciler.resource.records import Record


class Status(StrEnum):
    """RETRY: a transient failure, retried at once up to the declared ``attempts``. BLOCKED: not tried; ``message``
    gives the reason."""

    DONE = "Done"
    BLOCKED = "Blocked"
    RETRY = "Retry"
    FAILED = "Failed"


class Outcome(Struct, frozen=True):
    """The outcome of one attempt. ``record``: None for an outcome that is not recorded (blocked, restored, rendered).
    ``log``: the child's output after a failure."""

    step: Step
    status: Status
    message: str = ""
    fix: str = ""
    record: Record | None = None
    seconds: float = 0.0
    log: str = ""


class StepStarted(Struct, frozen=True):
    """An event of a pass: a step starts. ``minimum``: LoadGen's minimum duration in seconds, 0 if unknown."""

    step: Step
    minimum: float = 0.0
    attempt: int = 1


class StepProgress(Struct, frozen=True):
    """An event of a pass: a step made progress."""

    step: Step
    progress: Progress
    minimum: float = 0.0


class StepsDue(Struct, frozen=True):
    """An event of a pass: the remaining steps in order, as far as known."""

    steps: tuple[Step, ...]


class Message(Struct, frozen=True):
    """An event of a pass: a message worth a line (harvested, repaired). ``waits``: the step that waits for it."""

    text: str
    waits: Step | None = None


class QueuedStep(Struct, frozen=True):
    """A step in a queue. ``state``: "queued" or "running"; ``note``: its job, and what it waits for; ``done`` and
    ``expected``: samples, 0 if unknown."""

    address: Address
    state: str
    note: str
    nodes: tuple[str, ...]
    done: int
    expected: int


Event = StepsDue | StepStarted | StepProgress | Message | Outcome
