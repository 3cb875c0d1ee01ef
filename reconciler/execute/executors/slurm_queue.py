"""Slurm: its jobs are submitted by submitit, which writes the batch script. One question tells of all of them.

submitit's own program on the node is left out: what a request leaves is a file already, the output of a run can be
long, and a job that was preempted must not be queued again behind our back.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.contract import installing
from reconciler.errors import ReconcilerError
from reconciler.execute.executors.executor import Handle, Interruption, Progressing, State, Submission
from reconciler.execute.executors.job_script import must_be_alone
from reconciler.execute.executors.queued import LastAnswer, QueueSilentError
from reconciler.execute.executors.slurm_arrays import (
    Gathering,
    Member,
    Waiting,
    make_array_script,
    read_member,
    write_members,
)
from reconciler.execute.executors.slurm_job import choose_more_options, choose_options, list_hidden, make_job_script
from reconciler.process import ask
from reconciler.quantities import read_count

_QUESTION = ("squeue", "--noheader", "--me", "--array", "--states=all", "--format=%i|%j|%T|%r|%N")
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
    """``answer``: name → its jobs. ``members``: folder of a submission → the task of an array that it is."""

    answer: LastAnswer[tuple[SlurmJob, ...]] = field(default_factory=lambda: LastAnswer(_ask_squeue))
    gathering: Gathering = field(default_factory=lambda: Gathering(_submit_group))
    members: dict[Path, Member | None] = field(default_factory=dict)

    def submit(self, submission: Submission, handle: Handle) -> None:
        """Attempts that travel go one by one: of one name, of which Slurm lets one job begin at a time."""
        self.members.pop(handle.folder, None)
        if submission.ticket is not None:
            _submit_alone(Waiting(submission, handle))
            return
        address, options = submission.attempt.intent.address, _list_options(submission)
        self.gathering.submit(repr((address.kind, address.mode, options)), submission, handle)

    def find(self, handle: Handle, since: float) -> SlurmJob | None:
        """Of several of its name, as after a submission whose answer was lost, the one that runs counts."""
        return max(self._list_jobs(handle, since), key=_rank, default=None)

    def _list_jobs(self, handle: Handle, since: float) -> tuple[SlurmJob, ...]:
        member = self._find_member(handle)
        alone = self.answer.find(handle.name, since) or ()
        if member is None:
            return alone
        return (*alone, *(job for job in self.answer.find(member.name, since) or () if member.matches(job.id)))

    def _find_member(self, handle: Handle) -> Member | None:
        """Another process may have submitted it."""
        if handle.folder not in self.members:
            self.members[handle.folder] = read_member(handle.folder)
        return self.members[handle.folder]

    def cancel(self, handle: Handle) -> None:
        if self._find_member(handle) is None:
            ask(("scancel", f"--name={handle.name}", "--me"), _LIMIT)
            return
        for job in self._list_jobs(handle, time.monotonic()):
            ask(("scancel", job.id), _LIMIT)


def _list_options(submission: Submission) -> tuple[dict[str, object], dict[str, object], tuple[str, ...]]:
    """Arguments of submitit, further options of sbatch, and variables that the job does not get."""
    settings, ticket = submission.attempt.intent.settings, submission.ticket
    return (
        choose_options(settings, alone=must_be_alone(submission.attempt)),
        choose_more_options(settings, travels=ticket is not None),
        list_hidden(submission.request, also=ticket.variables if ticket is not None else ()),
    )


def _submit_group(group: Sequence[Waiting]) -> None:
    if len(group) == 1:
        _submit_alone(group[0])
        return
    options, more, hidden = _list_options(group[0].submission)
    name = write_members(group)
    script = make_array_script([make_job_script(each.submission) for each in group])
    # The folder of the first may be gone before the last begins; what a task prints goes to its own log.
    more = {**more, "array": f"0-{len(group) - 1}", "output": "/dev/null"}
    try:
        _submit(group[0].handle, script, {**options, "job_name": name}, more, hidden)
    except ReconcilerError:  # it takes no arrays, or none of these: then each hears why
        for each in group:
            try:
                _submit_alone(each)
            except (ReconcilerError, QueueSilentError) as error:
                each.error = error


def _submit_alone(waiting: Waiting) -> None:
    options, more, hidden = _list_options(waiting.submission)
    handle = waiting.handle
    _submit(handle, make_job_script(waiting.submission), {**options, "job_name": handle.name}, more, hidden)


def _submit(
    handle: Handle, script: str, options: dict[str, object], more: dict[str, object], hidden: tuple[str, ...]
) -> None:
    try:
        from reconciler.execute.executors.slurm_submission import submit_job
    except ImportError as error:
        raise ReconcilerError("submitit is not installed here", fix=installing("slurm")) from error
    submit_job(handle.folder / handle.executor, script, options, more, hidden)


def _rank(job: SlurmJob) -> tuple[bool, bool, int]:
    return job.state in _RUNNING, job.goes_on, read_count(job.id.split("_")[0], 0)
