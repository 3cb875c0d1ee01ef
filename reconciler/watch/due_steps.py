"""Steps of a plan that are due now. Pure: the plan says what differs, this says what is on hold."""

from __future__ import annotations

from msgspec import Struct

from reconciler.desired.state import Desired
from reconciler.diff.change import Work
from reconciler.plan.plan import Plan, Step
from reconciler.plan.select import Selector
from reconciler.resource.kinds import Address


class Holds(Struct, frozen=True):
    """``observed``: cells of these are only reported. ``backing_off``: keys of steps that wait for their next try."""

    observed: tuple[Selector, ...] = ()
    backing_off: frozenset[str] = frozenset()
    frozen: bool = False


def select_due_steps(plan: Plan, desired: Desired, holds: Holds) -> tuple[Step, ...]:
    """In the plan's order. A step made from something on hold is on hold with it."""
    stuck: set[Address] = set()
    chosen = []
    for step in plan.steps:
        addresses = (step.change.address, *step.shared)
        if (
            plan.withholds(step)
            or _is_waiting(step, addresses, holds)
            or stuck.intersection(desired.by_address[step.change.address].upstream)
        ):
            stuck.update(addresses)
        else:
            chosen.append(step)
    chosen = _asked(chosen, desired)
    return _wanted(chosen, desired) if holds.observed else tuple(chosen)


def _is_waiting(step: Step, addresses: tuple[Address, ...], holds: Holds) -> bool:
    if all(address.cell is not None and _matches(address, holds) for address in addresses):
        return True
    making = step.change.how in (Work.MAKE, Work.START)
    return making and (bool(step.blocked) or holds.frozen or step.change.key in holds.backing_off)


def _matches(address: Address, holds: Holds) -> bool:
    return any(selector.matches(address) for selector in holds.observed)


def _asked(steps: list[Step], desired: Desired) -> list[Step]:
    """Leave out servers whose runs are all on hold: no pass would start them."""
    needed = {up for step in steps for up in desired.by_address[step.change.address].upstream}
    return [s for s in steps if s.change.how is not Work.START or needed.intersection((s.change.address, *s.shared))]


def _wanted(steps: list[Step], desired: Desired) -> tuple[Step, ...]:
    """Without datasets and models that only observed cells would need."""
    needed: set[Address] = set()
    kept = []
    for step in reversed(steps):
        addresses = (step.change.address, *step.shared)
        shared = step.change.how is Work.MAKE and all(address.cell is None for address in addresses)
        if not shared or needed.intersection(addresses):
            kept.append(step)
            needed.update(up for address in addresses for up in desired.by_address[address].upstream)
    return tuple(reversed(kept))
