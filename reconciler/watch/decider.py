"""Decide when a watch starts a pass, and over which steps: which are on hold, which the last pass could not do, and
when to retry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec import Struct, field

from reconciler.desired.state import Desired
from reconciler.diff.change import Work
from reconciler.errors import LockedError, RepositoryError, StorageError
from reconciler.execute.outcome import Outcome, Status
from reconciler.plan.plan import Plan, Step
from reconciler.plan.select import Selector
from reconciler.reconcile.planning import PlanResult
from reconciler.resource.kinds import Address
from reconciler.watch.settings import Backoff, Wait, WatchSettings, find_freeze_end

# Steps of a plan that are due now. Pure: the plan lists the differences, this module the holds.


class Holds(Struct, frozen=True):
    """``observed``: their cells are only reported. ``backing_off``: keys of steps that wait for their next try."""

    observed: tuple[Selector, ...] = ()
    backing_off: frozenset[str] = frozenset()
    frozen: bool = False


def select_due_steps(plan: Plan, desired: Desired, holds: Holds) -> tuple[Step, ...]:
    """Select steps in the plan's order. A step that depends on one on hold is on hold too."""
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
    chosen = _drop_idle_servers(chosen, desired)
    return _drop_unneeded(chosen, desired) if holds.observed else tuple(chosen)


def _is_waiting(step: Step, addresses: tuple[Address, ...], holds: Holds) -> bool:
    if all(address.cell is not None and _matches(address, holds) for address in addresses):
        return True
    making = step.change.how in (Work.MAKE, Work.START)
    return making and (bool(step.blocked) or holds.frozen or step.change.key in holds.backing_off)


def _matches(address: Address, holds: Holds) -> bool:
    return any(selector.matches(address) for selector in holds.observed)


def _drop_idle_servers(steps: list[Step], desired: Desired) -> list[Step]:
    """Leave out servers whose runs are all on hold, since no pass would start them."""
    needed = {up for step in steps for up in desired.by_address[step.change.address].upstream}
    return [s for s in steps if s.change.how is not Work.START or needed.intersection((s.change.address, *s.shared))]


def _drop_unneeded(steps: list[Step], desired: Desired) -> tuple[Step, ...]:
    """Leave out datasets and models that only observed cells would need."""
    needed: set[Address] = set()
    kept = []
    for step in reversed(steps):
        addresses = (step.change.address, *step.shared)
        shared = step.change.how is Work.MAKE and all(address.cell is None for address in addresses)
        if not shared or needed.intersection(addresses):
            kept.append(step)
            needed.update(up for address in addresses for up in desired.by_address[address].upstream)
    return tuple(reversed(kept))


_LOOP = "the loop"  # name under which the backoff tracks what no step is responsible for


class Decider(Struct):
    """``settled``: the state after the last pass, ``tried``: its failed steps; while the state is the same, they are no
    reason for another pass. ``thaw``: when the current freeze window ends, on ``clock``."""

    settings: WatchSettings
    clock: Callable[[], float] = time.monotonic
    backoff: Backoff = field(default_factory=Backoff)
    settled: object = None
    tried: frozenset[object] = frozenset()
    thaw: float = 0.0

    def select_due(self, result: PlanResult) -> tuple[Step, ...]:
        end = find_freeze_end(self.settings.windows, datetime.now())
        self.thaw = self.clock() + (end - datetime.now()).total_seconds() if end else 0.0
        holds = Holds(self.settings.observed, self.backoff.list_waiting(self.clock()), end is not None)
        return select_due_steps(result.plan, result.desired, holds)

    def needs_pass(self, result: PlanResult, due: tuple[Step, ...]) -> bool:
        """Return True if a pass can do anything that the last one could not."""
        changed = self.settled != _mark(result)
        return (changed and not result.observed.tree_present) or (
            bool(due) and (changed or not _collect_keys(due) <= self.tried)
        )

    def note_pass(self, result: PlanResult, asked: tuple[Step, ...], due: tuple[Step, ...]) -> None:
        """Note a pass. ``asked``: the steps that it was for; ``result`` and ``due``: the plan and due steps after
        it."""
        self.settled, self.tried = _mark(result), _collect_keys(asked) & _collect_keys(due)

    def note_outcome(self, outcome: Outcome) -> Wait | None:
        """Return how long the step must wait for its next try, or None."""
        key = outcome.step.change.key
        if outcome.status is Status.DONE:
            self.backoff.record_success(key)
            return None
        return self.backoff.record_failure(
            key, outcome.record.problem_class if outcome.record else "failed", self.clock()
        )

    def forget_others(self, steps: Iterable[Step]) -> None:
        """Forget all other steps, since only these are needed now."""
        self.backoff.keep({step.change.key for step in steps} | {_LOOP})

    def note_turn(self) -> None:
        """Note that a turn was completed."""
        self.backoff.record_success(_LOOP)

    def note_trouble(self, error: Exception) -> Wait:
        """Note that a turn failed."""
        return self.backoff.record_failure(_LOOP, _classify(error), self.clock())

    def find_next_turn(self) -> float:
        """Return the time of the next turn, on ``clock``."""
        now = self.clock()
        thaw = [self.thaw] if self.thaw > now else []
        return min([now + self.settings.resync, *self.backoff.list_ends(now), *thaw])

    def find_next_time(self) -> datetime:
        return datetime.fromtimestamp(time.time() + self.find_next_turn() - self.clock()).astimezone()


def _mark(result: PlanResult) -> object:
    return result.plan.desired, result.plan.recorded, result.observed.tree_present


def _collect_keys(steps: tuple[Step, ...]) -> frozenset[object]:
    return frozenset((step.change.key, step.change.how) for step in steps)


def _classify(error: Exception) -> str:
    kinds = ((LockedError, "locked"), (StorageError, "storage"), (RepositoryError, "repository"), (OSError, "storage"))
    return next((name for kind, name in kinds if isinstance(error, kind)), "failed")
