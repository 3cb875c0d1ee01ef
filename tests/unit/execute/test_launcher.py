"""What a request becomes behind the launcher of its system."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path

import pytest

from harness.contract import CommandRequest, FileMessage, LaunchRequest, ProbeRequest, Ready, ServiceRequest
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.executors.executor import Capacity
from reconciler.execute.executors.local import LauncherExecutor, put_behind_launcher
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.process import build_elsewhere_environment

LOCK = "/here/locks/quiet-1"
COMMAND = CommandRequest(
    purpose="run",
    command=("run",),
    cwd="/own",
    run_dir="r",
    output="o",
    counter="c",
    secrets={"api_key": "TOKEN"},
)
SERVICE = ServiceRequest(
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
    _, found = put(root, dataclasses.replace(COMMAND, cwd=str(own)), "docker", "run", f"image@sha256:{'a' * 64}")
    shown = [after for word, after in pairwise(found.command) if word == "--volume"]
    assert sorted(shown) == sorted(f"{path.resolve()}:{path.resolve()}" for path in (root, own, scratch))


def test_a_server_gets_time_to_end_and_what_it_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little more than it may take: its end is reported here. What is not set cannot be hidden."""
    monkeypatch.setenv("HIDDEN", "x")
    monkeypatch.delenv("UNSET", raising=False)
    _, found = put(tmp_path, SERVICE)
    assert found.secrets == {"KEY": "TOKEN", "HIDDEN": "HIDDEN"}
    assert found.stop_grace == 12.0


@pytest.mark.parametrize("lock", ["", LOCK], ids=["none", "lock"])
def test_a_lock_of_this_machine_is_one_that_each_node_sees(tmp_path: Path, lock: str) -> None:
    shared = str(RepositoryPaths(tmp_path).work / "locks/quiet-1") if lock else ""
    attempt, found = put(tmp_path, dataclasses.replace(COMMAND, lock=lock))
    assert CommandRequest.read(attempt.request).lock == shared
    assert (found.secrets, found.stop_grace) == ({"api_key": "TOKEN"}, 0.0)


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
def test_only_a_named_box_works_alongside_this_machine(settings: dict[str, object], own: bool, tmp_path: Path) -> None:
    """Behind any launcher one timed run is made at a time, which may wait for as long as a cluster is busy."""
    executor = LauncherExecutor(paths=RepositoryPaths(tmp_path))
    found = executor.get_capacity(CellSettings(settings))
    assert found == Capacity(found.lock, 6 * 3600.0, found.lock if own else "here", 1, lasts=False)
    assert found.lock.startswith("quiet-")
    assert executor.get_capacity(CellSettings({"system.launcher": ["ssh", "n2"]})).lock != found.lock
