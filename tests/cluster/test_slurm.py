"""Passes over a real Slurm of four nodes: what runs where, and what is left when something is killed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.execute.attempt import read_placement
from reconciler.execute.outcome import Event, Status, StepProgress
from reconciler.reconcile.planning import Options
from reconciler.reconcile.run import run_pass
from reconciler.resource.records import Ended
from tests.cluster import Slurm, find_missing
from tests.cluster.lab import (
    assert_an_interrupted_pass_ends_its_jobs,
    assert_detached_jobs_go_on_and_are_recorded,
    assert_every_cell_is_valid,
    assert_jobs_of_a_killed_pass_are_found,
    assert_nothing_is_lost_or_repeated,
    is_timed_run,
    kill_pass,
    make_lab,
    runs_of,
    said,
)
from tests.passes.repository import SPEC, Repository
from tests.processes import wait_for
from tests.shared import need

need("mlperf_loadgen", "submitit")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(find_missing()), reason=find_missing() or "Slurm is here")]

ODD, EVEN, ANY = (
    f"{{slurm: {{partition: lab, time: 10 min{more}}}}}" for more in (", constraint: h200", ", constraint: b200", "")
)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    found = Slurm(tmp_path_factory.mktemp("slurm"))
    found.do("start", "4")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in found.variables.items():
            patch.setenv(name, value)
        yield found
    found.do("stop")


@pytest.fixture
def healthy(slurm: Slurm) -> Iterator[Slurm]:
    """Whatever a test kills is there again for the next."""
    yield slurm
    for name in ("controller", "n1", "n2", "n3", "n4"):
        slurm.do("revive", name)
    wait_for(lambda: "\n".join(sorted(set(idle_nodes(slurm)))) == "n1\nn2\nn3\nn4", 60)


def idle_nodes(slurm: Slurm) -> list[str]:
    return slurm.do("run", "sinfo", "-h", "-N", "-p", "lab", "-t", "idle", "-o", "%N").split()


def running(slurm: Slurm) -> list[str]:
    return [name for name, state, _ in slurm.jobs() if state == "RUNNING"]


def test_systems_are_measured_on_their_nodes_at_the_same_time(tmp_path: Path, slurm: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD, "even": EVEN, "any": ANY}, seconds=0.4, cells=4)
    under_way: set[frozenset[str]] = set()
    now: set[str] = set()

    def note(event: Event) -> None:
        if isinstance(event, StepProgress) and event.progress.stage == "running":
            now.add(str(event.step.change.address))
            under_way.add(frozenset(now))
        elif hasattr(event, "status"):
            now.discard(str(event.step.change.address))

    report = run_pass(repository.paths, Options(), report=note)
    assert report.after.plan.in_sync, said(report)
    assert max(map(len, under_way)) > 1
    placed = {str(r.address): [n["host"] for n in r.facts["machine.nodes"].value] for r in runs_of(repository)}
    assert_every_cell_is_valid(repository, 12)
    assert {node for address, (node,) in placed.items() if "/odd/" in address} <= {"n1", "n3"}
    assert {node for address, (node,) in placed.items() if "/even/" in address} <= {"n2", "n4"}
    jobs = {record.facts["machine.job"].value for record in runs_of(repository)}
    assert all(job.startswith("slurm ") for job in jobs)
    assert any("_" in job for job in jobs), "steps that waited together are tasks of an array"
    assert repository.reconcile().outcomes == ()


def test_one_job_does_several_short_steps_and_records_are_true(tmp_path: Path, slurm: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD, "alone": EVEN.replace("b200", "b200, take_over: 0")}, cells=4)
    # What was made once is expected to take as long again.
    assert repository.reconcile().after.plan.in_sync
    repository.edit(SPEC, "batch_size: 4", "batch_size: 2")
    before = repository.records().keys()
    assert repository.reconcile().after.plan.in_sync
    records = repository.records().items()
    made = [record for name, record in records if name not in before and "machine.job" in record.facts]
    said_by_slurm = slurm.do("run", "squeue", "--noheader", "--array", "--states=all", "--format=slurm %i|%N")
    nodes = dict(line.split("|") for line in said_by_slurm.splitlines())
    assert len(made) == 16
    for record in made:
        assert [node["host"] for node in record.facts["machine.nodes"].value] == [
            nodes[record.facts["machine.job"].value]
        ]
    steps = Counter((record.address.cell.system, record.facts["machine.job"].value) for record in made)
    assert max(count for (system, _), count in steps.items() if system == "odd") > 1
    assert {count for (system, _), count in steps.items() if system == "alone"} == {1}
    assert_nothing_is_lost_or_repeated(repository)
    wait_for(lambda: {state for _, state, _ in slurm.jobs()}.isdisjoint({"PENDING", "RUNNING", "COMPLETING"}))


_SPANNING = """

