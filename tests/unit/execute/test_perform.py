"""One attempt from its start to its end, by an executor that carries out nothing: what is begun, followed and left."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from harness.contract import Progress, Result
from reconciler.desired.detail import Detail
from reconciler.execute import perform as perform_module
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.child import Detached, Watch
from reconciler.execute.executors.executor import (
    Capacity,
    Handle,
    Progressing,
    State,
    Submission,
    read_handle,
    write_handle,
)
from reconciler.execute.executors.table import Executors
from reconciler.execute.outcome import Outcome, Status
from reconciler.execute.perform import (
    AttemptContext,
    Finished,
    derive_outcome,
    find_known_answers,
    perform,
)
from reconciler.plan.builder import Policy
from reconciler.plan.plan import Step
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Artifact, Ended, Record, Summary
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths
from tests.unit.diff.simulated import Wish, World, desire


class Quick:
    """Ends all that it is given at the first look, with a result; or raises ``ends`` there, as a check does."""

    name = "local"

    def __init__(self, ends: type[BaseException] | None = None) -> None:
        self.submitted: list[Path] = []
        self.cancelled: list[Path] = []
        self.ends = ends

    def get_capacity(self, settings: CellSettings) -> Capacity:
        return Capacity("", 60.0)

    def submit(self, submission: Submission) -> Handle:
        handle = Handle(self.name, submission.attempt.folder, "new")
        self.submitted.append(handle.folder)
        write_handle(handle)
        return handle

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        if self.ends is not None:
            raise self.ends
        Result(done=True, seconds=1.5, values={"files": {}}).write(handle.folder / "result.json")
        return Progressing(State.ENDED, 0)

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        self.cancelled.append(handle.folder)

    def harvest(self, handle: Handle) -> None:
        pass


class Pass:
    """One that makes a data set."""

    def __init__(self, root: Path, ends: type[BaseException] | None = None) -> None:
        desired = desire([Wish("net")])
        (self.step,) = World().plan(desired, Policy(only=frozenset({"dataset"}))).steps
        self.detail: Detail = replace(desired.detail(self.step.change.address), settings=CellSettings({}))
        self.paths, self.here = RepositoryPaths(root), Quick(ends)
        self.queue = Quick(ends)
        self.context = AttemptContext(
            self.paths,
            Executors({"local": self.here, "queue": self.queue}),
            "tool 1",
            {"specs/a.yaml": "blob"},
            True,
            lambda: datetime(2026, 1, 2, tzinfo=UTC),
            (),
            lambda a: root / a.name,
            {}.__getitem__,
        )

    def begin_earlier(self, executor: str = "") -> Attempt:
        """As a pass left it that ended: ``executor`` has it, "" where it was not submitted yet."""
        step = self.step
        intent = Intent("2026-1", step.change.address, step.change.key, 1, "2026-01-01", {}, CellSettings({}))
        attempt = create(self.paths.attempts, intent)
        if executor:
            write_handle(Handle(executor, attempt.folder, "old"))
        self.context.under_way[step.change.key] = attempt
        return attempt

    def perform(self) -> Finished:
        return perform(self.step, self.detail, {}, self.context, lambda _: None)

    def folders(self) -> list[Path]:
        return sorted(self.paths.attempts.iterdir())


def test_a_step_that_no_one_began_is_begun_and_submitted(tmp_path: Path) -> None:
    a_pass = Pass(tmp_path)
    found = a_pass.perform()
    assert a_pass.folders() == a_pass.here.submitted == [found.attempt.folder]
    record = found.record
    assert (record.ended, record.key, record.address) == (
        Ended.DONE,
        a_pass.step.change.key,
        a_pass.step.change.address,
    )
    assert (record.tool, record.spec, record.dirty, record.seconds) == ("tool 1", {"specs/a.yaml": "blob"}, True, 1.5)
    assert set(record.inputs) == {item.name for item in a_pass.detail.inputs if item.value is not None}


def test_what_an_earlier_pass_submitted_is_followed_where_it_is(tmp_path: Path) -> None:
    a_pass = Pass(tmp_path)
    earlier = a_pass.begin_earlier("queue")
    found = a_pass.perform()
    assert found.attempt is earlier
    assert (found.record.attempt, found.record.started) == ("2026-1", "2026-01-01")
    assert a_pass.folders() == [earlier.folder]
    assert a_pass.here.submitted == a_pass.queue.submitted == []
    handle = read_handle(earlier.folder)
    assert handle is not None
    assert handle.name == "old"
    assert a_pass.context.under_way == {}  # a second attempt is one of its own
    assert a_pass.perform().attempt is not earlier


def test_what_an_earlier_pass_laid_out_alone_is_submitted(tmp_path: Path) -> None:
    a_pass = Pass(tmp_path)
    earlier = a_pass.begin_earlier()
    assert a_pass.perform().attempt is earlier
    assert a_pass.folders() == a_pass.here.submitted == [earlier.folder]


@pytest.mark.parametrize("begun", [Pass.perform, Pass.begin_earlier], ids=["new", "earlier"])
def test_what_is_left_to_its_queue_keeps_its_folder(tmp_path: Path, begun: Callable[..., object]) -> None:
    a_pass = Pass(tmp_path, Detached)
    if begun is Pass.begin_earlier:
        a_pass.begin_earlier("queue")
    with pytest.raises(Detached):
        a_pass.perform()
    assert len(a_pass.folders()) == 1
    assert a_pass.here.cancelled == a_pass.queue.cancelled == []


def test_an_interrupt_ends_what_was_submitted_and_leaves_nothing(tmp_path: Path) -> None:
    a_pass = Pass(tmp_path, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        a_pass.perform()
    assert a_pass.here.cancelled == a_pass.here.submitted
    assert a_pass.folders() == []


def test_a_result_that_was_there_before_an_interrupt_is_kept(tmp_path: Path) -> None:
    a_pass = Pass(tmp_path, KeyboardInterrupt)
    earlier = a_pass.begin_earlier("queue")
    Result(done=True, seconds=1.5, values={"files": {}}).write(earlier.result)
    with pytest.raises(KeyboardInterrupt):
        a_pass.perform()
    assert a_pass.folders() == [earlier.folder]


class Preparing(Quick):
    """Leaves a prepared data set."""

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        output = handle.folder / "output"
        (output / "samples.npy").write_bytes(b"samples")
        (output / "manifest.json").write_bytes(b"{}")
        values = {"files": {"samples.npy": hashlib.sha256(b"samples").hexdigest()}}
        Result(done=True, seconds=1.5, values=values).write(handle.folder / "result.json")
        return Progressing(State.ENDED, 0)


def prepare(root: Path, scratch: Path | None, key: str = "") -> tuple[Preparing, Finished]:
    """By a repository of its own; ``scratch``: where what was prepared is shared."""
    root.mkdir()
    a_pass, here = Pass(root), Preparing()
    context = replace(a_pass.context, executors=Executors({"local": here}))
    step = replace(a_pass.step, change=replace(a_pass.step.change, key=key or a_pass.step.change.key))
    detail = replace(a_pass.detail, locations={"dataset.prepared": str(scratch)} if scratch else {})
    return here, perform(step, detail, {}, context, lambda _: None)


def test_a_data_set_that_another_repository_has_prepared_is_taken_and_not_made(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    first, made = prepare(tmp_path / "first", scratch)
    second, taken = prepare(tmp_path / "second", scratch)
    other, anew = prepare(tmp_path / "other", scratch, "0" * 64)
    assert [len(each.submitted) for each in (first, second, other)] == [1, 0, 1]
    assert [each.record.values.get("taken_from_scratch", False) for each in (made, taken, anew)] == [False, True, False]
    assert taken.record.ended is Ended.DONE
    assert {kept.name: kept.path.read_bytes() for kept in taken.kept if kept.name != "child.log"} == {
        "samples.npy": b"samples",
        "manifest.json": b"{}",
    }
    assert sorted(path.name for path in scratch.iterdir()) == sorted([made.record.key, "0" * 64])


def summary(kind: Kind, identity: str, *artifacts: str) -> Summary:
    files = tuple(Artifact(name, f"digest of {name}", 1) for name in artifacts)
    address = Address(kind, "open/box/net/Offline/accuracy" if kind is Kind.RUN else "net")
    return Summary(identity, address, "k" * 64, Ended.DONE, "2026-01-01", 1.0, files)


def load(**values: Any) -> Callable[[str], Record]:
    """Of one record, whatever its id, of a verdict over these runs."""
    upstream = {"audit": "Test/1", "accuracy": "Run/1", "performance": "Run/2"}
    address = Address(Kind.VERDICT, "open/box/net/Offline/TEST01")
    return lambda _: Record(address, "k" * 64, 1, Ended.DONE, "2026", 1.0, "a", {}, values=values, upstream=upstream)


@pytest.mark.parametrize(
    ("runs", "known"),
    [
        ({"audit": "Test/1", "accuracy": "Run/1", "performance": "Run/9"}, True),
        ({"audit": "Test/1"}, True),
        ({"audit": "Test/2", "accuracy": "Run/1"}, False),
        ({"audit": "Test/1", "accuracy": "Run/2"}, False),
    ],
)
def test_an_earlier_comparison_of_answers_represents_the_very_same_runs(runs: dict[str, str], known: bool) -> None:
    upstream = {name: summary(Kind.RUN, identity) for name, identity in runs.items()}
    answers = {"reasons": [], "figures": {"compared": "7"}}
    assert find_known_answers("Verdict/1", upstream, load(answers=answers)) == (answers if known else None)
    assert find_known_answers("", upstream, load(answers=answers)) is None
    assert find_known_answers("Verdict/1", upstream, load()) is None


RUN_COMMAND = {"harness.command": ["go"]}


@pytest.mark.parametrize(
    ("kind", "settings", "stall"),
    [
        (Kind.RUN, {}, 700.0),
        (Kind.RUN, {"run.stall_timeout": 60_000}, 60.0),
        (Kind.RUN, {"run.stall_timeout": 0}, 0.0),
        (Kind.COMPLIANCE_TEST, {"run.stall_timeout": 60_000}, 60.0),
        (Kind.RUN, {"run.stall_timeout": 60_000, **RUN_COMMAND}, 0.0),
        (Kind.ENGINE, {"run.stall_timeout": 60_000}, 6 * 3600.0),
        (Kind.DATASET, RUN_COMMAND, 6 * 3600.0),
    ],
    ids=["run", "declared", "never", "test", "command", "engine", "data set"],
)
def test_a_child_may_stand_still_for_as_long_as_its_kind_may(
    kind: Kind, settings: dict[str, Any], stall: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_pass, asked = Pass(tmp_path), list[Any]()
    moved, checks = list[Progress](), list[tuple[Step, bool]]()
    lost = Result(done=False, seconds=0.0)

    def run(attempt: Attempt, request: object, watch: Watch, executors: Executors, seconds: float | None) -> None:
        asked.append((request, watch.stall, watch.start, watch.keep_open, watch.lost(), executors, seconds))
        watch.check()
        watch.moved(Progress("running", 1, 2, 3.0, 0.0, ""))
        Result(done=False, seconds=1.0, problem="enough").write(attempt.result)

    monkeypatch.setattr(perform_module, "run_child", run)
    monkeypatch.setattr(perform_module, "make_request", lambda attempt, paths: (attempt.intent.address, paths))
    address = Address(kind, "net" if kind is Kind.DATASET else "open/box/net/Offline/accuracy")
    step: Step = replace(a_pass.step, change=replace(a_pass.step.change, address=address), seconds=9.0)
    context = replace(
        a_pass.context, stall=700.0, keep_open=(7,), check=lambda *what: checks.append(what), lost=lambda: lost
    )
    detail = replace(a_pass.detail, settings=CellSettings(settings))
    finished = perform(step, detail, {}, context, moved.append)
    assert asked == [((address, a_pass.paths), stall, 60.0, (7,), lost, context.executors, 9.0)]
    assert checks == [(step, True)]
    assert moved == [Progress("running", 1, 2, 3.0, 0.0, "")]
    assert (finished.record.ended, finished.record.problem) == (Ended.FAILED, "enough")


def perform_score(results: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, bool]:
    """Perform the scoring of a run with these results. -> Whether a scorer was asked, and whether it is done."""
    a_pass, asked = Pass(tmp_path), list[str]()

    def run(attempt: Attempt, *_: object) -> None:
        asked.append("scorer")
        Result(done=False, seconds=1.0, problem="enough").write(attempt.result)

    monkeypatch.setattr(perform_module, "run_child", run)
    monkeypatch.setattr(perform_module, "make_request", lambda *_: None)
    monkeypatch.setattr(
        perform_module, "build_record", lambda attempt: (Result.read(attempt.result), ("what is kept",))
    )
    address = Address(Kind.SCORE, "open/box/net/Offline")
    step: Step = replace(a_pass.step, change=replace(a_pass.step.change, address=address))
    detail = replace(a_pass.detail, settings=CellSettings({"harness.results": results}))
    finished = perform(step, detail, {}, a_pass.context, lambda _: None)
    return asked == ["scorer"], cast(Any, finished.record).done


def test_a_run_that_does_not_score_itself_needs_a_scorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert perform_score("loadgen", tmp_path, monkeypatch) == (True, False)


@pytest.mark.parametrize(
    ("problem_class", "status"),
    [
        *((name, Status.RETRY) for name in ("resources", "preempted", "node-failure", "requeued", "lost")),
        *((name, Status.FAILED) for name in ("crash", "input", "cancelled", "time-limit", "backend", "")),
    ],
)
def test_what_is_no_fault_of_a_step_is_tried_again(problem_class: str, status: Status, tmp_path: Path) -> None:
    a_pass = Pass(tmp_path)
    attempt = a_pass.begin_earlier()
    failed = {"problem": "it broke", "problem_class": problem_class, "fix": "correct it"}
    record = Record(a_pass.step.change.address, "k", 1, Ended.FAILED, "2026", 1.0, "a", {}, **failed)
    for log, reported in ((None, ""), ("".join(f"{n}\n" for n in range(25)), "\n".join(map(str, range(5, 25))))):
        if log is not None:
            attempt.log.write_text(log)
        found = derive_outcome(a_pass.step, Finished(attempt, record, seconds=3.0))
        assert found == Outcome(a_pass.step, status, "it broke", "correct it", record, 3.0, reported)
    kept = replace(record, values={"log": "last words"})
    assert derive_outcome(a_pass.step, Finished(attempt, kept)).log == "last words"
