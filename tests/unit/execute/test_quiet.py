"""A timed run has the machine to itself: who else uses it, and what a pass then does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.execute import quiet, walk
from reconciler.execute.outcome import Status
from reconciler.execute.quiet import Busy, find_busy, foreign, gpus_of, loaded
from reconciler.resource.kinds import Kind
from tests.passes.repository import make_repository


def test_gpus_that_a_run_takes() -> None:
    assert gpus_of({}) == 0
    assert gpus_of({"hardware.count": 8}) == 8
    assert gpus_of({"hardware.count": 8, "run.options.devices": 2}) == 2


def test_own_processes_on_a_gpu_are_no_others() -> None:
    assert foreign([(0, 5), (1, 5)], frozenset({5})) is None
    found = foreign([(0, 5), (1, os.getpid())], frozenset({5}))
    assert found is not None
    assert (found.what, found.pid) == ("GPU 1 is used by", os.getpid())
    assert found.user
    assert found.command


def test_process_that_cannot_be_seen_keeps_its_number() -> None:
    found = foreign([(3, 2**22 + 1)], frozenset())
    assert str(found) == f"GPU 3 is used by process {2**22 + 1}"


def test_load_of_others_counts_and_ours_does_not() -> None:
    me = os.getpid()
    assert loaded({me: 1.0}, {me: 3.0}, frozenset({me}), share=1.0, offered=2.0) is None
    found = loaded({me: 1.0}, {me: 3.0}, frozenset(), share=1.0, offered=2.0)
    assert found is not None
    assert (found.pid, found.what) == (me, "others use 100% of all cores, most of it")


def test_load_of_other_containers_has_no_process() -> None:
    found = loaded({}, {}, frozenset(), share=0.9, offered=4.0)
    assert found is not None
    assert "cannot be seen from here" in str(found)


def test_quiet_machine_costs_one_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def share(_: float, seconds: float) -> float:
        asked.append(seconds)
        return 0.2

    monkeypatch.setattr(quiet, "_share", share)
    assert find_busy({}) is None
    assert asked == [quiet.GLANCE]


def test_short_load_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.9, 0.4])
    monkeypatch.setattr(quiet, "_share", lambda *_: next(shares))
    assert find_busy({}) is None


def test_real_load_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of nobody here: its shell has ended, so it is no child of ours."""
    monkeypatch.setattr(quiet, "SHARE", 0.2 / (os.cpu_count() or 1))
    line = f"'{sys.executable}' -c 'while True: pass' > /dev/null 2>&1 & echo $!"
    pid = int(subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout)
    try:
        found = find_busy({}, look=0.5)
    finally:
        os.kill(pid, signal.SIGKILL)
    assert found is not None
    assert "of all cores" in found.what


BUSY = Busy("GPU 0 is used by", 41, "ann", "python train.py")


def busy(settings: Any, *, look: float) -> Busy:
    return BUSY


def test_rehearsal_goes_on_and_records_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlperf_loadgen")
    monkeypatch.setattr(walk, "find_busy", busy)
    repository = make_repository(tmp_path)
    report = repository.reconcile()
    runs = [o for o in report.outcomes if o.step.change.address.kind is Kind.RUN]
    noted = [o.record.facts.get("machine.shared_with") for o in runs if o.record is not None]
    assert [fact.value for fact in noted if fact is not None] == [str(BUSY)]


@pytest.mark.parametrize("allowed", [False, True])
def test_timed_run_is_blocked_unless_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    pytest.importorskip("mlperf_loadgen")
    monkeypatch.setattr(walk, "find_busy", busy)
    monkeypatch.setattr(walk, "REHEARSAL", "nothing is one")
    repository = make_repository(tmp_path)
    report = repository.reconcile(busy=allowed)
    outcome = next(o for o in report.outcomes if o.step.change.address.name.endswith("/performance"))
    if allowed:
        assert outcome.status is Status.DONE
        assert outcome.record is not None
        assert outcome.record.facts["machine.shared_with"].value == str(BUSY)
        return
    assert outcome.status is Status.BLOCKED
    assert outcome.message == "the machine is not quiet: GPU 0 is used by process 41 (ann, python train.py)"
    assert "--busy" in outcome.fix
    assert repository.leftovers() == []
