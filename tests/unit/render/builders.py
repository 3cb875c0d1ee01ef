"""Small values to show: one open cell, its steps and plans."""

from __future__ import annotations

from typing import Any

from reconciler.diff.change import Action, Change, InputChange, Reason
from reconciler.plan.plan import Plan, Step
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, Cell, Kind

CELL = Cell("closed", "h200x8", "3d-unet-99", "Offline")
ENGINE = Address(Kind.ENGINE, str(CELL))
ACCURACY = Address(Kind.RUN, f"{CELL}/accuracy")
PERFORMANCE = Address(Kind.RUN, f"{CELL}/performance")
TEST01 = Address(Kind.COMPLIANCE_TEST, f"{CELL}/TEST01")
RESULT = Address(Kind.RESULT, str(CELL))
LINE = Origin("specs/acme.yaml", 16, 5)


def change(
    address: Address, action: Action = Action.REPLACE, reason: Reason = Reason.UPSTREAM_REPLACED, **more: Any
) -> Change:
    return Change(address, "0" * 64, action, reason, **more)


def input_change(name: str, before: Any, after: Any, upstream: Address | None = None) -> InputChange:
    origin = Origin(str(upstream)) if upstream else LINE
    return InputChange(name, before, after, origin, str(upstream or "specs/acme.yaml:16"), upstream)


def step(address: Address, *, because: tuple[Address, ...] = (), **more: Any) -> Step:
    changed = {name: more.pop(name) for name in ("action", "reason", "how", "note", "restore") if name in more}
    return Step(change(address, **changed), because=because, **more)


def engine_replaced() -> tuple[Step, ...]:
    """The batch size of one cell was changed."""
    explained = (input_change("engine.batch_size", 8, 16),)
    first = step(ENGINE, reason=Reason.INPUT_CHANGED, explained=explained, seconds=600.0)
    runs = [step(address, because=(ENGINE,), seconds=2000.0) for address in (ACCURACY, PERFORMANCE, TEST01)]
    return (first, *runs)


def plan(*steps: Step, unchanged: int = 61, **more: Any) -> Plan:
    return Plan("acme", "a" * 64, "b" * 64, steps, unchanged=unchanged, **more)
