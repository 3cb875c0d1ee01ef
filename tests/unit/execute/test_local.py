"""What a child of this machine is started with, and how it is reported of: with no real child."""

from __future__ import annotations

import dataclasses
import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.contract import (
    CommandRequest,
    FileMessage,
    LaunchRequest,
    ProbeRequest,
    Ready,
    ServiceRequest,
    StateRequest,
)
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.executors import local
from reconciler.execute.executors.executor import Capacity, Handle, Submission, read_handle
from reconciler.execute.executors.launcher import LauncherExecutor, put_behind_launcher
from reconciler.execute.executors.local import LocalExecutor
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.process import FIXED, build_elsewhere_environment

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


LOCK = "/here/locks/quiet-1"
COMMAND_LAUNCHER = CommandRequest(
    purpose="run",
    command=("run",),
    cwd="/own",
    run_dir="r",
    output="o",
    counter="c",
    secrets={"api_key": "TOKEN"},
)
SERVICE_LAUNCHER = ServiceRequest(
    command=("serve",),
    cwd="/own",
    counter="c",
    ready="ready",
    probe=Ready(timeout=1.0),
    log="log",
    secrets={"KEY": "TOKEN"},
    stop_grace=7.0,
    hides=("HIDDEN", "UNSET"),
)
STATE = StateRequest(
    inner_verb="command",
    inner={"lock": LOCK, "cwd": "/own"},
    set_by=(),
    restore=(),
    read_by=(),
    expect="",
    cwd="w",
    journal="j",
    counter="c",
)


def put(tmp_path: Path, request: FileMessage, *launcher: str) -> tuple[Attempt, LaunchRequest]:
    settings = CellSettings({"system.launcher": launcher or ("ssh", "n1")})
    attempt = create(
        tmp_path / "attempts", Intent("2026-1", Address(Kind.MODEL, "net"), "k" * 64, 1, "2026", {}, settings=settings)
    )
    return attempt, put_behind_launcher(attempt, request, RepositoryPaths(tmp_path))


def test_a_launcher_starts_the_child_that_reads_the_request_and_writes_the_answer(tmp_path: Path) -> None:
    attempt, found = put(tmp_path, ProbeRequest(seeds=True, counter="here"), "prefix", "-n", "2")
    variables = sorted(f"{name}={value}" for name, value in build_elsewhere_environment().items())
    *before, python, isolated, module, harness, verb, request, answer = found.command
    assert before == ["prefix", "-n", "2", "env", *variables]
    assert Path(python).name.startswith("python")
    assert [isolated, module, harness, verb] == ["-P", "-m", "harness", "probe"]
    assert (request, answer) == (str(attempt.request), str(attempt.answer))
    there = str(attempt.counter.with_name("counter-there"))
    assert (found.answer, found.counter, found.counter_there) == (str(attempt.answer), str(attempt.counter), there)
    assert (found.cwd, found.ending, found.secrets, found.stop_grace) == (str(tmp_path), (), {}, 0.0)
    assert ProbeRequest.read(attempt.request) == ProbeRequest(seeds=True, counter=there)


def test_a_container_is_shown_the_repository_its_scratch_and_what_the_request_names(tmp_path: Path) -> None:
    """And no more: what of it lies within another is seen there."""
    root, own, scratch = (tmp_path / name for name in ("repository", "own", "scratch"))
    for folder in (root, own, scratch):
        folder.mkdir()
    RepositoryPaths(root).work.symlink_to(scratch)
    _, found = put(
        root, dataclasses.replace(COMMAND_LAUNCHER, cwd=str(own)), "docker", "run", f"image@sha256:{'a' * 64}"
    )
    shown = [after for word, after in pairwise(found.command) if word == "--volume"]
    assert sorted(shown) == sorted(f"{path.resolve()}:{path.resolve()}" for path in (root, own, scratch))


def test_a_server_is_given_time_to_end_and_reported_what_it_hides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A little more than it may take: its end is reported here. What is not set cannot be hidden."""
    monkeypatch.setenv("HIDDEN", "x")
    monkeypatch.delenv("UNSET", raising=False)
    _, found = put(tmp_path, SERVICE_LAUNCHER)
    assert found.secrets == {"KEY": "TOKEN", "HIDDEN": "HIDDEN"}
    assert found.stop_grace == 12.0


@pytest.mark.parametrize("lock", ["", LOCK], ids=["none", "lock"])
def test_a_lock_of_this_machine_is_one_that_each_node_sees(tmp_path: Path, lock: str) -> None:
    shared = str(RepositoryPaths(tmp_path).work / "locks/quiet-1") if lock else ""
    attempt, found = put(tmp_path, dataclasses.replace(COMMAND_LAUNCHER, lock=lock))
    assert CommandRequest.read(attempt.request).lock == shared
    assert (found.secrets, found.stop_grace) == ({"api_key": "TOKEN"}, 0.0)


@pytest.mark.parametrize("lock", ["", LOCK], ids=["none", "lock"])
def test_a_lock_of_a_run_in_a_power_state_is_one_that_each_node_sees(tmp_path: Path, lock: str) -> None:
    shared = str(RepositoryPaths(tmp_path).work / "locks/quiet-1") if lock else ""
    attempt, _ = put(tmp_path, dataclasses.replace(STATE, inner={**STATE.inner, "lock": lock}))
    assert StateRequest.read(attempt.request).inner == {"lock": shared, "cwd": "/own"}


IMAGE = f"image@sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        ({"system.launcher": ["ssh", "n1"]}, True),
        ({"system.launcher": ["ssh", "n1"], "harness.service.command": ["serve"]}, False),
        ({"system.launcher": ["docker", "run", IMAGE]}, False),
        ({"system.launcher": ["srun", "-N", "2"]}, False),
    ],
    ids=["a box", "with a server", "a container", "a cluster"],
)
def test_only_a_box_that_is_reached_by_its_name_works_alongside_this_machine(
    settings: dict[str, object], own: bool, tmp_path: Path
) -> None:
    """Behind any launcher one timed run is made at a time, which may wait for as long as a cluster is busy."""
    executor = LauncherExecutor(RepositoryPaths(tmp_path))
    found = executor.capacity(CellSettings(settings))
    assert found == Capacity(found.lock, 6 * 3600.0, found.lock if own else "here", 1, lasts=False)
    assert found.lock.startswith("quiet-")
    assert executor.capacity(CellSettings({"system.launcher": ["ssh", "n2"]})).lock != found.lock
