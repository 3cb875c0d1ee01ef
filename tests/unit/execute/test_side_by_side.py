"""Steps of several machines at a time: what is left to a queue, and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.progress import Progress
from reconciler.desired.detail import Detail
from reconciler.execute.child import Detached
from reconciler.execute.executors.executor import Capacity
from reconciler.execute.executors.table import Executors
from reconciler.execute.machine_turns import MachineTurns
from reconciler.execute.outcome import Event, Outcome, Status, StepProgress
from reconciler.execute.perform import AttemptContext
from reconciler.execute.plan_executor import PlanExecutor
from reconciler.execute.side_by_side import SideBySide
from reconciler.files import RepositoryPaths
from reconciler.plan.make import Policy
from reconciler.plan.plan import Step
from reconciler.resource.records import Summary
from tests.unit.diff.simulated import Wish, World, desire


def test_queue_is_left_to_itself_once_nothing_else_is_under_way(tmp_path: Path) -> None:
    """A step that does not outlive the pass is waited for, however long the queue has had the other one."""
    desired, paths = desire([Wish("net"), Wish("other", data=1)]), RepositoryPaths(tmp_path)
    plan = World().plan(desired, Policy(only=frozenset({"dataset"})))
    queued, here = plan.steps
    submitted, looks = threading.Event(), threading.Semaphore(0)

    class Walk(PlanExecutor):
        def capacity_for(self, step: Step, _: Detail) -> Capacity:
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

    executors = Executors.of(paths)
    context = AttemptContext(
        paths, executors, "", {}, False, lambda: datetime.now(UTC), (), lambda a: tmp_path / a.name, {}.__getitem__,
        check=look,
    )  # fmt: skip
    walk = Walk(desired, context, report, lambda _: pytest.fail("nothing is stored"), {})
    outcomes = SideBySide(walk, detach=True).steps(plan)
    ended = next(outcomes)
    assert (ended.step.change.address, ended.status) == (here.change.address, Status.DONE)
    with pytest.raises(Detached):
        next(outcomes)
