"""Where requests run: what every executor owes a pass, shown by one whose runs outlive the pass, as a cluster's do."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.contract import ProbeRequest, Result
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.child import Watch, follow_submission, run_child
from reconciler.execute.executors import local
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
from reconciler.reconcile.worker import find_under_way, harvest
from reconciler.resource.kinds import Address, Kind
from reconciler.storage.files import RepositoryPaths

KEY = f"{1:064}"
# Waits for a word, then leaves a result, as a run in a queue would.
_PROGRAM = """
import json, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
while not (folder / "go").exists():
    time.sleep(0.02)
sys.path[:0] = [sys.argv[2]]
from harness.contract import Result
Result(done=True, seconds=1.0).write(folder / "result.json")
"""


@dataclass(slots=True)
class Queue:
    """A cluster's queue in small: what is submitted goes on without the process that submitted it."""

    name: str = "queue"

    def get_capacity(self, settings: Mapping[str, Any]) -> Capacity:
        return Capacity("queue", 60.0)

    def submit(self, submission: Submission) -> Handle:
        folder = submission.attempt.folder
        handle = Handle(self.name, folder, f"n-{submission.attempt.intent.id}")
        write_handle(handle)
        program = [sys.executable, "-c", _PROGRAM, str(folder), str(Path(local.__file__).parents[3])]
        subprocess.run(f"{shlex.join(program)} & echo $! > pid", shell=True, cwd=folder, check=True)
        return handle

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        time.sleep(min(wait, 0.02))
        try:
            running = psutil.Process(int((handle.folder / "pid").read_text())).status() != psutil.STATUS_ZOMBIE
        except (OSError, psutil.Error):
            running = False
        return Progressing(State.RUNNING) if running else Progressing(State.ENDED, 0)

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        pid = int((handle.folder / "pid").read_text())
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)
        while self.poll(handle, 0.02).goes_on:  # as the protocol says: anyone who cancels waits for the end
            pass

    def harvest(self, handle: Handle) -> None:
        pass


def begin(folder: Path) -> Attempt:
    intent = Intent(id="2026-1", address=Address(Kind.MODEL, "net"), key=KEY, revision=1, started="2026", inputs={})
    return create(folder, intent)


def of_a_pass(root: Path) -> Executors:
    """As each pass makes them: it knows nothing of what an earlier one started."""
    return Executors({**Executors.make(RepositoryPaths(root)).by_name, "queue": Queue()})


def test_what_outlives_a_pass_is_found_and_followed_by_the_next(tmp_path: Path) -> None:
    attempt = begin(tmp_path)
    of_a_pass(tmp_path).by_name["queue"].submit(Submission(attempt, ProbeRequest(), attempt.result))
    later = of_a_pass(tmp_path)
    found = find_under_way(tmp_path, later)
    assert found == {KEY: attempt}
    assert list(harvest(tmp_path, lambda _: None, {attempt.folder})) == []
    handle = read_handle(attempt.folder)
    assert handle is not None
    (attempt.folder / "go").touch()
    assert follow_submission(later.by_name["queue"], handle, attempt, Watch(lambda _: None)).done
    assert [finished.record.key for finished in harvest(tmp_path, lambda _: None)] == [KEY]
    assert find_under_way(tmp_path, later) == {}


def test_what_outlives_a_pass_is_ended_when_it_is_given_up(tmp_path: Path) -> None:
    attempt = begin(tmp_path)
    of_a_pass(tmp_path).by_name["queue"].submit(Submission(attempt, ProbeRequest(), attempt.result))
    later = of_a_pass(tmp_path)
    later.end(attempt.folder)
    assert not later.by_name["queue"].poll(Handle("queue", attempt.folder, "")).goes_on
    assert not attempt.result.exists()


def test_child_of_another_pass_is_lost(tmp_path: Path) -> None:
    attempt = begin(tmp_path)
    write_handle(Handle("local", attempt.folder, "reconcile-2026-1"))
    assert find_under_way(tmp_path, of_a_pass(tmp_path)) == {}
    assert list(harvest(tmp_path, lambda _: None)) == []
    assert not attempt.folder.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "{}", '{"executor": "slurm"}', '{"executor": "of a later version", "name": "x"}']
)
def test_handle_that_no_one_here_understands_holds_nothing_up(tmp_path: Path, text: str) -> None:
    attempt = begin(tmp_path)
    (attempt.folder / "handle.json").write_text(text)
    assert find_under_way(tmp_path, of_a_pass(tmp_path)) == {}


def test_handle_is_there_before_the_child_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; from pathlib import Path; sys.exit(0 if Path('handle.json').exists() else 3)"
    monkeypatch.setattr(local, "build_harness_command", lambda *_: [sys.executable, "-c", code])
    attempt = begin(tmp_path)
    result: Result = run_child(attempt, ProbeRequest(), Watch(lambda _: None), of_a_pass(tmp_path))
    assert "status 0" in result.problem
