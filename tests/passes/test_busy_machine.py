"""Passes of two repositories on one machine, and processes of others: a timed run waits for them, and says for whom."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.contract import Busy
from reconciler.execute import plan_executor
from reconciler.execute.outcome import Event, Message, Status
from reconciler.reconcile.planning import Options
from reconciler.reconcile.run import PassReport, run_pass
from reconciler.storage.machine_locks import make_machine_lock
from tests.passes.repository import Repository, make_repository
from tests.shared import need

need("mlperf_loadgen")

LOOP = "while True: pass"


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own: anyone else who runs here times nothing on it."""
    monkeypatch.setenv("RECONCILE_LOCKS", str(tmp_path / "locks"))
    return tmp_path / "locks"


@pytest.fixture
def loop() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", LOOP])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Runs of a rehearsal never wait for others; these do."""
    monkeypatch.setattr(plan_executor, "REHEARSAL", "nothing is one")
    return monkeypatch


def reconcile(repository: Repository, said: list[str], received: Any = None, **options: Any) -> PassReport:
    def report(event: Event) -> None:
        if isinstance(event, Message):
            said.append(event.text)
            if received is not None and "waiting for " in event.text:
                received()

    return run_pass(repository.paths, Options(**options), report=report)


def watch(process: subprocess.Popen[bytes]) -> Any:
    """As a look at the machine, in which this process alone counts: others may load it, too."""

    def find_busy(*_: Any, look: float) -> Busy | None:
        return (
            Busy(what="others use 100% of all cores, most of it", pid=process.pid) if process.poll() is None else None
        )

    return find_busy


def test_a_run_waits_for_processes(tmp_path: Path, loop: subprocess.Popen[bytes], strict: pytest.MonkeyPatch) -> None:
    strict.setattr(plan_executor, "find_busy", watch(loop))
    said: list[str] = []
    report = reconcile(make_repository(tmp_path / "a"), said, loop.kill)
    assert {outcome.status for outcome in report.outcomes} == {Status.DONE}
    (waiting,) = [text for text in said if text.startswith("waiting for ")]
    assert f"process {loop.pid}" in waiting
    assert "--wait-idle" in waiting
    assert 0 < report.waited_seconds <= report.seconds


def test_a_run_that_waited_for_long_enough_is_left_for_a_later_pass(
    tmp_path: Path, loop: subprocess.Popen[bytes], strict: pytest.MonkeyPatch
) -> None:
    strict.setattr(plan_executor, "find_busy", watch(loop))
    repository = make_repository(tmp_path / "a")
    said: list[str] = []
    report = reconcile(repository, said, wait_idle=0.2)
    blocked = [outcome for outcome in report.outcomes if outcome.status is Status.BLOCKED]
    assert blocked
    assert all(f"process {loop.pid}" in outcome.message for outcome in blocked)
    assert not report.after.plan.in_sync
    assert repository.leftovers() == []
    loop.kill()
    assert reconcile(repository, said).after.plan.in_sync


@pytest.mark.parametrize("busy", [False, True])
def test_no_option_is_advised_against_another_pass(tmp_path: Path, busy: bool) -> None:
    """A run that shares its machine with the load of others still shares it with no other timed run."""
    repository = make_repository(tmp_path / "a")
    said: list[str] = []
    with make_machine_lock("quiet").acquire(note="another repository"):
        report = reconcile(repository, said, busy=busy, wait_idle=0.2)
    blocked = [outcome for outcome in report.outcomes if outcome.status is Status.BLOCKED]
    assert any("another repository" in outcome.message for outcome in blocked)
    assert [outcome.fix for outcome in blocked if "--busy" in outcome.fix] == []


def test_the_pass_of_another_repository_is_named_with_its_cell(tmp_path: Path) -> None:
    """While one has the machine the other waits, and knows for which repository, whose, which step and since when."""
    first, second = make_repository(tmp_path / "first"), make_repository(tmp_path / "second")
    timing, go_on = threading.Event(), threading.Event()
    ended: list[PassReport] = []

    def hold(repository: Repository) -> None:
        def check(step: Any, under_way: bool) -> None:
            if not under_way and step.change.address.mode == "performance":
                timing.set()
                go_on.wait()

        ended.append(run_pass(repository.paths, Options(), report=lambda _: None, check=check))

    thread = threading.Thread(target=hold, args=(first,))
    thread.start()
    try:
        assert timing.wait(60)
        said: list[str] = []
        report = reconcile(second, said, go_on.set)
    finally:
        go_on.set()
        thread.join()
    waiting = next(text for text in said if text.startswith("waiting for "))
    assert f"process {os.getpid()}" in waiting
    for part in (str(first.root.resolve()), "open/box/tiny/Offline Run performance", "since "):
        assert part in waiting
    assert report.after.plan.in_sync
    assert ended[0].after.plan.in_sync
    assert report.waited_seconds > 0
