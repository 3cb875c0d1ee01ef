"""What the executor of every queue makes of what a queue says, on a clock of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.contract import Benchmark, BuildRequest, Counter, LaunchRequest, Result, read_progress
from reconciler.errors import ReconcilerError, StoreError
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.executors import queue_executor
from reconciler.execute.executors.executor import (
    TICKET,
    Handle,
    Interruption,
    Progressing,
    State,
    Submission,
    Ticket,
    TransportSilentError,
    read_handle,
    write_handle,
)
from reconciler.execute.executors.queue_executor import LastAnswer, QueueExecutor, QueueSilentError
from reconciler.execute.executors.table import Executors
from reconciler.execute.outcome import QueuedStep
from reconciler.execute.queue_status import find_submitted, list_under_way
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.queues import QUEUES
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths

QUEUE, FACTS = next(iter(QUEUES.items()))
TRAVELS = {f"executor.{QUEUE}.store": "lab"}
RUNNING = Progressing(State.RUNNING, note="job 7 on n1")
QUEUED = Progressing(State.QUEUED, note="job 7")
ENDED = Progressing(State.ENDED)
PREEMPTED = Progressing(State.ENDED, why=Interruption("preempted", "it was preempted", "wait"))
DONE = Progressing(State.ENDED, 0)
SILENT = QueueSilentError("no route")


class Clock:
    """Moves when somebody sleeps, and then does what is due."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, list[float]()
        self.due: dict[float, Any] = {}

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 4))
        self.now += seconds
        for moment in [moment for moment in self.due if moment <= self.now]:
            self.due.pop(moment)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(queue_executor, "time", found)
    return found


class Queue:
    """Says one thing after another of its job, the last of them for ever; ``taken``: what comes of each submission."""

    def __init__(self, *said: object, taken: tuple[Exception | None, ...] = ()) -> None:
        self.said, self.taken = list(said), list(taken)
        self.asked: list[str] = []
        self.since: list[float] = []
        self.submitted: list[Submission] = []

    def submit(self, submission: Submission, handle: Handle) -> None:
        self.submitted.append(submission)
        self.asked.append(f"submit {handle.name}")
        if self.taken and (error := self.taken.pop(0)):
            raise error

    def find(self, handle: Handle, since: float) -> Any:
        self.since.append(since)
        found = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(found, Exception):
            raise found
        if isinstance(found, Progressing):
            return SimpleNamespace(describe=lambda: found, gave_up=False)
        return found

    def cancel(self, handle: Handle) -> None:
        self.asked.append("cancel")

    def forget(self, handle: Handle) -> None:
        self.asked.append("forget")


class AttemptTransport:
    """``brings``: what asking for what a job left comes to."""

    def __init__(self, brings: object = False, sends: Exception | None = None) -> None:
        self.brings, self.sends = brings, sends
        self.asked: list[str] = []

    def send(self, attempt: Attempt, request: object, asked: object, result: Path) -> Ticket:
        self.asked.append(f"send {type(request).__name__} of {type(asked).__name__} to {result.name}")
        if self.sends:
            raise self.sends
        (attempt.folder / TICKET).write_text("ticket")
        return Ticket("text", ("fetch",))

    def look(self, folder: Path) -> None:
        self.asked.append("look")

    def bring(self, folder: Path) -> bool:
        self.asked.append("bring")
        if isinstance(self.brings, Exception):
            raise self.brings
        if callable(self.brings):
            self.brings()
            return True
        return bool(self.brings)

    def withdraw(self, folder: Path) -> None:
        self.asked.append("withdraw")

    def forget(self, folder: Path) -> None:
        self.asked.append("forget")


def begin(root: Path, **settings: object) -> Attempt:
    named = {f"executor.{QUEUE}": True, **{name.replace("__", "."): value for name, value in settings.items()}}
    intent = Intent(
        "2026-1", Address(Kind.ENGINE, "open/box/net/Offline"), "k" * 64, 1, "2026", {}, CellSettings(named)
    )
    return create(RepositoryPaths(root).attempts, intent)


def make_request(attempt: Attempt) -> BuildRequest:
    return BuildRequest(
        kind="Engine", benchmark=Benchmark(name="net"), output=str(attempt.output), counter=str(attempt.counter)
    )


def submit(
    root: Path, queue: Queue, carrier: AttemptTransport | None = None, **settings: object
) -> tuple[QueueExecutor, Handle, Attempt]:
    attempt = begin(root, **settings)
    executor = QueueExecutor(QUEUE, RepositoryPaths(root), cast(Any, queue), cast(Any, carrier))
    handle = executor.submit(Submission(attempt, make_request(attempt), attempt.result, seconds=7.0))
    return executor, handle, attempt


