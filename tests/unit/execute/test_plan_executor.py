"""How often a step is tried in one pass: real children of the small benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from harness.contract import Busy, Progress
from reconciler.desired.state import Desired
from reconciler.diff.change import Work
from reconciler.errors import ReconcilerError
from reconciler.execute import plan_executor
from reconciler.execute.attempt import Attempt, Intent, ServerAccess
from reconciler.execute.outcome import Event, Outcome, Status
from reconciler.execute.parallel_executor import ParallelExecutor
from reconciler.execute.perform import Finished
from reconciler.execute.plan_executor import PlanExecutor, compute_minimum_seconds
from reconciler.execute.service import Services
from reconciler.plan.plan import Step
from reconciler.reconcile.run import PassReport
from reconciler.record.codec import summarize
from reconciler.resource.inputs import Input
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.queues import QUEUES
from reconciler.resource.records import Ended, Record, Summary
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import Lock
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


def test_transient_failure_is_tried_as_often_as_declared(tmp_path: Path) -> None:
    repository = broken(tmp_path, "raise MemoryError", attempts=3)
    found = statuses(repository.reconcile())
    assert (found["Retry", "Run accuracy"], found["Retry", "Run performance"]) == (3, 3)


QUEUE = f"executor.{next(iter(QUEUES))}"


@pytest.mark.parametrize(
    ("kind", "declared", "tries"),
    [
        ("resources", {}, 3),
        ("preempted", {}, 4),
        ("resources", {QUEUE: True, f"{QUEUE}.retries": 0}, 3),
        ("preempted", {QUEUE: True, f"{QUEUE}.retries": 0}, 1),
    ],
)
def test_faults_of_machines_are_forgotten(kind: str, declared: dict[str, object], tries: int, tmp_path: Path) -> None:
    """Three attempts are declared; what a queue did uses up none of them, but tries of its own."""
    step, desired = plan_engine(declared)
    own = {step.change.address: replace(desired.by_address[step.change.address], attempts=3)}
    desired = replace(desired, by_address={**desired.by_address, **own})
    failed = make_record(step, Ended.FAILED, problem="what it was", problem_class=kind)
    walk = PlanExecutor(desired, make_context(tmp_path), lambda _: None, lambda done: summarize(done.record, "x"), {})
    tried = 0
    while not walk.is_given_up(step) and tried < 10:
        assert walk.settle(step, finish(tmp_path, failed)).status is Status.RETRY
        tried += 1
    assert tried == tries


@pytest.mark.parametrize(
    ("problem", "lives", "stopped"), [("", True, 0), ("it ended", False, 1)], ids=["lives", "never was ready"]
)
def test_a_server_never_ready_makes_place_for_others(problem: str, lives: bool, stopped: int, tmp_path: Path) -> None:
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
    assert address.is_timed is timed
    assert compute_minimum_seconds(address, asked) == (1.5 if timed else 0.0)
    assert compute_minimum_seconds(address, replace(detail, inputs=())) == 0.0


CELL = "open/box/net/Offline"
RUNS = [f"Run:{CELL}/{mode}" for mode in ("accuracy", "performance")]
WHOLE = ["Dataset:net", "Model:net", f"Engine:{CELL}", *RUNS, f"Score:{CELL}"]


class Walk:
    """A plan that is carried out by no one. ``ends``: address → how its attempt ends, well where nothing is said;
    ``busy``: who uses the machine. ``tried``: with the names of what each attempt is made from; ``locks``: those that
    were asked for."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, *wishes: Wish, **details: Any) -> None:
        self.desired = desire(wishes or [Wish()])
        made = {a: replace(self.desired.detail(a), **details) for a in self.desired.by_address}
        self.desired = replace(self.desired, detail=made.__getitem__)
        self.root, self.ends, self.busy = root, dict[str, dict[str, Any]](), list[Any]()
        self.tried: list[tuple[str, list[str]]] = []
        self.contexts: dict[str, Any] = {}
        self.locks: list[str] = []
        self.looks: list[float] = []
        self.events: list[Event] = []
        self.services = Kept(self)
        self.executor = PlanExecutor(
            self.desired,
            make_context(root, lambda step, begun: self.checks.append((str(step.change.address), begun))),
            self.events.append,
            lambda done: summarize(done.record, str(done.record.address)),
            {},
            services=cast(Any, self.services),
        )
        self.checks: list[tuple[str, bool]] = []
        self.redirect(monkeypatch)

    def redirect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What would reach the machine reaches this."""
        monkeypatch.setattr(plan_executor, "perform", self.perform)
        monkeypatch.setattr(plan_executor, "find_busy", self.find_busy)
        monkeypatch.setattr(plan_executor, "make_machine_lock", self.lock)
        power = SimpleNamespace(put_back_state=lambda: self.locks.append("put back"))
        monkeypatch.setattr(plan_executor, "load_power", lambda: power)

    def lock(self, name: str) -> Lock:
        self.locks.append(name)
        return Lock(self.root / name, purpose="a run")

    def find_busy(self, settings: CellSettings, paths: object, *, look: float) -> Any:
        self.looks.append(look)
        found = self.busy[0] if self.busy else None
        if isinstance(found, Exception):
            raise found
        return found

    def finish(self, step: Step) -> Finished:
        address = str(step.change.address)
        return finish(self.root, make_record(step, **{"ended": Ended.DONE, **self.ends.get(address, {})}))

    def perform(
        self, step: Step, _: object, upstream: Any, context: Any, moved: Callable[[Progress], None]
    ) -> Finished:
        self.tried.append((str(step.change.address), sorted(upstream)))
        self.contexts[str(step.change.address)] = context
        moved(Progress("running", 1, 2, 3.0, 0.0, ""))
        return self.finish(step)

    def go(self, spread: bool = False, **options: Any) -> list[tuple[str, str]]:
        """Once through the plan: each outcome. ``spread``: as where several machines work at a time."""
        plan = World().plan(self.desired, **options)
        steps = ParallelExecutor(self.executor).execute_steps(plan) if spread else self.executor.execute_steps(plan)
        return [(str(each.step.change.address), str(each.status)) for each in steps]


class Kept:
    """Servers that start as the walk says; ``said``: what was asked for."""

    server: Any = None

    def __init__(self, walk: Walk) -> None:
        self.walk, self.said, self.key = walk, list[str](), ""

    def find_running(self, key: str) -> Any:
        return self.key == key and self.key != ""

    def stop(self) -> None:
        self.said.append(f"stop {bool(self.key)}")
        self.key, self.server = "", None

    def start(self, step: Step, *_: Any) -> Any:
        self.said.append("start")
        self.key = step.change.key
        access = ServerAccess(8000, "log")
        self.server = SimpleNamespace(access=access, find_exit=lambda: None)
        finished = self.walk.finish(step)
        return replace(finished, lives=not finished.record.problem)


FAILED = {"ended": Ended.FAILED, "problem": "it broke", "problem_class": "backend"}


def test_each_step_is_tried_once_what_it_is_made_from_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(tmp_path, monkeypatch)
    assert walk.go() == [(address, "Done") for address in WHOLE]
    assert walk.tried == [
        ("Dataset:net", []),
        ("Model:net", ["dataset"]),
        (f"Engine:{CELL}", ["model"]),
        (f"Run:{CELL}/accuracy", ["dataset", "engine"]),
        (f"Run:{CELL}/performance", ["dataset", "engine"]),
        (f"Score:{CELL}", ["dataset", "run"]),
    ]
    assert walk.locks == ["quiet", "put back"]  # of the timed run alone
    assert walk.looks == [2.0]
    kept_open = {address: len(context.keep_open) for address, context in walk.contexts.items()}
    assert kept_open == {address: int(address.endswith("performance")) for address in WHOLE}
    assert walk.checks == [(address, False) for address in WHOLE]
    assert set(map(str, walk.executor.used)) == set(WHOLE)
    assert [type(event).__name__ for event in walk.events] == ["StepStarted", "StepProgress", "Outcome"] * 6
    assert [address for address, _ in walk.go()] == WHOLE  # it was made, and is due again all the same
    assert walk.go() == []  # now it is left to people


@pytest.mark.parametrize(
    ("fails", "tried"),
    [
        ("Dataset:net", WHOLE[:1]),
        (f"Engine:{CELL}", WHOLE[:3]),
        (f"Run:{CELL}/accuracy", WHOLE[:5]),
        (f"Run:{CELL}/performance", WHOLE),
    ],
)
def test_dependents_are_left(fails: str, tried: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(tmp_path, monkeypatch)
    walk.ends[fails] = FAILED
    assert walk.go() == [(address, "Failed" if address == fails else "Done") for address in tried]
    walk.tried.clear()
    assert fails not in [address for address, _ in walk.go()]  # a failure is tried once a pass


def test_a_blocked_step_is_left_with_all_that_need_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(tmp_path, monkeypatch)
    found = walk.go(blocked={Address.parse(RUNS[0]): "no space"})
    assert [address for address, _ in found] == [*WHOLE[:3], RUNS[1]]


@pytest.mark.parametrize(
    ("end", "tested"),
    [({"values": {"validity": "VALID"}}, True), ({"values": {"validity": "INVALID"}}, False), (FAILED, False)],
    ids=["valid", "invalid", "failed"],
)
def test_a_compliance_test_comes_after_a_valid_run(
    end: dict[str, Any], tested: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(tmp_path, monkeypatch, Wish(tests=("TEST01",)))
    walk.ends[f"Run:{CELL}/performance"] = end
    found = [address for address, _ in walk.go()]
    assert [str(Address(kind, f"{CELL}/TEST01")) in found for kind in (Kind.COMPLIANCE_TEST, Kind.VERDICT)] == [
        tested
    ] * 2
    assert f"Score:{CELL}" in found


BUSY = Busy(what="GPU 0 is used by", pid=41, user="ann", command="python train.py")


@pytest.mark.parametrize(
    ("busy", "allowed", "marks", "look", "status", "said"),
    [
        (BUSY, False, (), 2.0, "Blocked", str(BUSY)),
        (BUSY, True, (), 2.0, "Done", str(BUSY)),
        (BUSY, False, ("rehearsal",), 0.0, "Done", str(BUSY)),
        (ReconcilerError("no route"), False, (), 2.0, "Blocked", "its nodes cannot be probed: no route"),
        (None, False, ("rehearsal",), 0.0, "Done", ""),
    ],
    ids=["busy", "allowed", "rehearsal", "not seen", "quiet"],
)
def test_a_timed_run_has_its_machine_alone_or_says_with_whom_it_shared_it(
    busy: object,
    allowed: bool,
    marks: tuple[str, ...],
    look: float,
    status: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walk = Walk(tmp_path, monkeypatch, marks=marks)
    walk.busy, walk.executor.busy = [busy], allowed
    run = f"Run:{CELL}/performance"
    assert dict(walk.go())[run] == status
    assert walk.looks == [look]
    if status == "Blocked":
        blocked = next(event for event in walk.events if isinstance(event, Outcome) and event.status is Status.BLOCKED)
        assert blocked.message == f"the machine is not idle: {said}"
        assert blocked.fix == "end it, or wait; `--busy` times the run anyway, and marks its record"
        assert run not in dict(walk.tried)
    else:
        shared = {address: context.shared_with for address, context in walk.contexts.items()}
        assert shared == {address: said if address == run else "" for address in WHOLE}


@pytest.mark.parametrize("declared", [{}, {"power_state.set": ["set"]}], ids=["none", "state"])
def test_every_run_that_sets_a_power_state_has_the_machine_alone(
    declared: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(tmp_path, monkeypatch, settings=CellSettings(declared))
    walk.go()
    assert walk.locks == ["quiet", "put back"] * (2 if declared else 1)
    assert len(walk.looks) == 1  # only a timed one must find it idle


@pytest.mark.parametrize("fails", [False, True])
def test_a_server_is_started_once_for_all(fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(tmp_path, monkeypatch, Wish(service="serve"))
    service = f"Service:{CELL}"
    if fails:
        walk.ends[service] = FAILED
    found = walk.go()
    before = [(address, "Done") for address in WHOLE[:3]]
    if fails:
        assert found == [*before, (service, "Failed")]
        assert walk.services.said == ["stop False", "stop False", "start", "stop True"]
        return
    assert found == [*before, (service, "Done"), *((run, "Done") for run in RUNS), (f"Score:{CELL}", "Done")]
    assert walk.services.said == ["stop False", "stop False", "start"]
    asked = {address: context.server for address, context in walk.contexts.items()}
    assert asked == {address: ServerAccess(8000, "log") if address in RUNS else None for address in WHOLE}


def test_a_server_that_is_not_asked_ends_before_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(tmp_path, monkeypatch, Wish(service="serve"), Wish("other"))
    found = [address for address, _ in walk.go()]
    said = iter(walk.services.said)
    assert f"Service:{CELL}" in found
    assert "stop True" in list(said)
    assert walk.contexts["Run:open/box/other/Offline/performance"].server is None


def test_what_is_not_there_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(tmp_path, monkeypatch, Wish(service="serve"))
    steps = {str(step.change.address): step for step in World().plan(walk.desired).steps}
    lacks = walk.executor.find_missing_upstream(steps[f"Run:{CELL}/accuracy"])
    assert lacks is not None
    assert (lacks.status, lacks.message) == (
        Status.BLOCKED,
        f"waits for Engine:{CELL}, Dataset:net, Service:{CELL}",
    )
    assert walk.executor.find_missing_upstream(steps["Dataset:net"]) is None
    started = walk.executor.start(steps[f"Service:{CELL}"])
    assert (started.status, started.message) == (Status.BLOCKED, f"waits for Engine:{CELL}")
    assert walk.services.said == []


def test_a_run_that_changes_its_key_each_time_is_given_up_by_its_name(tmp_path: Path) -> None:
    """As one whose command edits its own code; an engine with another key is another one."""
    desired = desire([Wish()])
    walk = PlanExecutor(desired, make_context(tmp_path), lambda _: None, lambda done: summarize(done.record, "x"), {})
    steps = {str(step.change.address): step for step in World().plan(desired).steps}
    for name, given_up in ((f"Run:{CELL}/performance", True), (f"Engine:{CELL}", False)):
        for number in range(2):
            step = replace(steps[name], change=replace(steps[name].change, key=f"{number:064}"))
            assert not walk.is_given_up(step)
            walk.settle(step, finish(tmp_path, make_record(step, Ended.DONE)))
        assert walk.is_given_up(replace(steps[name], change=replace(steps[name].change, key="f" * 64))) is given_up


def test_a_record_of_another_key_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = Walk(tmp_path, monkeypatch)
    dataset = Address(Kind.DATASET, "net")
    detail = walk.desired.detail(Address(Kind.MODEL, "net"))
    walk.executor.used[dataset] = make_summary(dataset)
    assert walk.executor.collect_upstream(detail) == {}
    same = replace(make_summary(dataset), key=walk.desired.by_address[dataset].key)
    walk.executor.used[dataset] = same
    assert walk.executor.collect_upstream(detail) == {"dataset": same}
