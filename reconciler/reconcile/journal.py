"""Journal of a pass: its events to the caller, and each as a line of the pass's own log."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from msgspec import Struct

from reconciler.execute.outcome import Event, Message, Outcome, Status, StepStarted
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import PlanResult
from reconciler.storage.event_log import RECONCILING, add_context, facts, open_log
from reconciler.storage.files import RepositoryPaths

log = logging.getLogger(__name__)


class Journal(Struct):
    """``id`` of the pass, which every line carries."""

    id: str
    to: Callable[[Event], None]

    def report(self, event: Event) -> None:
        match event:
            case StepStarted(step=step, attempt=attempt):
                log.info("step started", extra=facts(**_name(step), attempt=attempt))
            case Outcome(step=step, status=status):
                level = logging.INFO if status is Status.DONE else logging.WARNING
                record = event.record
                extra = facts(
                    **_name(step),
                    status=status.value,
                    seconds=round(event.seconds, 3),
                    attempt=record.attempt if record else "",
                    problem="" if status is Status.DONE else event.message,
                )
                log.log(level, "step ended", extra=extra)
            case Message(text=text):
                log.info("message", extra=facts(text=text))
        self.to(event)

    def begin(self, result: PlanResult) -> None:
        add_context(submission=result.desired.name)
        plan = result.plan
        log.info("planned", extra=facts(steps=len(plan.steps), unchanged=plan.unchanged, desired=plan.desired))

    def end(self, result: PlanResult, own: float, children: float) -> None:
        extra = facts(in_sync=result.plan.in_sync, own_seconds=round(own, 3), child_seconds=round(children, 3))
        log.info("pass ended", extra=extra)


@contextlib.contextmanager
def open_journal(paths: RepositoryPaths, report: Callable[[Event], None]) -> Iterator[Journal]:
    """A file for each pass."""
    with open_log(paths.log, RECONCILING) as identity:
        yield Journal(identity, report)


def _name(step: Step) -> dict[str, str]:
    address = step.change.address
    cell = str(address.cell) if address.cell else ""
    return {"resource": str(address), "cell": cell, "key": step.change.key[:12]}