def end_well(attempt: Attempt) -> None:
    Result(done=True, seconds=1.0).write(attempt.result)


def test_what_is_submitted_counts_next_to_its_attempt_and_is_found_by_its_handle(tmp_path: Path, clock: Clock) -> None:
    queue = Queue(RUNNING)
    executor, handle, attempt = submit(tmp_path, queue)
    assert handle == read_handle(attempt.folder) == Handle(QUEUE, attempt.folder, "reconcile-2026-1")
    (kept,) = queue.submitted
    assert (kept.attempt, kept.result, kept.seconds, kept.ticket) == (attempt, attempt.result, 7.0, None)
    assert cast(Any, kept.request).counter == str(attempt.folder / "counter-job")
    assert BuildRequest.read(attempt.request) == kept.request
    assert executor.poll(handle) == RUNNING
    assert queue.since == [100.0]


def test_behind_a_launcher_the_job_starts_that(tmp_path: Path, clock: Clock) -> None:
    queue = Queue(RUNNING)
    _, _, attempt = submit(tmp_path, queue, system__launcher=["srun"])
    (kept,) = queue.submitted
    assert isinstance(kept.request, LaunchRequest)
    assert LaunchRequest.read(attempt.launch) == kept.request
    assert kept.request.counter == str(attempt.folder / "counter-job")


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ReconcilerError("no", fix="correct it"), "input"), (StoreError("full", fix="free it"), "resources")],
)
def test_what_cannot_be_sent_has_failed(error: ReconcilerError, kind: str, tmp_path: Path, clock: Clock) -> None:
    queue, carrier = Queue(None), AttemptTransport(sends=error)
    executor, handle, attempt = submit(tmp_path, queue, carrier, **TRAVELS)
    result = Result.read(attempt.result)
    assert (result.done, result.seconds, result.problem, result.problem_class, result.fix) == (
        False,
        0.0,
        error.message,
        kind,
        error.fix,
    )
    assert queue.asked == []
    assert executor.poll(handle) == DONE


def test_what_a_queue_did_not_receive_is_submitted_again_when_unknown(tmp_path: Path, clock: Clock) -> None:
    queue = Queue(SILENT, None, None, taken=(SILENT, SILENT, None))
    executor, handle, _ = submit(tmp_path, queue)
    clock.now = 110.0
    assert executor.poll(handle) == Progressing(State.QUEUED, note=f"{FACTS.title} does not answer: no route")
    again = Progressing(State.QUEUED, note=f"submitted again after {FACTS.title} did not answer")
    assert [executor.poll(handle), executor.poll(handle)] == [again, again]
    assert len(queue.submitted) == 3
    assert queue.since == [100.0, 100.0, 110.0]  # no older answer reports the new job
    clock.due[110.3] = lambda: None
    lost = executor.poll(handle)  # taken at last, and gone
    assert (lost.state, len(queue.submitted)) == (State.LOST, 3)
    assert lost.why is not None
    assert lost.why.problem_class == "lost"


@pytest.mark.parametrize("known", [True, False])
def test_a_job_without_place_is_submitted_again_by_others(known: bool, tmp_path: Path, clock: Clock) -> None:
    job = SimpleNamespace(describe=lambda: PREEMPTED, gave_up=True)
    queue = Queue(job)
    executor, handle, _ = submit(tmp_path, queue)
    if not known:  # an earlier pass submitted it
        executor = QueueExecutor(QUEUE, executor.paths, cast(Any, queue))
    found = executor.poll(handle)
    again = Progressing(State.QUEUED, note=f"submitted again after {FACTS.title} found no place for it")
    assert found == (again if known else PREEMPTED)
    assert len(queue.submitted) == (2 if known else 1)


@pytest.mark.parametrize(
    ("said", "wait", "slept"),
    [
        (RUNNING, 0.0, []),
        (RUNNING, 0.12, [0.05, 0.05, 0.02]),
        (QUEUED, 0.6, [0.25, 0.25, 0.1]),
    ],
)
def test_somebody_who_waits_looks_now_and_then(
    said: Progressing, wait: float, slept: list[float], tmp_path: Path, clock: Clock
) -> None:
    executor, handle, _ = submit(tmp_path, Queue(said))
    assert executor.poll(handle, wait) == said
    assert clock.slept == slept


@pytest.mark.parametrize(
    ("said", "patience"), [(ENDED, 5.0), (PREEMPTED, 0.05)], ids=["it ended by itself", "its queue says why"]
)
def test_a_result_may_be_seen_later(said: Progressing, patience: float, tmp_path: Path, clock: Clock) -> None:
    executor, handle, attempt = submit(tmp_path, Queue(said))
    assert executor.poll(handle) == said
    assert clock.now - 100.0 == pytest.approx(patience, abs=0.06)
    seen = clock.now + patience / 2
    clock.due[seen] = lambda: end_well(attempt)
    assert executor.poll(handle) == DONE
    assert clock.now == pytest.approx(seen, abs=0.06)  # no one waits any longer


