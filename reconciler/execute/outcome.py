"""The outcome of one attempt, in memory; what is stored of it is a Record."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from harness.contract import Progress
from reconciler.plan.plan import Step
from reconciler.resource.kinds import Address
from reconciler.resource.records import Record


class Status(StrEnum):
    """RETRY: transient, tried again at once while the declared ``attempts`` last. BLOCKED: not tried; ``message``
    says on what."""

    DONE = "Done"
    BLOCKED = "Blocked"
    RETRY = "Retry"
    FAILED = "Failed"


class Outcome(Struct, frozen=True):
    """``record`` is None for what is not recorded (Blocked, restored, rendered). ``log``: the child's output, for a
    failure."""

    step: Step
    status: Status
    message: str = ""
    fix: str = ""
    record: Record | None = None
    seconds: float = 0.0
    log: str = ""


class StepStarted(Struct, frozen=True):
    """An event of a pass: a step starts. ``minimum`` seconds: LoadGen's minimum duration, 0 when not known."""

    step: Step
    minimum: float = 0.0
    attempt: int = 1


class StepProgress(Struct, frozen=True):
    """An event of a pass: a step made progress."""

    step: Step
    progress: Progress
    minimum: float = 0.0


class StepsDue(Struct, frozen=True):
    """An event of a pass: the steps that it makes from here on, as far as it knows now, in their order."""

    steps: tuple[Step, ...]


class Message(Struct, frozen=True):
    """An event of a pass: something worth a line (harvested, repaired). ``waits``: the step that waits for it."""

    text: str
    waits: Step | None = None


class QueuedStep(Struct, frozen=True):
    """A step that a queue has. ``state``: "queued" or "running"; ``note``: its job, and what it waits for; ``done`` and
    ``expected``: samples, 0 where they are not known."""

    address: Address
    state: str
    note: str
    nodes: tuple[str, ...]
    done: int
    expected: int


Event = StepsDue | StepStarted | StepProgress | Message | Outcome
