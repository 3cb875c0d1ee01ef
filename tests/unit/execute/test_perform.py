"""One attempt from its start to its end, by an executor that carries out nothing: what is begun, followed and left."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.contract import Result
from reconciler.desired.detail import Detail
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.child import Detached
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
from reconciler.execute.perform import AttemptContext, Finished, perform
from reconciler.files import RepositoryPaths
from reconciler.plan.make import Policy
from reconciler.plan.plan import Step
from reconciler.resource.records import Ended
from reconciler.resource.settings import CellSettings
from tests.unit.diff.simulated import Wish, World, desire


class Quick:
    """Ends all that it is given at the first look, with a result; or raises ``ends`` there, as a check does."""

    name = "local"

    def __init__(self, ends: type[BaseException] | None = None) -> None:
        self.submitted: list[Path] = []
        self.cancelled: list[Path] = []
        self.ends = ends

    def capacity(self, settings: CellSettings) -> Capacity:
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


def test_a_step_that_nobody_began_is_begun_and_submitted(tmp_path: Path) -> None:
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


def test_another_step_is_none_of_what_is_under_way(tmp_path: Path) -> None:
    a_pass = Pass(tmp_path)
    earlier = a_pass.begin_earlier("queue")
    other: Step = replace(a_pass.step, change=replace(a_pass.step.change, key="0" * 64))
    found = perform(other, a_pass.detail, {}, a_pass.context, lambda _: None)
    assert found.attempt.folder != earlier.folder
    assert a_pass.context.under_way == {a_pass.step.change.key: earlier}


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
