"""Events and progress of a pass, as JSON documents. A plan, which did nothing, loads none of this."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reconciler.execute.outcome import Event, Message, Outcome, StepProgress, StepsDue, StepStarted
from reconciler.render.documents import convert_plain_value


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
