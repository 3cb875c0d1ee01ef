"""How often a step is tried in one pass: real children of the small benchmark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.change import Work
from reconciler.execute.attempt import Attempt, Intent
from reconciler.execute.outcome import Event, Status
from reconciler.execute.perform import Finished, derive_outcome
from reconciler.execute.plan_executor import PlanExecutor, compute_minimum_seconds, is_timed
from reconciler.execute.service import Services
from reconciler.plan.plan import Step
from reconciler.reconcile import PassReport
from reconciler.record.codec import summarize
from reconciler.resource.inputs import Input
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Ended, Record, Summary
from reconciler.resource.settings import CellSettings
from tests.passes.repository import SPEC, Repository, make_repository
from tests.shared import need
from tests.unit.diff.simulated import Wish, World, desire
from tests.unit.execute.contexts import make_context

need("mlperf_loadgen")


def statuses(report: PassReport) -> Counter[tuple[str, str]]:
    return Counter((str(o.status), o.step.change.address.label) for o in report.outcomes)


def broken(root: Path, code: str, attempts: int) -> Repository:
    repository = make_repository(root)
    text = (root / "benchmarks/tiny.py").read_text(encoding="utf-8")
    repository.write("benchmarks/tiny.py", f"{text}\n\ndef postprocess(outputs):\n    {code}\n")
    repository.edit(SPEC, "target_qps: 100,", f"attempts: {attempts}, target_qps: 100,")
    return repository


def plan_engine(settings: dict[str, object]) -> tuple[Step, Desired]:
    """The step that builds the engine of one cell, and what is desired. The engine has these settings."""
    desired = desire([Wish()])
    step = next(s for s in World().plan(desired).steps if s.change.address.kind is Kind.ENGINE)
    detail = replace(desired.detail(step.change.address), settings=CellSettings(settings))
    return step, replace(desired, detail=lambda _: detail)


def make_record(step: Step, ended: Ended, **fields: Any) -> Record:
    return Record(step.change.address, step.change.key, 1, ended, "2026-01-01T00:00:00Z", 1.0, "a", {}, **fields)


def make_summary(address: Address) -> Summary:
    return Summary(f"{address.kind}/1", address, "k" * 64, Ended.DONE, "2026-01-01T00:00:00Z", 1.0, ())


def finish(folder: Path, record: Record) -> Finished:
    attempt = Attempt(folder, Intent("a", record.address, record.key, 1, record.started, {}, CellSettings()))
    return Finished(attempt, record)


def test_failure_is_tried_once_with_the_words_of_its_log(tmp_path: Path) -> None:
    repository = broken(tmp_path, "print('said before it failed'); return 1 / 0", attempts=3)
    report = repository.reconcile()
    found = [outcome for outcome in report.outcomes if outcome.status is Status.FAILED]
    assert [outcome.step.change.address.label for outcome in found] == ["Run accuracy", "Run performance"]
    assert all("ZeroDivisionError" in outcome.message for outcome in found)
    assert all("said before it failed" in outcome.log for outcome in found)
    assert repository.leftovers() == []


def test_transient_failure_is_tried_as_often_as_declared(tmp_path: Path) -> None:
    repository = broken(tmp_path, "raise MemoryError", attempts=3)
    found = statuses(repository.reconcile())
    assert (found["Retry", "Run accuracy"], found["Retry", "Run performance"]) == (3, 3)


@pytest.mark.parametrize("declared", [{}, {"executor.slurm": True, "executor.slurm.retries": 0}])
@pytest.mark.parametrize(("kind", "tries"), [("resources", 3), ("clock", 4)])
def test_what_the_machine_did_to_a_run_is_over_the_next_time(
    kind: str, tries: int, declared: dict[str, object], tmp_path: Path
) -> None:
    """Three attempts are declared; a clock that was set uses up none of them, nor what its queue may begin again."""
    step, desired = plan_engine(declared)
    own = {step.change.address: replace(desired.by_address[step.change.address], attempts=3)}
    desired = replace(desired, by_address={**desired.by_address, **own})
    failed = make_record(step, Ended.FAILED, problem="what it was", problem_class=kind)
    walk = PlanExecutor(desired, make_context(tmp_path), lambda _: None, lambda done: summarize(done.record, "x"), {})
    tried = 0
    while not walk.given_up(step) and tried < 10:
        assert walk.settle(step, finish(tmp_path, failed)).status is Status.RETRY
        tried += 1
    assert tried == tries


@pytest.mark.parametrize(
    ("problem", "lives", "stopped"), [("", True, 0), ("it ended", False, 1)], ids=["lives", "never was ready"]
)
def test_a_server_that_was_never_ready_leaves_its_place_to_others_at_once(
    problem: str, lives: bool, stopped: int, tmp_path: Path
) -> None:
    """Of other repositories of this machine, too: they wait for its lock."""
    desired = desire([Wish(service="serve")])
    step = next(step for step in World().plan(desired).steps if step.change.how is Work.START)
    used = {up: make_summary(up) for up in desired.by_address[step.change.address].upstream}
    record = make_record(step, Ended.FAILED if problem else Ended.DONE, problem=problem)

    class Started(Services, dict=True):
        def start(self, *_: object) -> Finished:
            return replace(finish(tmp_path, record), lives=lives)

        def stop(self) -> None:
            self.stops = getattr(self, "stops", 0) + 1

    services = Started()
    detail = replace(desired.detail(step.change.address), settings=CellSettings({}))
    context, said = make_context(tmp_path), list[Event]()
    walk = PlanExecutor(
        replace(desired, detail=lambda _: detail), context, said.append, lambda done: summarize(done.record, "x"), used
    )
    walk.services = services
    assert (walk.start(step).status is Status.DONE) is lives
    assert getattr(services, "stops", 0) == stopped


@pytest.mark.parametrize(
    ("declared", "tries"), [({}, 4), ({"executor.slurm.retries": 1}, 2), ({"executor.slurm.retries": 0}, 1)]
)
def test_step_that_its_queue_ends_is_begun_again_as_often_as_declared(
    declared: dict[str, object], tries: int, tmp_path: Path
) -> None:
    """Whatever its own ``attempts`` say: 1, here."""
    step, desired = plan_engine({"executor.slurm": True, **declared})
    said: list[Event] = []
    preempted = make_record(step, Ended.FAILED, problem="the job was preempted", problem_class="preempted")
    walk = PlanExecutor(desired, make_context(tmp_path), said.append, lambda done: summarize(done.record, "x"), {})
    tried = 0
    while not walk.given_up(step) and tried < 10:
        assert walk.settle(step, finish(tmp_path, preempted)).status is Status.RETRY
        tried += 1
    assert (tried, len(said)) == (tries, tries)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "0 B"),
        ({"metric": {"value": "7", "unit": "samples/s"}, "validity": "VALID"}, "7 samples/s, VALID, 0 B"),
        ({"power": {"watts": "210.5", "check": "passed"}}, "210.5 W, 0 B"),
        (
            {"power": {"watts": "210.5", "efficiency": {"value": "0.5", "unit": "samples/J"}, "check": "no ranging"}},
            "210.5 W, 0.5 samples/J, the power kit's check: no ranging, 0 B",
        ),
        ({"passed": True, "reasons": [], "notes": ["by accuracy"]}, "TEST PASS, by accuracy, 0 B"),
        ({"passed": False, "reasons": ["a", "b"], "notes": []}, "TEST FAIL: a; b, 0 B"),
        (
            {
                "validity": "INVALID",
                "reasons": ["too slow"],
                "suggestion": {"setting": "target_qps", "value": "9", "unit": ""},
            },
            "INVALID, too slow, try target_qps: 9, 0 B",
        ),
    ],
)
def test_outcome_says_in_one_line_what_was_measured(values: dict[str, object], said: str, tmp_path: Path) -> None:
    step, _ = plan_engine({})
    outcome = derive_outcome(step, finish(tmp_path, make_record(step, Ended.DONE, values=values)))
    assert (outcome.status, outcome.message) == (Status.DONE, said)


def test_child_that_is_killed_says_by_which_signal(tmp_path: Path) -> None:
    repository = broken(tmp_path, "import os; os.kill(os.getpid(), 9)", attempts=1)
    report = repository.reconcile()
    failed = [o for o in report.outcomes if o.status is not Status.DONE]
    assert {o.step.change.address.label for o in failed} == {"Run accuracy", "Run performance"}
    assert all("signal 9" in o.message for o in failed)


@pytest.mark.parametrize(
    ("address", "timed"),
    [
        (Address(Kind.RUN, "open/box/net/Offline/performance"), True),
        (Address(Kind.RUN, "open/box/net/Offline/accuracy"), False),
        (Address(Kind.COMPLIANCE_TEST, "open/box/net/Offline/TEST01"), True),
        (Address(Kind.VERDICT, "open/box/net/Offline/TEST01"), False),
        (Address(Kind.ENGINE, "open/box/net/Offline"), False),
    ],
    ids=str,
)
def test_what_is_timed_lasts_as_long_as_was_asked_at_least(address: Address, timed: bool) -> None:
    step, desired = plan_engine({})
    detail = desired.detail(step.change.address)
    asked = replace(detail, inputs=(Input("min_duration", 1500),))
    assert is_timed(address) is timed
    assert compute_minimum_seconds(address, asked) == (1.5 if timed else 0.0)
    assert compute_minimum_seconds(address, replace(detail, inputs=())) == 0.0