@pytest.mark.parametrize("said", [ENDED, PREEMPTED])
def test_a_job_that_found_another_says_so_unless_known(said: Progressing, tmp_path: Path, clock: Clock) -> None:
    executor, handle, attempt = submit(tmp_path, Queue(said))
    attempt.twice.touch()
    twice = Interruption(
        "requeued",
        f"its job was queued again by {FACTS.title}, after it had begun",
        "it is submitted again automatically",
    )
    assert executor.poll(handle) == (Progressing(State.ENDED, why=twice) if said is ENDED else said)


def test_what_travelled_is_brought_once_its_job_has_ended(tmp_path: Path, clock: Clock) -> None:
    carrier = AttemptTransport()
    executor, handle, attempt = submit(tmp_path, Queue(ENDED), carrier, **TRAVELS)
    carrier.brings = TransportSilentError("no route")
    waits = Progressing(State.RUNNING, note="its job has ended, but its result cannot be fetched yet: no route")
    assert executor.poll(handle) == waits
    carrier.brings = True
    assert executor.poll(handle) == ENDED  # it left no result
    carrier.brings = lambda: end_well(attempt)
    assert executor.poll(handle) == DONE
    assert carrier.asked[1:] == ["look", "bring"] * 3
    assert clock.slept == []


def test_what_did_not_begin_shall_not_begin_any_more_once_its_job_has_ended(tmp_path: Path, clock: Clock) -> None:
    carrier = AttemptTransport(brings=False)
    executor, handle, _ = submit(tmp_path, Queue(PREEMPTED), carrier, **TRAVELS)
    assert executor.poll(handle) == PREEMPTED
    assert carrier.asked[1:] == ["look", "bring", "withdraw"]


@pytest.mark.parametrize(
    ("begun", "travels", "asked", "looks"),
    [
        (False, False, [], 0),
        (True, False, [], 3),
        (False, True, ["withdraw", "forget"], 3),
    ],
    ids=["waits", "runs", "travels"],
)
def test_cancelling_waits_for_the_end_of_what_has_begun(
    begun: bool, travels: bool, asked: list[str], looks: int, tmp_path: Path, clock: Clock
) -> None:
    queue, carrier = Queue(RUNNING, RUNNING, ENDED), AttemptTransport()
    settings = TRAVELS if travels else {}
    executor, handle, attempt = submit(tmp_path, queue, carrier, **settings)
    if begun:
        attempt.begun.mkdir()
    executor.cancel(handle)
    assert attempt.begun.is_dir()  # a job that begins now finds its place taken
    assert queue.asked[1:] == ["cancel"]
    assert carrier.asked[1 if travels else 0 :] == asked
    assert queue.since == [100.0 + 0.05 * look - 1.0 for look in range(looks)]


def test_cancelling_gives_up_a_job_that_does_not_end(tmp_path: Path, clock: Clock) -> None:
    queue = Queue(RUNNING)
    executor, handle, attempt = submit(tmp_path, queue)
    attempt.begun.mkdir()
    executor.cancel(handle, grace=5.0)
    assert clock.now - 100.0 == pytest.approx(65.0, abs=0.06)
    queue.said = [SILENT]
    executor.cancel(handle)
    assert clock.now - 100.0 == pytest.approx(65.0, abs=0.06)


@pytest.mark.parametrize("ended", [True, False])
def test_what_is_harvested_is_forgotten(ended: bool, tmp_path: Path, clock: Clock) -> None:
    queue, carrier = Queue(RUNNING, taken=(SILENT,)), AttemptTransport()
    executor, handle, attempt = submit(tmp_path, queue, carrier, **TRAVELS)
    executor.poll(handle)
    if ended:
        end_well(attempt)
    executor.harvest(handle)
    assert carrier.asked[2:] == (["forget"] if ended else [])  # another pass may bring the rest
    assert queue.asked[-1] == "forget"
    assert (executor.since, executor.submitted, executor.unheard, executor.relays) == ({}, {}, set(), {})


def test_progress_of_a_job_is_reported_as_that_of_a_child_here(tmp_path: Path, clock: Clock) -> None:
    executor, handle, attempt = submit(tmp_path, Queue(RUNNING))
    executor.poll(handle)
    assert read_progress(attempt.counter) is None
    there = Counter(attempt.folder / "counter-job")
    there.stage("running", 9)
    relays: list[object] = []
    for done in (2, 3):
        there.bump(1 if done == 3 else 2)
        executor.poll(handle)
        relays = relays or list(executor.relays.values())
        assert list(executor.relays.values()) == relays  # how long it is in its stage goes on
        found = read_progress(attempt.counter)
        assert found is not None
        assert (found.stage, found.done, found.expected) == ("running", done, 9)
    there.close()
    executor.harvest(handle)


