"""What a child of this machine is started with, and how it is reported of: with no real child."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.contract import CommandRequest, FileMessage, LaunchRequest, ProbeRequest, Ready, ServiceRequest
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.executors import local
from reconciler.execute.executors.executor import Handle, Submission, read_handle
from reconciler.execute.executors.local import LocalExecutor
from reconciler.resource.kinds import Address, Kind
from reconciler.storage.process import FIXED

COMMAND = CommandRequest(
    purpose="run", command=("go",), cwd="/", run_dir="r", output="o", counter="c", secrets={"token": "TOKEN"}
)
SERVICE = ServiceRequest(
    command=("go",),
    cwd="/",
    counter="c",
    ready="r",
    probe=Ready(timeout=1.0),
    log="log",
    secrets={"token": "TOKEN"},
    hides=("HIDDEN", "UNSET"),
)
LAUNCH = LaunchRequest(
    command=("srun",), answer="a", counter="c", counter_there="t", cwd="/", ending=(), secrets={"token": "TOKEN"}
)


class Child:
    """A child that is as the test says."""

    started: ClassVar[list[Child]] = []

    def __init__(self, command: list[str], **more: Any) -> None:
        self.command, self.more = command, more
        self.status: int | None = None
        self.reported: list[str] = []
        Child.started.append(self)

    def wait(self, seconds: float) -> int | None:
        self.reported.append(f"wait {seconds}")
        return self.status

    def stop(self, grace: float) -> None:
        self.reported.append(f"stop {grace}")

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.reported.append("left")


@pytest.fixture(autouse=True)
def children(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    monkeypatch.setattr(local, "Child", Child)
    monkeypatch.setattr(Child, "started", [])
    for name in list(os.environ):
        if name.startswith(("SLURM", "CUDA")):
            monkeypatch.delenv(name)
    for name in ("TOKEN", "HIDDEN", "OTHER", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.setenv(name, f"of {name}")
    return Child.started


def begin(root: Path) -> Attempt:
    return create(root, Intent("2026-1", Address(Kind.MODEL, "net"), "k" * 64, 1, "2026", {}))


@pytest.mark.parametrize(
    ("request_", "written", "variables", "marked"),
    [
        (ProbeRequest(), "request.json", {"CUDA_VISIBLE_DEVICES"}, True),
        (COMMAND, "request.json", {"CUDA_VISIBLE_DEVICES", "TOKEN"}, False),
        (SERVICE, "request.json", {"CUDA_VISIBLE_DEVICES", "TOKEN", "HIDDEN"}, True),
        (LAUNCH, "launch.json", {"TOKEN", "SLURM_JOB_ID"}, False),
    ],
    ids=["ours", "command", "server", "launcher"],
)
@pytest.mark.parametrize("sweeps", [True, False])
def test_a_child_is_started_with_its_request_and_what_it_may_see(
    request_: FileMessage,
    written: str,
    variables: set[str],
    marked: bool,
    sweeps: bool,
    tmp_path: Path,
    children: list[Child],
) -> None:
    attempt, executor = begin(tmp_path), LocalExecutor()
    handle = executor.submit(Submission(attempt, request_, attempt.result, (7,), sweeps))
    assert handle == read_handle(attempt.folder) == Handle("local", attempt.folder, "reconcile-2026-1")
    path = attempt.folder / written
    assert type(request_).read(path) == request_
    (child,) = children
    assert child.command == [sys.executable, "-P", "-m", "harness", request_.verb, str(path), str(attempt.result)]
    environment = child.more.pop("environment")
    assert child.more == {"folder": attempt.folder, "log": attempt.log, "keep_open": (7,)}
    set_here = {"TOKEN", "HIDDEN", "OTHER", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"}
    assert set_here.intersection(environment) == variables
    assert all(environment[name] == f"of {name}" for name in variables)
    assert environment.items() >= FIXED.items()
    assert bool(environment.get("RECONCILE_CHILD")) is (marked and sweeps)
    executor.harvest(handle)
