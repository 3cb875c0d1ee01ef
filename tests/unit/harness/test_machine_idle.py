"""A timed run has the machine to itself: who else uses it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from harness.verbs import probe
from harness.verbs.probe import find_busy, find_foreign, find_load
from tests.processes import wait_for


def test_own_processes_on_a_gpu_are_no_others() -> None:
    assert find_foreign([(0, 5), (1, 5)], frozenset({5})) is None
    found = find_foreign([(0, 5), (1, os.getpid())], frozenset({5}))
    assert found is not None
    assert (found.what, found.pid) == ("GPU 1 is used by", os.getpid())
    assert found.user
    assert found.command == psutil.Process().name()  # and none of its arguments: they may hold a secret


def test_load_of_others_counts_and_ours_does_not() -> None:
    me = os.getpid()
    assert find_load({me: 1.0}, {me: 3.0}, frozenset({me}), share=1.0, offered=2.0) is None
    found = find_load({me: 1.0}, {me: 3.0}, frozenset(), share=1.0, offered=2.0)
    assert found is not None
    assert (found.pid, found.what) == (me, "others use 100% of the cores, most of it")


def test_load_of_other_containers_has_no_process() -> None:
    found = find_load({}, {}, frozenset(), share=0.9, offered=4.0)
    assert found is not None
    assert "outside this container or virtual machine" in str(found)


def test_what_the_pass_started_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as service:
        monkeypatch.setenv("RECONCILE_PARENT", str(os.getpid()))
        for pid in (service.pid, os.getpid(), os.getppid()):
            assert gpu_used_by(pid, monkeypatch) is None
        monkeypatch.delenv("RECONCILE_PARENT")
        assert gpu_used_by(service.pid, monkeypatch) == service.pid
        service.kill()


def test_what_the_pass_started_behind_a_launcher_is_ours_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server, say: no relative of what looks here for others."""
    line = f"'{sys.executable}' -c 'import time; time.sleep(60)' > /dev/null 2>&1 & echo $!"
    environment = {**os.environ, "RECONCILE_PASS": "login-41"}
    said = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=True).stdout
    server = int(said)
    try:
        wait_for(lambda: b"RECONCILE_PASS" in Path(f"/proc/{server}/environ").read_bytes(), 10)
        for name, ours in (("login-41", True), ("login-42", False)):
            monkeypatch.setenv("RECONCILE_PASS", name)
            assert gpu_used_by(server, monkeypatch) == (None if ours else server)
    finally:
        os.kill(server, signal.SIGKILL)


def gpu_used_by(pid: int, monkeypatch: pytest.MonkeyPatch) -> int | None:
    """Who keeps a run from the machine where this process computes on its GPU."""
    monkeypatch.setattr(probe, "list_computing_on", lambda _: [(0, pid)])
    monkeypatch.setattr(probe, "SHARE", 2.0)  # whatever the processors do
    found = find_busy(1, 0.0)
    return found.pid if found else None


class ProcessorTimes(NamedTuple):
    user: float
    idle: float


def use_processors(monkeypatch: pytest.MonkeyPatch, *shares: float) -> list[float]:
    """Load this share of the usable cores in each wait, and all of the others. Returns the waits, in seconds."""
    used, waits = [0.0], list[float]()

    def wait(seconds: float) -> None:
        used.append(used[-1] + shares[len(waits)] * seconds)
        waits.append(seconds)

    monkeypatch.setattr(probe.time, "sleep", wait)
    monkeypatch.setattr(probe, "list_usable", lambda: {1, 3})

    def times(percpu: bool) -> list[ProcessorTimes]:
        """Of cores that a run may not use, computing all the time, too."""
        assert percpu
        return [ProcessorTimes(used[-1] if core in {1, 3} else sum(waits), 0.0) for core in range(4)]

    monkeypatch.setattr(psutil, "cpu_times", times)
    return waits


@pytest.mark.parametrize(("shares", "waited"), [([0.2], [probe.GLANCE]), ([0.9, 0.4], [probe.GLANCE, 2.0])])
def test_quiet_machine_costs_one_glance_and_short_load_is_let_through(
    shares: list[float], waited: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = use_processors(monkeypatch, *shares)
    assert find_busy(0, 2.0) is None
    assert waits == waited


def test_real_load_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that no one here owns: its shell has ended, so it is no child of ours."""
    monkeypatch.setattr(probe, "SHARE", 0.2 / (os.cpu_count() or 1))
    line = f"'{sys.executable}' -c 'while True: pass' > /dev/null 2>&1 & echo $!"
    pid = int(subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout)
    try:
        found = find_busy(0, 0.5)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert found is not None
    assert "of the cores" in found.what
