"""What was given to a queue, as people ask for it: only queues are asked, and only of what goes on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.executors.executor import Handle, Progressing, State, write_handle
from reconciler.execute.executors.table import Executors
from reconciler.execute.outcome import QueuedStep
from reconciler.execute.queue_status import find_submitted, list_under_way
from reconciler.resource.kinds import PERFORMANCE, Cell, RunAddress
from reconciler.storage.files import RepositoryPaths

RUN = RunAddress(Cell.parse("open/box/digits/Offline"), PERFORMANCE).address


def begin(paths: RepositoryPaths, number: int, executor: str) -> Attempt:
    paths.attempts.mkdir(parents=True, exist_ok=True)
    attempt = create(paths.attempts, Intent(f"2026-{number}", RUN, "k" * 64, 1, "2026", {}))
    if executor:
        write_handle(Handle(executor, attempt.folder, "job"))
    return attempt


def ask(paths: RepositoryPaths, reported: Progressing) -> tuple[QueuedStep, ...]:
    queue = SimpleNamespace(poll=lambda _: reported)
    return list_under_way(paths, lambda: cast(Executors, SimpleNamespace(by_name={"slurm": queue, "ray": queue})))


def refuse() -> Any:
    pytest.fail("no queue is asked")


def test_no_queue_is_asked_of_what_runs_here(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    assert list_under_way(paths, refuse) == ()
    for number, executor in enumerate(("", "local", "launcher", "later")):
        begin(paths, number, executor)
    unknown = begin(paths, 5, "slurm")
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
    begin(paths, 1, "local")
    begin(paths, 2, "slurm")
    begin(paths, 3, "ray")
    assert ask(paths, reported) == ((QueuedStep(RUN, *said, (), 0, 0),) * 2 if said else ())