class Answers:
    """What a queue says at each question; ``asked``: when."""

    def __init__(self, clock: Clock, *said: object) -> None:
        self.clock, self.said = clock, list(said)
        self.asked: list[float] = []

    def __call__(self) -> Mapping[str, str]:
        self.asked.append(self.clock.now)
        found = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(found, Exception):
            raise found
        return cast(Mapping[str, str], found)


@pytest.mark.parametrize(
    ("jobs", "moments", "asked"),
    [
        (1, [100.0, 100.5, 100.99, 101.0, 101.5], [100.0, 101.0]),
        (100, [100.0, 100.99, 101.0], [100.0, 101.0]),
        (101, [100.0, 101.0, 103.99, 104.0], [100.0, 104.0]),
    ],
)
def test_one_answer_serves_all_for_a_while(jobs: int, moments: list[float], asked: list[float], clock: Clock) -> None:
    answers = Answers(clock, {f"job{number}": "runs" for number in range(jobs)})
    last = LastAnswer(answers)
    for moment in moments:
        clock.now = moment
        assert last.find("job0", 99.0) == "runs"
        assert last.find("other", 99.0) is None
    assert answers.asked == asked


def test_a_queue_that_does_not_answer_is_asked_again_after_a_while(clock: Clock) -> None:
    answers = Answers(clock, SILENT, QueueSilentError("still none"), {"job": "runs"})
    last = LastAnswer(answers)
    for moment, problem in ((100.0, "no route"), (100.5, "no route"), (101.0, "still none")):
        clock.now = moment
        with pytest.raises(QueueSilentError, match=problem):
            last.find("job", 99.0)
    clock.now = 102.0
    assert last.find("job", 99.0) == "runs"
    assert answers.asked == [100.0, 101.0, 102.0]


def test_what_was_said_before_is_while_a_queue_is_silent(clock: Clock) -> None:
    last = LastAnswer(Answers(clock, {"job": "runs"}, SILENT))
    for moment in (100.0, 102.0):
        clock.now = moment
        assert last.find("job", 100.0) == "runs"
    with pytest.raises(QueueSilentError, match="no route"):
        last.find("job", 100.1)


RUN = RunAddress(Cell.parse("open/box/digits/Offline"), PERFORMANCE).address


def begin_queue_status(paths: RepositoryPaths, number: int, executor: str) -> Attempt:
    paths.attempts.mkdir(parents=True, exist_ok=True)
    attempt = create(paths.attempts, Intent(f"2026-{number}", RUN, "k" * 64, 1, "2026", {}))
    if executor:
        write_handle(Handle(executor, attempt.folder, "job"))
    return attempt


def ask(paths: RepositoryPaths, reported: Progressing) -> tuple[QueuedStep, ...]:
    queue = SimpleNamespace(poll=lambda _: reported)
    return list_under_way(paths, lambda: cast(Executors, SimpleNamespace(by_name=dict.fromkeys(QUEUES, queue))))


def refuse() -> Any:
    pytest.fail("no queue is asked")


def test_no_queue_is_asked_of_what_runs_here(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    assert list_under_way(paths, refuse) == ()
    for number, executor in enumerate(("", "local", "launcher", "later")):
        begin_queue_status(paths, number, executor)
    unknown = begin_queue_status(paths, 5, QUEUE)
    (unknown.folder / "attempt.json").write_text("{}")
    assert list_under_way(paths, refuse) == ()
    assert find_submitted(paths) == (unknown.folder,)


@pytest.mark.parametrize(
    ("reported", "said"),
    [
        (Progressing(State.QUEUED, note="Priority"), (State.QUEUED, "Priority")),
        (Progressing(State.RUNNING, note="node7"), (State.RUNNING, "node7")),
        (Progressing(State.ENDED, 0), None),
        (Progressing(State.LOST), None),
    ],
)
def test_what_goes_on_in_a_queue_is_reported_as_the_queue_reports_it(
    tmp_path: Path, reported: Progressing, said: tuple[State, str] | None
) -> None:
    paths = RepositoryPaths(tmp_path)
    begin_queue_status(paths, 1, "local")
    for number, queue in enumerate(QUEUES, 2):
        begin_queue_status(paths, number, queue)
    assert ask(paths, reported) == ((QueuedStep(RUN, *said, (), 0, 0),) * len(QUEUES) if said else ())
