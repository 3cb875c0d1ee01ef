"""Run a plan on several machines at a time, with one thread per running step.

Only the thread of the pass changes the state, the storage and the reports; the other threads send it events.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.diff.change import Work
from reconciler.execute.child import Detached
from reconciler.execute.executors.executor import HERE, Capacity
from reconciler.execute.outcome import Event, Outcome, StepProgress
from reconciler.execute.perform import Finished
from reconciler.execute.plan_executor import MachineTurns, PlanExecutor
from reconciler.plan.plan import Plan, Step
from reconciler.resource.kinds import Address, find_proved_run

# Scheduling of the steps of a plan on several machines. Pure: the caller reports which steps have ended.

_UNKNOWN = 60.0  # seconds: assumed for a step without a prediction, for ordering only


class Dispatch(Struct):
    """The ``waiting`` and ``running`` steps. ``needs``: address → resources that this plan must make first; ``limit``:
    steps running on all machines together, 0 for no limit. ``first``: keys that are started before all others, because
    they run already. ``places``: machine name → number of its places."""

    waiting: list[Step]
    needs: Mapping[Address, AbstractSet[Address]]
    machines: Mapping[Address, Capacity]
    limit: int = 0
    first: frozenset[str] = frozenset()
    running: dict[Address, Step] = field(default_factory=dict)
    unmade: set[Address] = field(default_factory=set)
    places: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chains = measure_chains(self.waiting, self.needs)
        self.unmade = {address for step in self.waiting for address in list_made(step)}
        self.places = {machine.machine: machine.places for machine in self.machines.values()}
        place = {id(step): number for number, step in enumerate(self.waiting)}
        self.waiting.sort(
            key=lambda step: (step.change.key not in self.first, -chains[step.change.address], place[id(step)])
        )

    def take(self) -> list[Step]:
        """Return the steps that start now, those with the longest remaining chain first."""
        room = Counter(self.places)
        room.subtract(self.machines[address].machine for address in self.running)
        free = sum(count for count in room.values() if count > 0)
        taken: list[Step] = []
        left: list[Step] = []
        for number, step in enumerate(self.waiting):
            if not free or (self.limit and len(self.running) >= self.limit):
                left += self.waiting[number:]
                break
            address = step.change.address
            name = self.machines[address].machine
            if room[name] > 0 and not self.needs[address] & self.unmade:
                room[name] -= 1
                free -= 1
                self.running[address] = step
                taken.append(step)
            else:
                left.append(step)
        self.waiting = left
        return taken

    def end(self, step: Step) -> None:
        """Remove a step that has ended, successfully or not."""
        self.running.pop(step.change.address, None)
        self.unmade.difference_update(list_made(step))


def list_made(step: Step) -> tuple[Address, ...]:
    return (step.change.address, *step.shared)


def measure_chains(steps: Sequence[Step], needs: Mapping[Address, AbstractSet[Address]]) -> dict[Address, float]:
    """Return the seconds from the start of each step to the end of the longest chain that depends on it. ``steps`` are
    in the order of a plan: each follows the steps that it needs."""
    chains: dict[Address, float] = {}
    after: dict[Address, float] = {}
    for step in reversed(steps):
        longest = max(after.get(address, 0.0) for address in list_made(step))
        whole = longest + (_UNKNOWN if step.seconds is None else step.seconds)
        chains[step.change.address] = whole
        for address in needs[step.change.address]:
            after[address] = max(after.get(address, 0.0), whole)
    return chains


_LOOK = 0.25  # seconds between two checks whether the running steps are still wanted


class _DroppedError(Exception):
    """Raised in the thread of a step that the pass no longer wants."""


class _Ended(Struct, frozen=True):
    """How a thread ended: with an attempt, with the reason why no attempt was made, or with an exception."""

    step: Step
    found: Finished | Outcome | BaseException


class _Follower(Struct):
    """The thread that follows one step. ``lasts``: the submission outlives the pass; ``submitted``: its submission was
    reported."""

    step: Step
    lasts: bool
    thread: threading.Thread
    submitted: bool = False


class ParallelExecutor(Struct):
    """Executes a plan on several machines at a time. ``walk``: the state of the pass, and how a step is run.
    ``detach``: leave the queue running when no other work remains; ``keep``: leave it running after an interrupt too.
    ``stop``: the exception that the threads raise."""

    walk: PlanExecutor
    limit: int = 0
    detach: bool = False
    keep: bool = False
    events: queue.SimpleQueue[Event | _Ended] = field(default_factory=queue.SimpleQueue)
    followers: dict[Address, _Follower] = field(default_factory=dict)
    stop: type[BaseException] | None = None

    def execute_steps(self, plan: Plan) -> Iterator[Outcome]:
        """Execute the steps like ``PlanExecutor.execute_steps``. Raises Detached if only queue jobs are left and
        ``detach`` is set."""
        dispatch = self._dispatch(plan)
        try:
            while dispatch.waiting or dispatch.running:
                yield from self._begin(dispatch)
                if not dispatch.running:
                    if dispatch.waiting:
                        continue  # a dropped step has freed a place
                    break
                ended = self._receive()
                if ended is not None:
                    dispatch.end(ended.step)
                    yield self._settle(ended)
                elif self.detach and self._is_all_queued():
                    raise Detached
        except (Detached, KeyboardInterrupt) as error:
            self._end(Detached if self.keep or isinstance(error, Detached) else _DroppedError)
            yield from self._take_late()
            raise
        except GeneratorExit:
            self._end(Detached if self.keep else _DroppedError)
            list(self._take_late())
            raise
        except _UnwantedError as error:
            self._end(_DroppedError)
            yield from self._take_late()
            raise error.cause from None
        except BaseException:
            self._end(Detached)
            yield from self._take_late()
            raise

    def _dispatch(self, plan: Plan) -> Dispatch:
        due = [step for step in plan.steps if step.change.how is Work.MAKE]
        self.walk.servers.update({step.change.key: step for step in plan.steps if step.change.how is Work.START})
        by_address = self.walk.desired.by_address
        needs = {}
        machines = {}
        for step in due:
            address = step.change.address
            proved = find_proved_run(address)  # a test follows a valid run
            needs[address] = {*by_address[address].upstream, *((proved,) if proved else ())}
            machines[address] = self.walk.find_capacity(step, self.walk.desired.detail(address))
        return Dispatch(due, needs, machines, self.limit, frozenset(self.walk.context.under_way))

    def _begin(self, dispatch: Dispatch) -> Iterator[Outcome]:
        for step in dispatch.take():
            if self.walk.is_skipped(step, self.walk.stuck):
                dispatch.end(step)
            elif self.walk.find_service(step.change.address):  # one server at a time here; this step starts it
                for outcome in self.walk.execute_with_service(step):
                    yield self.walk.note(outcome)
                dispatch.end(step)
            elif missing := self.walk.find_missing_upstream(step):
                dispatch.end(step)
                yield self.walk.note(missing)
            else:
                self._follow(step)

    def _follow(self, step: Step) -> None:
        walk = self.walk
        detail = walk.desired.detail(step.change.address)
        upstream = walk.collect_upstream(detail)
        turns = MachineTurns(self._check, self.events.put, patience=walk.wait_idle)
        context = replace(walk.context, check=self._check)

        def follow() -> None:
            try:
                self.events.put(_Ended(step, walk.carry_out(step, detail, upstream, context, turns)))
            except BaseException as error:
                self.events.put(_Ended(step, error))
            walk.wait_idle = min(walk.wait_idle, turns.patience)

        thread = threading.Thread(target=follow, name=str(step.change.address), daemon=True)
        self.followers[step.change.address] = _Follower(step, walk.find_capacity(step, detail).lasts, thread)
        thread.start()

    def _check(self, step: Step, _: bool) -> None:
        """Check in the thread of a step."""
        if self.stop is not None:
            follower = self.followers[step.change.address]
            raise self.stop if follower.lasts or self.stop is _DroppedError else _DroppedError

    def _receive(self) -> _Ended | None:
        """Return the next step that ends within a moment, or None, and pass on the events before it."""
        give_up = time.monotonic() + _LOOK
        while (left := give_up - time.monotonic()) > 0:
            try:
                event = self.events.get(timeout=left)
            except queue.Empty:
                break
            if isinstance(event, _Ended):
                return event
            if isinstance(event, StepProgress) and (progressing := self.followers.get(event.step.change.address)):
                progressing.submitted = True
            self.walk.report(event)
        for follower in self.followers.values():
            try:
                self.walk.context.check(follower.step, True)
            except BaseException as error:
                raise _UnwantedError(error) from error
        return None

    def _settle(self, ended: _Ended) -> Outcome:
        self.followers.pop(ended.step.change.address, None)
        if isinstance(ended.found, BaseException):
            raise ended.found
        if isinstance(ended.found, Outcome):
            self.walk.report(ended.found)
            return self.walk.note(ended.found)
        return self.walk.note(self.walk.settle(ended.step, ended.found))

    def _is_all_queued(self) -> bool:
        return all(follower.lasts and follower.submitted for follower in self.followers.values())

    def _end(self, stop: type[BaseException]) -> None:
        """Stop every thread. Leave its submission to the queue, or end it."""
        self.stop = stop
        for follower in self.followers.values():
            follower.thread.join()

    def _take_late(self) -> Iterator[Outcome]:
        """Yield the steps that ended while the others were being stopped."""
        with suppress(queue.Empty):
            while True:
                event = self.events.get_nowait()
                if isinstance(event, _Ended) and isinstance(event.found, Finished):
                    yield self._settle(event)


class _UnwantedError(Exception):
    """The pass no longer wants the running steps. ``cause``: why the running steps are no longer wanted."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def has_remote_steps(walk: PlanExecutor, plan: Plan) -> bool:
    """Return True if any step runs on another machine."""
    due = (step for step in plan.steps if step.change.how is Work.MAKE and not step.blocked)
    return any(walk.find_capacity(step, walk.desired.detail(step.change.address)).machine != HERE for step in due)
