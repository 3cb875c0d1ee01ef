"""Passes over a real Ray of three local nodes: what runs where, and what is left when something is killed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.execute.outcome import Event, Status
from reconciler.reconcile.planning import Options
from reconciler.reconcile.run import run_pass
from reconciler.resource.records import Ended
from tests.cluster import ray_nodes
from tests.cluster.lab import (
    assert_an_interrupted_pass_ends_its_jobs,
    assert_detached_jobs_go_on_and_are_recorded,
    assert_every_cell_is_valid,
    assert_jobs_of_a_killed_pass_are_found,
    assert_nothing_is_lost_or_repeated,
    is_timed_run,
    make_lab,
    runs_of,
    said,
)

pytest.importorskip("mlperf_loadgen")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(ray_nodes.find_missing()), reason=ray_nodes.find_missing() or "Ray is here"),
]
ODD, EVEN, ANY = (
    f"{{ray: {{resources: {{machine: 1}}{more}}}}}" for more in (", labels: {kind: h200}", ", labels: {kind: b200}", "")
)


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with ray_nodes.started(tmp_path_factory.mktemp("ray")) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_API_SERVER_ADDRESS", ray_nodes.find_address(folder))
        yield folder


@pytest.fixture
def healthy(ray: Path) -> Iterator[Path]:
    """Whatever a test kills is there again for the next."""
    yield ray
    for node in ("n1", "n2", "n3"):
        ray_nodes.revive(ray, node)


def running(ray: Path) -> list[str]:
    return [job["submission_id"] for job in ray_nodes.list_jobs(ray) if job["status"] == "RUNNING"]


def find_node(ray: Path, job: str) -> str:
    """On which node it is, or was."""
    found = next(each for each in ray_nodes.list_jobs(ray) if each["submission_id"] == job)
    return ray_nodes.list_nodes(ray).get(found["driver_node_id"], "gone")


def test_systems_are_measured_on_their_nodes_and_a_second_pass_does_nothing(tmp_path: Path, ray: Path) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD, "even": EVEN, "any": ANY}, seconds=0.4, cells=4)
    report = repository.reconcile()
    assert report.after.plan.in_sync, said(report)
    assert_every_cell_is_valid(repository, 12)
    jobs = {str(record.address): record.facts["machine.job"].value for record in runs_of(repository)}
    placed = {address: find_node(ray, job.removeprefix("ray ")) for address, job in jobs.items()}
    assert {node for address, node in placed.items() if "/odd/" in address} <= {"n1", "n3"}
    assert {node for address, node in placed.items() if "/even/" in address} == {"n2"}
    assert repository.reconcile().outcomes == ()


def test_jobs_of_a_killed_pass_are_found_and_none_is_repeated(tmp_path: Path, ray: Path) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD, "any": ANY}, seconds=4)
    assert_jobs_of_a_killed_pass_are_found(repository, lambda: running(ray), lambda: len(ray_nodes.list_jobs(ray)))


def test_lost_node_costs_one_attempt_and_the_pass_ends_green(tmp_path: Path, healthy: Path) -> None:
    """The only node of one system: what it ran waits until it is back, and the other systems go on."""
    repository = make_lab(tmp_path / "lab", {"odd": ODD, "even": EVEN, "any": ANY}, seconds=10)
    killed: list[str] = []
    reviving: list[threading.Timer] = []

    def kill_one(event: Event) -> None:
        if not killed and is_timed_run(event, "/even/tiny/SingleStream"):
            killed.extend(job for job in running(healthy) if find_node(healthy, job) == "n2")
            ray_nodes.kill(healthy, "n2")
            reviving.append(threading.Timer(3.0, lambda: ray_nodes.revive(healthy, "n2")))
            reviving[0].start()

    report = run_pass(repository.paths, Options(), report=kill_one)
    reviving[0].join()
    assert report.after.plan.in_sync, said(report)
    failed = [record for record in runs_of(repository) if record.ended is Ended.FAILED]
    assert [record.facts["machine.job"].value for record in failed] == [f"ray {job}" for job in killed]
    assert {record.problem_class for record in failed} == {"node-failure"}
    assert_nothing_is_lost_or_repeated(repository)
    assert repository.reconcile().outcomes == ()


def test_run_that_is_stopped_in_the_queue_has_failed_and_says_so(tmp_path: Path, ray: Path) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD}, seconds=20)
    stopped: list[str] = []

    def stop(event: Event) -> None:
        if is_timed_run(event, "Offline") and not stopped:
            stopped.extend(running(ray))
            for job in stopped:
                ray_nodes.stop_job(ray, job)

    report = run_pass(repository.paths, Options(select=("scenario=Offline",)), report=stop)
    failed = [outcome for outcome in report.outcomes if outcome.status is Status.FAILED]
    assert failed
    assert all("was stopped" in outcome.message for outcome in failed)


def test_interrupted_pass_stops_its_jobs_and_none_of_them_begins_later(tmp_path: Path, ray: Path) -> None:
    repository = make_lab(tmp_path / "lab", {"even": EVEN}, seconds=20)
    going = ("RUNNING", "PENDING")
    assert_an_interrupted_pass_ends_its_jobs(
        repository,
        lambda: bool(running(ray)),
        lambda: not any(job["status"] in going for job in ray_nodes.list_jobs(ray)),
    )


def test_detached_jobs_go_on_and_attach_records_them(tmp_path: Path, ray: Path) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD}, seconds=2)
    assert_detached_jobs_go_on_and_are_recorded(repository)
