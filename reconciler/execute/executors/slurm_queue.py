"""What Slurm says of our jobs: one question for all, by the name that each was given before it was submitted."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.execute.executors.executor import Interruption, Progressing, State
from reconciler.process import ask

_QUESTION = ("squeue", "--noheader", "--me", "--states=all", "--format=%i|%j|%T|%r|%N")
_LIMIT = 30.0  # seconds that Slurm may take to answer
_LOOK, _SLOW_LOOK, _MANY = 1.0, 4.0, 100  # seconds between two questions; the longer where the answer is long

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
class Job:
    """``nodes``: as Slurm writes several, n[1-4]; "" while it has none. ``reason``: why it waits, or why it ended."""

    id: str
    state: str
    reason: str
    nodes: str

    @property
    def goes_on(self) -> bool:
        return self.state in _QUEUED or self.state in _RUNNING

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


@dataclass(slots=True)
class SlurmQueue:
    """The last answer, shared by all that ask. ``jobs``: name → its jobs, None before the first answer; ``asked``: when
    that question was put, monotonic."""

    jobs: Mapping[str, tuple[Job, ...]] | None = None
    asked: float = float("-inf")
    tried: float = float("-inf")
    problem: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, name: str, since: float) -> Job | None:
        """The job of this name as of ``since`` (monotonic) or later. Of several, as after a submission whose answer was
        lost, the one that runs counts. Raises SlurmSilentError while Slurm does not answer."""
        with self.lock:
            self._refresh(since)
            if self.asked < since:
                raise SlurmSilentError(self.problem)
            found = (self.jobs or {}).get(name, ())
        return max(found, key=_rank, default=None)

    def _refresh(self, since: float) -> None:
        now = time.monotonic()
        every = _SLOW_LOOK if len(self.jobs or {}) > _MANY else _LOOK
        if now - self.tried < every and not (self.asked < since and self.tried < since):
            return
        self.tried = now
        ended = ask(_QUESTION, _LIMIT)
        if ended.status:
            self.problem = ended.error.strip() or f"squeue ended with {ended.status}"
            return
        jobs: dict[str, list[Job]] = {}
        for line in ended.out.decode(errors="replace").splitlines():
            parts = line.split("|")
            if len(parts) == 5:
                jobs.setdefault(parts[1], []).append(Job(parts[0], *parts[2:]))
        self.jobs, self.asked = {name: tuple(found) for name, found in jobs.items()}, now

    def cancel(self, name: str) -> None:
        """Ask for its end; whether it came to that, ``find`` tells."""
        ask(("scancel", f"--name={name}", "--me"), _LIMIT)


class SlurmSilentError(Exception):
    """Slurm does not answer: its controller is down, perhaps, and its jobs run on."""


def _rank(job: Job) -> tuple[bool, bool, int]:
    number = job.id.split("_")[0]
    return job.state in _RUNNING, job.goes_on, int(number) if number.isdecimal() else 0
