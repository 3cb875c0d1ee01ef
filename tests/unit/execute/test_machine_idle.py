"""A timed run has the machine to itself: what a pass does when it has not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.contract import Busy, ProbeRequest
from reconciler.errors import ReconcilerError
from reconciler.execute import plan_executor
from reconciler.execute.executors.table import Executors
from reconciler.execute.outcome import Status
from reconciler.execute.plan_executor import find_busy
from reconciler.resource.queues import QUEUES
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths
from tests.passes.repository import make_repository


def test_runs_wait_for_those_that_use_the_same_machine(tmp_path: Path) -> None:
    executors = Executors.make(RepositoryPaths(tmp_path))

    def lock_name(values: dict[str, Any]) -> str:
        settings = CellSettings(values)
        return executors.choose_for_system(settings).get_capacity(settings).lock

    here, there = lock_name({}), lock_name({"system.launcher": ["ssh", "n1"]})
    assert here == lock_name({"hardware.count": 8})
    assert there == lock_name({"system.launcher": ("ssh", "n1")})
    assert len({here, there, lock_name({"system.launcher": ["ssh", "n2"]})}) == 3


BUSY = Busy(what="GPU 0 is used by", pid=41, user="ann", command="python train.py")


def busy(settings: Any, *_: Any, look: float) -> Busy:
    return BUSY


@pytest.mark.parametrize("allowed", [False, True])
def test_timed_run_is_blocked_unless_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    pytest.importorskip("mlperf_loadgen")
    monkeypatch.setattr(plan_executor, "find_busy", busy)
    monkeypatch.setattr(plan_executor, "REHEARSAL", "nothing is one")
    monkeypatch.setenv("RECONCILE_LOCKS", str(tmp_path / "locks"))
    repository = make_repository(tmp_path)
    report = repository.reconcile(busy=allowed, wait_idle=0.0)
    outcome = next(o for o in report.outcomes if o.step.change.address.name.endswith("/performance"))
    if allowed:
        assert outcome.status is Status.DONE
        assert outcome.record is not None
        assert outcome.record.facts["machine.shared_with"].value == str(BUSY)
        return
    assert outcome.status is Status.BLOCKED
    assert outcome.message == "the machine is not idle: GPU 0 is used by process 41 (ann, python train.py)"
    assert "--busy" in outcome.fix
    assert repository.leftovers() == []


NODES: Any = (
    {"machine": {"machine.host": "n1"}, "busy": {"what": "GPU 0 is used by", "pid": 7, "user": "ann", "command": "x"}},
)


@pytest.mark.parametrize(
    ("settings", "request_"),
    [
        ({}, ProbeRequest(quiet=2.0, gpus=0)),
        ({"hardware.count": 8, "hardware.accelerator": "H100"}, ProbeRequest(quiet=2.0, gpus=8)),
        (
            {"hardware.count": 1, "hardware.accelerator": "H100", "hardware.mig": "2x 1g.10gb"},
            ProbeRequest(quiet=2.0, gpus=2, slices=("1g.10gb", "1g.10gb")),
        ),
        ({"system.launcher": ["ssh", "n1"]}, ProbeRequest(quiet=2.0, gpus=0)),
    ],
    ids=["no GPU", "GPUs", "slices", "elsewhere"],
)
def test_a_machine_is_asked_for_what_the_run_takes_of_it(
    settings: dict[str, Any], request_: ProbeRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def probe(*words: Any) -> Any:
        asked.append(words)
        return NODES

    monkeypatch.setattr(plan_executor, "probe_nodes", probe)
    paths, named = RepositoryPaths(tmp_path), CellSettings(settings)
    found = find_busy(named, paths)
    assert asked == [(request_, named.launcher, paths.work, (tmp_path.resolve(),))]
    assert found is not None
    assert (found.pid, bool(found.host)) == (7, "system.launcher" in settings)
    find_busy(named, paths, look=0.5)
    assert asked[1][0].quiet == 0.5


@pytest.mark.parametrize("queue", QUEUES)
def test_no_one_asks_a_machine_that_a_queue_gives_out(
    queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_executor, "probe_nodes", lambda *_: NODES)
    assert find_busy(CellSettings({f"executor.{queue}": True}), RepositoryPaths(tmp_path)) is None


def test_only_nodes_elsewhere_must_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def probe(*_: Any) -> Any:
        raise ReconcilerError("no route")

    monkeypatch.setattr(plan_executor, "probe_nodes", probe)
    assert find_busy(CellSettings({}), RepositoryPaths(tmp_path)) is None
    with pytest.raises(ReconcilerError, match="no route"):
        find_busy(CellSettings({"system.launcher": ["ssh", "n1"]}), RepositoryPaths(tmp_path))
