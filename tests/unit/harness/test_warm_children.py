"""A fork of the warm process does what a child with a command line of its own does."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from harness.contract import FileMessage, ProbeRequest, Ready, Result, ServiceRequest
from reconciler.storage.process import Child, build_child_environment, build_harness_command
from tests.shared import need
from tests.warm.children import Warm

need("mlperf_loadgen")


def start(request: FileMessage, folder: Path, **environment: str) -> AbstractContextManager[Child]:
    folder.mkdir()
    request.write(folder / "request.json")
    return Child(
        build_harness_command(request.verb, folder / "request.json", folder / "result.json"),
        folder=folder,
        log=folder / "log",
        environment=build_child_environment(environment),
    )


def probe(folder: Path) -> Result:
    with start(ProbeRequest(seeds=True), folder) as child:
        assert child.wait(60) == 0, (folder / "log").read_text()
    return Result.read(folder / "result.json")


def test_a_warm_child_sees_and_says_what_a_cold_one_does(warm: Warm, tmp_path: Path) -> None:
    with warm.off():
        cold = probe(tmp_path / "cold")
    found = probe(tmp_path / "warm")
    assert (found.values, found.facts) == (cold.values, cold.facts)
    assert found.values["seeds"]


def serve(folder: Path, **environment: str) -> AbstractContextManager[Child]:
    """A child that writes its server's environment and waits for a request to end."""
    command = ("sh", "-c", "env > environment; echo up; exec sleep 60")
    request = ServiceRequest(
        command=command,
        cwd=str(folder),
        counter=str(folder / "counter"),
        ready=str(folder / "ready.json"),
        probe=Ready(line="up", timeout=30),
        log=str(folder / "printed"),
    )
    return start(request, folder, **environment)


def wait_for(path: Path, child: Child) -> None:
    while not path.exists():
        assert child.wait(0.02) is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_warm_child_has_its_own_environment_and_session_and_ends_by_signals(
    warm: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setenv("OF_THE_TEST", "1")
    folder = tmp_path / "served"
    with serve(folder, MORE="given") as child:
        wait_for(folder / "ready.json", child)
        reported = dict(line.split("=", 1) for line in (folder / "environment").read_text().splitlines())
        assert (reported["MORE"], reported["PYTHONHASHSEED"], "OF_THE_TEST" in reported) == ("given", "0", False)
        assert os.getsid(child.pid) == child.pid != os.getsid(0)
        os.kill(child.pid, number)
        assert child.wait(30) == (-number if number == signal.SIGKILL else 0)
    assert (folder / "result.json").exists() == (number == signal.SIGTERM)


def test_a_warm_child_ends_with_the_process_that_it_was_forked_from(tmp_path: Path) -> None:
    own = Warm()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("reconciler.storage.process.subprocess", own.stand_in())
        folder = tmp_path / "served"
        child = stack.enter_context(serve(folder))
        wait_for(folder / "ready.json", child)
        own.end()
        assert child.wait(30) == -signal.SIGKILL
