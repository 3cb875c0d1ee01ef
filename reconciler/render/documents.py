"""Reports as JSON documents: plain values, each with a version and every cell that was looked at, clean ones too."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from reconciler.execute.outcome import Began, Event, Moved, Note, Outcome
from reconciler.plan.plan import Plan
from reconciler.resource.conditions import Standing
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, Cell

VERSION = 1


def document(kind: str, **parts: Any) -> dict[str, Any]:
    """A versioned report; every part as JSON would have it."""
    return {"version": VERSION, "report": kind, **{name: plain_value(part) for name, part in parts.items()}}


def plain_value(value: Any) -> Any:
    """Values of ours as JSON: addresses, cells and origins as the text people know, dataclasses field by field."""
    if isinstance(value, (Address, Cell, Origin, Path)):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain_value(item) for name, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain_value, value))
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def cells_part(standings: Sequence[Standing], plan: Plan | None = None) -> list[dict[str, Any]]:
    """One entry per cell: conditions, what was measured, and how many steps are planned for it (0: clean)."""
    steps: dict[Cell | None, int] = {}
    for step in plan.steps if plan else ():
        for address in {step.change.address, *step.shared}:
            steps[address.cell] = steps.get(address.cell, 0) + 1
    return [
        {
            "cell": str(standing.cell),
            "ready": standing.ready.value,
            "steps": steps.get(standing.cell, 0),
            "metric": measured(standing.metric),
            "accuracy": measured(standing.accuracy),
            "validity": standing.validity or None,
            "marks": list(standing.marks),
            "conditions": plain_value(standing.conditions),
        }
        for standing in standings
    ]


def measured(metric: tuple[str, str] | None) -> dict[str, str] | None:
    return {"value": metric[0], "unit": metric[1]} if metric else None


def outcome_part(outcome: Outcome) -> dict[str, Any]:
    record = outcome.record
    return {
        "address": str(outcome.step.change.address),
        "action": outcome.step.change.action.value,
        "status": outcome.status.value,
        "seconds": outcome.seconds,
        "message": outcome.message,
        "fix": outcome.fix,
        "log": outcome.log,
        "values": plain_value(record.values) if record else {},
        "marks": list(record.marks) if record else [],
    }


def outcomes_part(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    return [outcome_part(outcome) for outcome in outcomes]


def event_part(event: Event) -> dict[str, Any]:
    """One event of a pass, for a stream of JSON lines."""
    match event:
        case Began(step=step, minimum=minimum, attempt=attempt):
            return {"event": "began", "address": str(step.change.address), "minimum": minimum, "attempt": attempt}
        case Moved(step=step, progress=progress):
            return {"event": "moved", "address": str(step.change.address), "progress": plain_value(progress)}
        case Outcome():
            return {"event": "outcome", **outcome_part(event)}
        case Note(text=text):
            return {"event": "note", "text": text}
