"""Steps of several machines at a time: what is left to a queue, and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from harness.contract import Progress
from reconciler.desired.detail import Detail
from reconciler.diff.change import Work
from reconciler.execute import plan_executor
from reconciler.execute.child import Detached
from reconciler.execute.executors.executor import Capacity
from reconciler.execute.outcome import Event, Outcome, Status, StepProgress
from reconciler.execute.parallel_executor import ParallelExecutor, has_remote_steps
from reconciler.execute.perform import AttemptContext, Finished
from reconciler.execute.plan_executor import MachineTurns, PlanExecutor
from reconciler.plan.builder import Policy
from reconciler.plan.plan import Plan, Step
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Summary
from tests.unit.diff.simulated import Wish, World, desire
from tests.unit.execute.contexts import make_context
from tests.unit.execute.test_plan_executor import CELL, FAILED, RUNS, Walk


def test_queue_is_left_to_itself_once_nothing_else_is_under_way(tmp_path: Path) -> None:
    """A step that does not outlive the pass is waited for, however long the queue has had the other one."""
    desired = desire([Wish("net"), Wish("other", data=1)])
    plan = World().plan(desired, Policy(only=frozenset({"dataset"})))
    queued, here = plan.steps
    submitted, looks = threading.Event(), threading.Semaphore(0)

    class Walk(PlanExecutor):
        def find_capacity(self, step: Step, _: Detail) -> Capacity:
            return Capacity("", 0.0, str(step.change.address), lasts=step is queued)

        def carry_out(
            self,
            step: Step,
            detail: Detail,
            upstream: Mapping[str, Summary],
            context: AttemptContext,
            turns: MachineTurns,
        ) -> Outcome:
            if step is queued:
                turns.report(StepProgress(step, Progress("queued", 0, 1, 0.0, 0.0)))
                while True:
                    turns.check(step, True)
                    time.sleep(0.01)
            for _ in range(2):
                while not looks.acquire(timeout=0.01):
                    turns.check(step, True)
            return Outcome(step, Status.DONE)

    def report(event: Event) -> None:
        if isinstance(event, StepProgress):
            submitted.set()

    def look(step: Step, _: bool) -> None:
        """The pass looks after each of its steps, and then decides whether to go."""
        if step is here and submitted.is_set():
            looks.release()

    walk = Walk(desired, make_context(tmp_path, look), report, lambda _: pytest.fail("nothing is stored"), {})
    outcomes = ParallelExecutor(walk, detach=True).execute_steps(plan)
    ended = next(outcomes)
    assert (ended.step.change.address, ended.status) == (here.change.address, Status.DONE)
    with pytest.raises(Detached):
        next(outcomes)


class GivenUpError(Exception):
    pass


class Busy:
    """A plan of three steps: ``first`` ends at once; ``queued`` and ``here`` run until they are ended, and ``here``
    then counts as done. ``end`` is raised where the pass reports or looks, once both have been reported."""

    def __init__(self, root: Path, end: type[BaseException]) -> None:
        desired = desire([Wish("net"), Wish("other", data=1), Wish("third", data=2)])
        self.plan: Plan = World().plan(desired, Policy(only=frozenset({"dataset"})))
        self.first, self.queued, self.here = self.plan.steps
        self.end, self.over = end, threading.Event()
        self.under_way, self.begun = threading.Semaphore(0), set[str]()
        self.reported: dict[str, str] = {}
        self.settled: list[Step] = []
        busy = self

        class Walk(PlanExecutor):
            def find_capacity(self, step: Step, _: Detail) -> Capacity:
                return Capacity("", 0.0, str(step.change.address), lasts=step is busy.queued)

            def carry_out(self, step: Step, *given: Any) -> Outcome | Finished:
                return busy.carry_out(step, given[-1])

            def settle(self, step: Step, _: Finished) -> Outcome:
                busy.settled.append(step)
                return Outcome(step, Status.DONE)

        self.walk = Walk(desired, make_context(root, self.look), self.report, lambda _: pytest.fail("stored"), {})

    def carry_out(self, step: Step, turns: MachineTurns) -> Outcome | Finished:
        if step is self.first:
            return Outcome(step, Status.DONE)
        turns.report(StepProgress(step, Progress("queued", 0, 1, 0.0, 0.0)))
        self.under_way.release()
        name = "queued" if step is self.queued else "here"
        while not self.over.wait(0.01):
            try:
                turns.check(step, True)
            except BaseException as error:
                self.reported[name] = "left" if isinstance(error, Detached) else "ended"
                if step is self.queued:
                    raise
                return Finished(cast(Any, None), cast(Any, None))
        return Outcome(step, Status.FAILED)

    def report(self, event: Event) -> None:
        if isinstance(event, StepProgress):
            self.begun.add(str(event.step.change.address))
            if len(self.begun) == 2 and not issubclass(self.end, (GivenUpError, GeneratorExit)):
                raise self.end

    def look(self, _: Step, __: bool) -> None:
        if len(self.begun) == 2 and self.end is GivenUpError:
            raise GivenUpError


@pytest.fixture
def make_busy(tmp_path: Path) -> Iterator[Callable[[type[BaseException]], Busy]]:
    made: list[Busy] = []

    def make(end: type[BaseException]) -> Busy:
        made.append(Busy(tmp_path, end))
        return made[-1]

    yield make
    for busy in made:
        busy.over.set()


@pytest.mark.parametrize(
    ("end", "keep", "queued"),
    [
        (KeyboardInterrupt, False, "ended"),
        (KeyboardInterrupt, True, "left"),
        (Detached, False, "left"),
        (RuntimeError, False, "left"),
        (GivenUpError, True, "ended"),
        (GeneratorExit, False, "ended"),
        (GeneratorExit, True, "left"),
    ],
)
def test_a_pass_that_ends_early_leaves_to_the_queue_what_is_wanted_still(
    make_busy: Callable[[type[BaseException]], Busy], end: type[BaseException], keep: bool, queued: str
) -> None:
    """What is under way here ends in any case; both have ended before the pass does, and what was done is kept."""
    busy = make_busy(end)
    steps = ParallelExecutor(busy.walk, keep=keep).execute_steps(busy.plan)
    outcomes = [next(steps)]
    if end is GeneratorExit:
        assert all(busy.under_way.acquire(timeout=60) for _ in range(2))
        cast(Any, steps).close()
    else:
        with pytest.raises(end):
            outcomes.extend(steps)
    assert busy.reported == {"queued": queued, "here": "ended"}
    assert busy.settled == [busy.here]
    assert [each.step for each in outcomes] == [busy.first, *([] if end is GeneratorExit else [busy.here])]


@pytest.mark.parametrize(
    ("elsewhere", "blocked", "restored", "spread"),
    [
        ((), (), (), False),
        (("other",), (), (), True),
        (("net", "other"), ("net",), (), True),
        (("other",), ("other",), (), False),
        (("other",), (), ("other",), False),
        (("net", "other"), ("net",), ("other",), False),
    ],
    ids=["all here", "one elsewhere", "one of two waits", "the one waits", "the one is fetched", "none of two"],
)
def test_a_plan_is_spread_over_machines_by_the_steps_alone_that_are_made_now(
    tmp_path: Path, elsewhere: tuple[str, ...], blocked: tuple[str, ...], restored: tuple[str, ...], spread: bool
) -> None:
    wishes = {"net": Wish("net"), "other": Wish("other", data=1)}
    names = {Address(Kind.DATASET, "net"): "net", Address(Kind.DATASET, str(wishes["other"].cell)): "other"}
    desired = desire(wishes.values())
    stops = {address: "the disk is full" for address, name in names.items() if name in blocked}
    plan = World().plan(desired, Policy(only=frozenset({"dataset"})), stops)
    assert [names[step.change.address] for step in plan.steps] == ["net", "other"]

    def fetched(step: Step) -> Step:
        known = names[step.change.address] in restored
        return replace(step, change=replace(step.change, how=Work.RESTORE)) if known else step

    class Walk(PlanExecutor):
        def find_capacity(self, step: Step, _: Detail) -> Capacity:
            return Capacity("", 0.0, *(["a cluster"] if names[step.change.address] in elsewhere else []))

    walk = Walk(desired, make_context(tmp_path), lambda _: None, lambda _: pytest.fail("nothing is stored"), {})
    assert has_remote_steps(walk, replace(plan, steps=tuple(map(fetched, plan.steps)))) is spread


@pytest.mark.parametrize(
    ("wish", "ends"),
    [
        (Wish(), {}),
        (Wish(), {"Dataset:net": FAILED}),
        (Wish(), {f"Engine:{CELL}": FAILED}),
        (Wish(), {RUNS[0]: FAILED}),
        (Wish(tests=("TEST01",)), {RUNS[1]: {"values": {"validity": "VALID"}}}),
        (Wish(tests=("TEST01",)), {RUNS[1]: {"values": {"validity": "INVALID"}}}),
        (Wish(tests=("TEST01",)), {RUNS[1]: FAILED}),
        (Wish(service="serve"), {}),
        (Wish(service="serve"), {f"Service:{CELL}": FAILED}),
        (Wish(service="serve"), {RUNS[0]: FAILED}),
    ],
    ids=["well", "data", "engine", "accuracy", "tested", "invalid", "untested", "server", "no server", "asked in vain"],
)
def test_side_by_side_a_plan_comes_to_what_it_comes_to_one_by_one(
    wish: Wish, ends: dict[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks = [Walk(tmp_path, monkeypatch, wish) for _ in range(2)]
    found = []
    for walk, spread in zip(walks, (False, True), strict=True):
        walk.ends = ends
        walk.redirect(monkeypatch)
        found.append(sorted(walk.go(spread=spread)))
    one, other = walks
    assert found[0] == found[1]
    assert sorted(one.tried) == sorted(other.tried)
    assert one.locks == other.locks
    assert sorted(type(event).__name__ for event in one.events) == sorted(
        type(event).__name__ for event in other.events
    )
    assert one.executor.stuck == other.executor.stuck
    assert one.executor.used == other.executor.used
    servers = [{address: context.server for address, context in walk.contexts.items()} for walk in walks]
    assert servers[0] == servers[1]


def test_what_a_step_raises_ends_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(tmp_path, monkeypatch)

    def fail(*_: object) -> Finished:
        raise GivenUpError

    monkeypatch.setattr(plan_executor, "perform", fail)
    with pytest.raises(GivenUpError):
        walk.go(spread=True)
