"""What of a plan is due in watch mode where a server is to start."""

from __future__ import annotations

import pytest

from reconciler.plan.plan import Step
from reconciler.plan.select import parse
from reconciler.resource.kinds import Kind
from reconciler.watch.decider import Holds, select_due_steps
from tests.unit.diff.simulated import Wish, World, desire

DESIRED = desire([Wish(service="one"), Wish(benchmark="other", scenario="Server", service="other")])
PLAN = World().plan(DESIRED)
RUNS = frozenset(step.change.key for step in PLAN.steps if step.change.address.kind is Kind.RUN)


def servers(steps: tuple[Step, ...]) -> list[str]:
    return [str(step.change.address) for step in steps if step.change.address.kind is Kind.SERVICE]


def test_each_server_that_a_due_run_asks_is_due() -> None:
    assert len(servers(select_due_steps(PLAN, DESIRED, Holds()))) == 2


@pytest.mark.parametrize("holds", [Holds(frozen=True), Holds(backing_off=RUNS), Holds(observed=(parse(["box"]),))])
def test_a_server_whose_runs_are_blocked_is_no_reason_for_a_pass(holds: Holds) -> None:
    assert not servers(select_due_steps(PLAN, DESIRED, holds))


def test_a_server_that_waits_for_its_next_try_holds_its_runs_back() -> None:
    (first, other) = [step for step in PLAN.steps if step.change.address.kind is Kind.SERVICE]
    chosen = select_due_steps(PLAN, DESIRED, Holds(backing_off=frozenset({first.change.key})))
    assert servers(chosen) == [str(other.change.address)]
    runs = {step.change.address.cell for step in chosen if step.change.address.kind is Kind.RUN}
    assert runs == {other.change.address.cell}