def postprocess(outputs):
    import os, subprocess
    told = subprocess.run(["srun", "--overlap", "--ntasks-per-node=1", "sh", "-c", "echo $SLURMD_NODENAME"],
                          capture_output=True, text=True, check=True).stdout.split()
    assert sorted(told) == ["n1", "n3"], told
    return outputs[0].argmax(axis=1)
"""


def test_engine_over_several_nodes_has_them_all_and_its_record_names_each(tmp_path: Path, slurm: Slurm) -> None:
    """It starts a part of its own on every node of the job; without a launcher, and within that of the job."""
    pair = ODD.replace("h200", "h200, nodes: 2")
    repository = make_lab(tmp_path / "lab", {"pair": pair, "launched": f"{pair}\n      launcher: [srun]"})
    code = (repository.root / "benchmarks/tiny.py").read_text()
    repository.write("benchmarks/tiny.py", f"{code}{_SPANNING}")
    repository.edit(SPEC, "batch_size: 4", "batch_size: 100")
    report = repository.reconcile(select=("scenario=Offline",))
    failed = [outcome for outcome in report.outcomes if outcome.status is not Status.DONE]
    assert failed == [], said(report)
    assert len(runs_of(repository)) == 4
    for record in runs_of(repository):
        assert [node["host"] for node in record.facts["machine.nodes"].value] == ["n1", "n3"], record.address
    assert max(repository.done().values()) == 1


def test_jobs_of_a_killed_pass_are_found_and_none_is_repeated(tmp_path: Path, slurm: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD, "any": ANY}, seconds=4)
    assert_jobs_of_a_killed_pass_are_found(repository, lambda: running(slurm), lambda: len(slurm.jobs()))


def test_failed_node_costs_one_attempt_and_the_pass_ends_green(tmp_path: Path, healthy: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD}, seconds=3)
    nodes: list[str] = []

    def kill_one(event: Event) -> None:
        if is_timed_run(event, "SingleStream") and not nodes:
            nodes.append(event.progress.text.rpartition(" on ")[2])
            healthy.do("kill", nodes[0])

    report = run_pass(repository.paths, Options(), report=kill_one)
    assert report.after.plan.in_sync, said(report)
    failed = [record for record in runs_of(repository) if record.ended is Ended.FAILED]
    assert {record.problem_class for record in failed} == {"node-failure"}
    assert {record.facts["machine.nodes"].value[0]["host"] for record in failed} == {nodes[0]}
    assert_nothing_is_lost_or_repeated(repository)


def find_taken(repository: Repository) -> list[str]:
    """Nodes on which a job carries out a step that it took over."""
    begun = (path for path in repository.paths.attempts.glob("*/begun") if path.is_file())
    return [read_placement(path).nodes[0] for path in begun if not path.with_name("result.json").exists()]


def test_failed_node_costs_a_step_that_was_taken_over_one_attempt(tmp_path: Path, healthy: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD}, seconds=3, cells=4)
    nodes: list[str] = []

    def kill_one(event: Event) -> None:
        if isinstance(event, StepProgress) and event.progress.stage == "running" and not nodes:
            nodes.extend(find_taken(repository)[:1])
            if nodes:
                healthy.do("kill", nodes[0])

    report = run_pass(repository.paths, Options(busy=True), report=kill_one)
    assert report.after.plan.in_sync, said(report)
    (failed,) = (record for record in runs_of(repository) if record.ended is Ended.FAILED)
    assert failed.problem_class == "node-failure"
    assert [node["host"] for node in failed.facts["machine.nodes"].value] == nodes
    assert_nothing_is_lost_or_repeated(repository)


def test_steps_that_were_taken_over_outlive_a_killed_pass(tmp_path: Path, slurm: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD}, seconds=3, cells=4)
    kill_pass(repository, lambda: find_taken(repository), 120)
    report = repository.reconcile(busy=True)
    assert report.after.plan.in_sync, said(report)
    assert all(record.ended is Ended.DONE for record in runs_of(repository))
    assert_nothing_is_lost_or_repeated(repository)


def test_preempted_run_is_queued_again(tmp_path: Path, healthy: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD.replace("h200", "h200, machines: 1")}, seconds=3)
    asked: list[str] = []

    def preempt(event: Event) -> None:
        if is_timed_run(event, "SingleStream") and not asked:
            asked.append(healthy.do("run", "sbatch", "-p", "urgent", "-N4", "-o", "/dev/null", "--wrap", "sleep 1"))

    report = run_pass(repository.paths, Options(), report=preempt)
    assert report.after.plan.in_sync, said(report)
    assert Counter(r.problem_class for r in runs_of(repository) if r.problem) == {"preempted": 1}


def test_run_that_the_queue_cancels_has_failed_and_says_so(tmp_path: Path, slurm: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD}, seconds=20)
    cancelled: list[str] = []

    def cancel(event: Event) -> None:
        if is_timed_run(event, "Offline") and not cancelled:
            cancelled.extend(running(slurm))
            slurm.do("run", "scancel", "--me")

    report = run_pass(repository.paths, Options(select=("scenario=Offline",)), report=cancel)
    failed = [outcome for outcome in report.outcomes if outcome.status is Status.FAILED]
    assert failed
    assert all("was cancelled in the queue" in outcome.message for outcome in failed)


def test_interrupted_pass_cancels_its_jobs_and_the_next_makes_them(tmp_path: Path, slurm: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD}, seconds=20)
    assert_an_interrupted_pass_ends_its_jobs(
        repository, lambda: bool(running(slurm)), lambda: not running(slurm), seconds=30
    )


def test_detached_jobs_go_on_and_attach_records_them(tmp_path: Path, slurm: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD}, seconds=2)
    assert_detached_jobs_go_on_and_are_recorded(repository)


def test_pass_waits_for_a_controller_that_is_down(tmp_path: Path, healthy: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD, "even": EVEN}, seconds=3)
    killed: list[threading.Timer] = []

    def kill_controller(event: Event) -> None:
        if isinstance(event, StepProgress) and event.progress.stage == "running" and not killed:
            healthy.do("kill", "controller")
            killed.append(threading.Timer(3.0, lambda: healthy.do("revive", "controller")))
            killed[0].start()

    report = run_pass(repository.paths, Options(), report=kill_controller)
    assert report.after.plan.in_sync, said(report)
    assert_nothing_is_lost_or_repeated(repository)


def test_job_is_submitted_once_the_controller_is_back(tmp_path: Path, healthy: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD})
    repository.reconcile(only=("Dataset", "Model"))
    healthy.do("kill", "controller")
    timer = threading.Timer(5.0, lambda: healthy.do("revive", "controller"))
    timer.start()
    report = repository.reconcile()
    timer.join()
    assert report.after.plan.in_sync, said(report)
    assert_nothing_is_lost_or_repeated(repository)


def test_refused_job_fails_its_step_with_the_words_of_slurm(tmp_path: Path, slurm: Slurm) -> None:
    repository = make_lab(tmp_path / "lab", {"odd": ODD.replace("h200", "abacus"), "even": EVEN})
    report = repository.reconcile()
    failed = {str(o.step.change.address): o.message for o in report.outcomes if o.status is Status.FAILED}
    assert failed
    assert all("/odd/" in address and "Invalid feature specification" in text for address, text in failed.items())
    assert sum("/even/" in str(record.address) for record in runs_of(repository)) == 4
