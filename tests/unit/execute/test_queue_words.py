"""What each state of a queue's job means for its attempt, and in which words it is told."""

from __future__ import annotations

import pytest

from reconciler.execute.executors.executor import State
from reconciler.execute.executors.ray_queue import RayJob
from reconciler.execute.executors.slurm_queue import SlurmJob
from reconciler.execute.perform import INTERRUPTED

AGAIN = ("preempted", "node-failure")


@pytest.mark.parametrize(
    ("state", "kind", "said", "fix"),
    [
        ("PREEMPTED", "preempted", "was preempted", "executor.slurm.retries"),
        ("NODE_FAIL", "node-failure", "lost its node", "scontrol show node"),
        ("BOOT_FAIL", "node-failure", "got a node that did not boot", "scontrol show node"),
        ("TIMEOUT", "time-limit", "reached its time limit", "executor.slurm.time"),
        ("DEADLINE", "time-limit", "reached its deadline", "executor.slurm.options"),
        ("CANCELLED", "cancelled", "was cancelled in the queue", "pass again"),
        ("REVOKED", "cancelled", "was revoked by its cluster", "pass again"),
        ("OUT_OF_MEMORY", "resources", "ran out of memory", "options: {mem: 64G}"),
    ],
)
def test_a_job_that_slurm_ended_is_told_by_its_state(state: str, kind: str, said: str, fix: str) -> None:
    found = SlurmJob("14", state, "None", "n3").describe()
    assert found.state is State.ENDED
    assert found.why is not None
    assert (found.why.problem_class, found.why.problem) == (kind, f"job 14 of Slurm on n3 {said}")
    assert fix in found.why.fix
    assert (kind in INTERRUPTED) == (kind in AGAIN)
    nowhere = SlurmJob("14", state, "None", "").explain()
    assert nowhere is not None
    assert nowhere.problem == f"job 14 of Slurm {said}"


@pytest.mark.parametrize(
    ("state", "taken", "for_another", "kind"),
    [
        ("TIMEOUT", True, False, "lost"),
        ("DEADLINE", True, False, "lost"),
        ("CANCELLED", True, False, "cancelled"),
        ("CANCELLED", False, True, "lost"),
        ("REVOKED", False, True, "lost"),
        ("TIMEOUT", False, True, "time-limit"),
        ("NODE_FAIL", True, True, "node-failure"),
    ],
)
def test_a_step_is_not_blamed_for_what_ended_the_job_that_took_it_over(
    state: str, taken: bool, for_another: bool, kind: str
) -> None:
    found = SlurmJob("14", state, "None", "n3", taken=taken, for_another=for_another).explain()
    assert found is not None
    assert found.problem_class == kind
    assert ("a step that it had taken over" in found.problem) == (kind == "lost")


@pytest.mark.parametrize(
    ("states", "told", "note"),
    [
        (
            ["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"],
            State.QUEUED,
            "job 14 (Resources)",
        ),
        (
            ["RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING"],
            State.RUNNING,
            "job 14 on n3",
        ),
        (["COMPLETED", "FAILED"], State.ENDED, ""),
    ],
    ids=["queued", "running", "ended"],
)
def test_each_state_of_slurm_is_that_of_an_attempt(states: list[str], told: State, note: str) -> None:
    for state in states:
        job = SlurmJob("14", state, "Resources", "n3")
        found = job.describe()
        assert (found.state, found.note, found.why, job.goes_on) == (told, note, None, told is not State.ENDED), state
        assert not job.gave_up, state  # Slurm keeps what waits, however long


@pytest.mark.parametrize("reason", ["", "None"])
def test_a_job_that_waits_without_a_reason_names_none(reason: str) -> None:
    assert SlurmJob("14", "PENDING", reason, "").describe().note == "job 14"


@pytest.mark.parametrize(
    ("error", "kind", "said", "fix"),
    [
        (
            "JOB_SUPERVISOR_ACTOR_START_TIMEOUT",
            "requeued",
            "found no place within Ray's limit",
            "RAY_JOB_START_TIMEOUT_SECONDS",
        ),
        ("JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", "input", "fits no node", "ray status"),
        ("JOB_SUPERVISOR_ACTOR_START_FAILURE", "input", "could not be started", "executor.ray of the system"),
        ("JOB_SUPERVISOR_ACTOR_DIED", "node-failure", "lost its node", "ray list nodes"),
        ("JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE", "lost", "was lost by Ray", "pass again"),
    ],
)
def test_a_job_that_ray_ended_is_told_by_its_error(error: str, kind: str, said: str, fix: str) -> None:
    found = RayJob("r7", "FAILED", error, "so\n it is", nodes=("a", "b")).describe()
    assert found.state is State.ENDED
    assert found.why is not None
    assert (found.why.problem_class, found.why.problem) == (kind, f"job r7 of Ray on a, b {said}: so it is")
    assert fix in found.why.fix
    assert RayJob("r7", "SUCCEEDED", error).explain() is None


def test_a_job_of_ray_waits_runs_and_is_given_up_where_it_found_no_place() -> None:
    waits, runs = RayJob("r7", "PENDING").describe(), RayJob("r7", "RUNNING", nodes=("a",)).describe()
    assert (waits.state, waits.note) == (State.QUEUED, "job r7 (waits for a node that is free)")
    assert (runs.state, runs.note) == (State.RUNNING, "job r7 on a")
    late = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
    assert RayJob("r7", "FAILED", late).gave_up
    assert not RayJob("r7", "FAILED", late, placed=True).gave_up
    assert not RayJob("r7", "PENDING", late).gave_up
    assert not RayJob("r7", "FAILED", "JOB_SUPERVISOR_ACTOR_DIED").gave_up
    assert RayJob("r7", "FAILED").explain() is None
