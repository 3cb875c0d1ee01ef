"""Passes over a real queue whose nodes see nothing of the repository's folder: each has one of its own in its place."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from reconciler.execute.outcome import Event
from reconciler.reconcile.planning import Options
from reconciler.reconcile.run import run_pass
from reconciler.resource.records import Ended
from tests.cluster import Slurm, find_missing, ray_nodes
from tests.cluster.lab import (
    assert_an_interrupted_pass_ends_its_jobs,
    assert_detached_jobs_go_on_and_are_recorded,
    assert_nothing_is_lost_or_repeated,
    is_timed_run,
    kill_pass,
    make_lab,
    runs_of,
    said,
)
from tests.passes.repository import Repository
from tests.processes import wait_for
from tests.shared import need

need("mlperf_loadgen", "submitit", "fsspec")


def find_obstacle() -> str:
    """Why no node can have a folder of its own here; "" where one can."""
    words = ["unshare", "--mount", "true"]
    return "" if os.geteuid() == 0 and subprocess.run(words, check=False).returncode == 0 else "unshare needs root"


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(find_obstacle()), reason=find_obstacle() or "folders can be kept apart"),
]


@dataclass(frozen=True, slots=True)
class Apart:
    """``folder``: below it each node sees nothing of ours."""

    queue: Slurm | Path
    folder: Path

    def make_lab(self, name: str, *, seconds: float = 0.0) -> Repository:
        store = self.folder.with_name("store")
        store.mkdir(exist_ok=True)
        return make_lab(self.folder / name, {"box": self.executor}, seconds=seconds, store=store / name)

    @property
    def executor(self) -> str:
        if isinstance(self.queue, Slurm):
            return "{slurm: {partition: lab, time: 10 min, store: lab}}"
        return "{ray: {resources: {machine: 1}, labels: {kind: b200}, store: lab}}"  # a node that is not the head

    def running(self) -> list[str]:
        if isinstance(self.queue, Slurm):
            return [name for name, state, _ in self.queue.jobs() if state == "RUNNING"]
        return [job["submission_id"] for job in ray_nodes.list_jobs(self.queue) if job["status"] == "RUNNING"]

    def disks(self) -> list[Path]:
        """What each node sees in the place of the folder."""
        own = self.queue.folder if isinstance(self.queue, Slurm) else self.queue
        return sorted(own.glob("disk-*"))

    def kill_node_of(self, job: str) -> Callable[[], object]:
        """Gives what starts it again."""
        queue = self.queue
        if isinstance(queue, Slurm):
            node = next(nodes for name, _, nodes in queue.jobs() if name == job)
            queue.do("kill", node)
            return partial(queue.do, "revive", node)
        found = next(each for each in ray_nodes.list_jobs(queue) if each["submission_id"] == job)
        node = ray_nodes.list_nodes(queue)[found["driver_node_id"]]
        ray_nodes.kill(queue, node)
        return partial(ray_nodes.revive, queue, node)


@pytest.fixture(scope="module", params=["slurm", "ray"])
def apart(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    missing = find_missing() if request.param == "slurm" else ray_nodes.find_missing()
    if missing:
        pytest.skip(missing)
    root = tmp_path_factory.mktemp(request.param)
    folder = root / "apart"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "ray":
            with ray_nodes.started(root / "ray", 2, folder) as ray:
                patch.setenv("RAY_API_SERVER_ADDRESS", ray_nodes.find_address(ray))
                yield Apart(ray, folder)
            return
        slurm = Slurm(root / "slurm")
        slurm.folder.mkdir()
        slurm.do("start", "3", str(folder))
        for name, value in slurm.variables.items():
            patch.setenv(name, value)
        yield Apart(slurm, folder)
        slurm.do("stop")


def test_runs_are_made_where_nothing_of_the_repository_is_seen(apart: Apart) -> None:
    repository = apart.make_lab("lab")
    report = repository.reconcile()
    assert report.after.plan.in_sync, said(report)
    assert all(record.facts["machine.nodes"].value for record in runs_of(repository))
    assert len(runs_of(repository)) == 4
    assert_nothing_is_lost_or_repeated(repository)
    assert repository.reconcile().outcomes == ()
    left = [path for disk in apart.disks() for path in disk.rglob("*") if path.is_file()]
    assert left, "the nodes worked on disks of their own"
    assert not [path for path in left if "attempts" in path.parts or path.name == "spec.yaml"]
    notes = list((apart.folder.with_name("store") / "lab").glob("attempts/*/*"))
    assert notes == [], "what was recorded is not waited for"


def test_what_jobs_left_while_no_one_followed_them_is_taken_by_the_next_pass(apart: Apart) -> None:
    repository = apart.make_lab("killed", seconds=4)
    kill_pass(repository, apart.running, 180)
    wait_for(lambda: not apart.running(), 120)
    report = repository.reconcile()
    assert report.after.plan.in_sync, said(report)
    assert report.harvested
    assert_nothing_is_lost_or_repeated(repository)
    assert len(runs_of(repository)) == 4


def test_detached_jobs_go_on_and_attach_records_them(apart: Apart) -> None:
    assert_detached_jobs_go_on_and_are_recorded(apart.make_lab("detached", seconds=2))


def test_interrupted_pass_ends_its_jobs_and_leaves_nothing_in_the_store(apart: Apart) -> None:
    assert_an_interrupted_pass_ends_its_jobs(
        apart.make_lab("interrupted", seconds=20), lambda: bool(apart.running()), lambda: not apart.running()
    )
    assert list((apart.folder.with_name("store") / "interrupted").glob("attempts/*/*")) == []


def test_damaged_results_are_refused_and_made_again(apart: Apart) -> None:
    repository = apart.make_lab("damaged", seconds=1)
    store = apart.folder.with_name("store") / "damaged"
    kill_pass(repository, apart.running, 180)
    wait_for(lambda: not apart.running(), 120)
    (result,) = list(store.glob("attempts/*/result"))[:1]
    document = json.loads(result.read_bytes())
    document["files"][0]["sha256"] = "0" * 64
    result.write_text(json.dumps(document))
    report = repository.reconcile()
    assert report.after.plan.in_sync, said(report)
    failed = [record for record in repository.records().values() if record.ended is Ended.FAILED]
    assert [record.problem_class for record in failed] == ["lost"]
    assert "digest" in failed[0].problem


def test_lost_node_costs_one_attempt_that_names_it(apart: Apart) -> None:
    repository = apart.make_lab("node", seconds=8)
    reviving: list[threading.Timer] = []

    def kill_one(event: Event) -> None:
        if is_timed_run(event, "SingleStream") and not reviving:
            reviving.append(threading.Timer(3.0, apart.kill_node_of(apart.running()[0])))
            reviving[0].start()

    report = run_pass(repository.paths, Options(), report=kill_one)
    reviving[0].join()
    assert report.after.plan.in_sync, said(report)
    failed = [record for record in runs_of(repository) if record.ended is Ended.FAILED]
    assert {record.problem_class for record in failed} == {"node-failure"}
    assert all(record.facts["machine.nodes"].value for record in failed)
    assert_nothing_is_lost_or_repeated(repository)
