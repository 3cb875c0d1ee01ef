"""An executor whose work is told in the pass's log does what the executor itself does."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.execute.executors.executor import Handle, Progressing, State
from reconciler.execute.executors.logged import LoggedExecutor
from reconciler.resource.settings import CellSettings


class Noting:
    """Notes what it is asked, and tells these."""

    name = "slurm"

    def __init__(self, *told: Progressing) -> None:
        self.told, self.asked = list(told), list[tuple[Any, ...]]()

    def poll(self, handle: Handle, wait: float = 5.0) -> Progressing:
        self.asked.append(("poll", handle.name, wait))
        return self.told.pop(0)

    def cancel(self, handle: Handle, grace: float = 5.0) -> None:
        self.asked.append(("cancel", handle.name, grace))

    def harvest(self, handle: Handle) -> None:
        self.asked.append(("harvest", handle.name))

    def submit(self, submission: Any) -> Handle:
        self.asked.append(("submit", submission))
        return HANDLE

    def capacity(self, settings: CellSettings) -> Any:
        return ("capacity", settings)


HANDLE = Handle("slurm", Path("attempts/2026-1"), "job")


def test_what_is_asked_of_it_is_asked_of_the_other(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    queued, running, ended = Progressing(State.QUEUED), Progressing(State.RUNNING), Progressing(State.ENDED, 3)
    noting = Noting(queued, queued, running, ended, ended)
    logged = LoggedExecutor(noting)
    intent, request = SimpleNamespace(address="Run:a"), SimpleNamespace(verb="run")
    submission: Any = SimpleNamespace(attempt=SimpleNamespace(intent=intent), request=request)
    capacity: Any = logged.capacity(CellSettings())
    assert (logged.name, capacity) == ("slurm", ("capacity", CellSettings()))
    assert logged.submit(submission) is HANDLE
    assert [logged.poll(HANDLE), logged.poll(HANDLE, 7.0), logged.poll(HANDLE), logged.poll(HANDLE)] == [
        queued,
        queued,
        running,
        ended,
    ]
    logged.cancel(HANDLE)
    logged.cancel(HANDLE, 9.0)
    logged.harvest(HANDLE)
    assert logged.poll(HANDLE) is ended  # of another submission, as far as anybody knows
    assert noting.asked == [
        ("submit", submission),
        *(("poll", "job", wait) for wait in (0.0, 7.0, 0.0, 0.0)),
        ("cancel", "job", 2.0),
        ("cancel", "job", 9.0),
        ("harvest", "job"),
        ("poll", "job", 0.0),
    ]
    told = ["submitted", "state changed", "state changed", "ended", "cancelled", "cancelled", "harvested"]
    assert [record.message for record in caplog.records] == [*told, "ended"]
