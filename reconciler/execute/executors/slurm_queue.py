"""Slurm: its jobs are submitted by submitit, which writes the batch script. One question tells of all of them.

submitit's own program on the node is left out: what a request leaves is a file already, the output of a run can be
long, and a job that was preempted must not be queued again behind our back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.contract import installing
from reconciler.errors import ReconcilerError
from reconciler.execute.executors.executor import Handle, Interruption, Progressing, State, Submission
from reconciler.execute.executors.job_script import must_be_alone
from reconciler.execute.executors.queued import LastAnswer, QueueSilentError
from reconciler.execute.executors.slurm_job import choose_more_options, choose_options, list_hidden, make_job_script
from reconciler.process import ask

_QUESTION = ("squeue", "--noheader", "--me", "--states=all", "--format=%i|%j|%T|%r|%N")
_LIMIT = 30.0  # seconds that Slurm may take to answer

_QUEUED = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
_RUNNING = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING"})

# A final state → its class, what is said of it, and what to do.
_ENDS: Mapping[str, tuple[str, str, str]] = {
    "PREEMPTED": ("preempted", "was preempted", "it is queued again as often as executor.slurm.retries says"),
    "NODE_FAIL": ("node-failure", "lost its node", "see `scontrol show node`; it is queued again by itself"),
    "BOOT_FAIL": ("node-failure", "got a node that did not boot", "see `scontrol show node`"),
    "TIMEOUT": ("time-limit", "reached its time limit", "raise executor.slurm.time of the system"),
    "DEADLINE": ("time-limit", "reached its deadline", "raise the deadline among executor.slurm.options"),
    "CANCELLED": ("cancelled", "was cancelled in the queue", "pass again to queue it again"),
    "REVOKED": ("cancelled", "was revoked by its cluster", "pass again to queue it again"),
    "OUT_OF_MEMORY": ("resources", "ran out of memory", "give it more: options: {mem: 64G}"),
}
_LAUNCH_FAILED = "JobLaunchFailure"  # of a job whose node did not start it, or lost it just then


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """``nodes``: as Slurm writes several, n[1-4]; "" while it has none. ``reason``: why it waits, or why it ended."""

    id: str
    state: str
    reason: str
    nodes: str

    @property
    def goes_on(self) -> bool:
        return self.state in _QUEUED or self.state in _RUNNING

    @property
    def gave_up(self) -> bool:
        return False

    def describe(self) -> Progressing:
        if self.state in _QUEUED:
            why = f" ({self.reason})" if self.reason not in ("", "None") else ""
            return Progressing(State.QUEUED, note=f"job {self.id}{why}")
        if self.state in _RUNNING:
            return Progressing(State.RUNNING, note=f"job {self.id} on {self.nodes}")
        return Progressing(State.ENDED, why=self.explain())

    def explain(self) -> Interruption | None:
        """Why a job ended that left no result; None where Slurm has nothing to say of it."""
        kind, said, fix = _ENDS.get(self.state, ("", "", ""))
        if not kind and self.reason == _LAUNCH_FAILED:
            kind, said, fix = _ENDS["NODE_FAIL"]
        where = f" on {self.nodes}" if self.nodes else ""
        return Interruption(kind, f"job {self.id} of Slurm{where} {said}", fix) if kind else None


def _ask_squeue() -> dict[str, tuple[SlurmJob, ...]]:
    ended = ask(_QUESTION, _LIMIT)
    if ended.status:
        raise QueueSilentError(ended.error.strip() or f"squeue ended with {ended.status}")
    jobs: dict[str, tuple[SlurmJob, ...]] = {}
    for line in ended.out.decode(errors="replace").splitlines():
        parts = line.split("|")
        if len(parts) == 5:
            jobs[parts[1]] = (*jobs.get(parts[1], ()), SlurmJob(parts[0], *parts[2:]))
    return jobs


@dataclass(slots=True)
class SlurmQueue:
    """``answer``: name → its jobs."""

    answer: LastAnswer[tuple[SlurmJob, ...]] = field(default_factory=lambda: LastAnswer(_ask_squeue))

    def submit(self, submission: Submission, handle: Handle) -> None:
        try:
            from reconciler.execute.executors.slurm_submission import submit_job
        except ImportError as error:
            raise ReconcilerError("submitit is not installed here", fix=installing("slurm")) from error
        settings = submission.attempt.intent.settings
        options = choose_options(settings, alone=must_be_alone(submission.attempt))
        ticket = submission.ticket
        submit_job(
            handle.folder / handle.executor,
            make_job_script(submission),
            {**options, "job_name": handle.name},
            choose_more_options(settings, travels=ticket is not None),
            list_hidden(submission.request, also=ticket.variables if ticket is not None else ()),
        )

    def find(self, handle: Handle, since: float) -> SlurmJob | None:
        """Of several of its name, as after a submission whose answer was lost, the one that runs counts."""
        return max(self.answer.find(handle.name, since) or (), key=_rank, default=None)

    def cancel(self, handle: Handle) -> None:
        ask(("scancel", f"--name={handle.name}", "--me"), _LIMIT)


def _rank(job: SlurmJob) -> tuple[bool, bool, int]:
    number = job.id.split("_")[0]
    return job.state in _RUNNING, job.goes_on, int(number) if number.isdecimal() else 0
