"""Jobs of Slurm that have ended their attempt take over others that wait: of short runs, each would take less than its
job takes to start. ``harness/child/slurm_job.py`` is what such a job does.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct

from harness.contract import WAITING, LaunchRequest, WaitingAttempt
from reconciler.execute.attempt import read_placement
from reconciler.execute.executors.executor import Handle, Submission
from reconciler.execute.executors.job_script import find_interpreter
from reconciler.execute.executors.slurm_job import SLURM
from reconciler.storage.files import hash_bytes, replace

LONGEST = 600.0  # seconds for which a job takes over further attempts, where the spec does not say
_QUEUED = "queued"  # in the folder of an attempt: the number of its own job


class Takeover(Struct, frozen=True):
    """``group``: of the attempts that may take each other's place; for ``seconds`` from the beginning of a job."""

    group: str
    seconds: float

    @property
    def words(self) -> tuple[str, ...]:
        """How a job that takes over begins, in place of ``harness``."""
        return "harness.child.slurm_job", self.group, f"{self.seconds:g}"


def choose_takeover(submission: Submission, options: object, token: str) -> Takeover | None:
    """None of an attempt that travels to its node, and of one that takes as long as jobs take over. ``options``: all
    that its job is submitted with; ``token``: of one pass, whose environment all its jobs have."""
    settings = submission.attempt.intent.settings
    seconds = settings.get_seconds(f"{SLURM}.take_over", LONGEST)
    if submission.ticket is not None or (submission.seconds or 0.0) >= seconds:
        return None
    alike = (settings.get_text("system.name"), find_interpreter(submission.attempt), options)
    return Takeover(f"{token}-{hash_bytes(repr(alike).encode())[:8]}", seconds)


def note_queued(submission: Submission, handle: Handle, number: str, takeover: Takeover | None) -> None:
    """``number`` of its job, which Slurm has taken: only from now on may another one begin it."""
    attempt, request, seconds = submission.attempt, submission.request, submission.seconds
    with suppress(FileNotFoundError):  # it has ended already
        replace(handle.folder / _QUEUED, number.encode())
        if takeover is not None and seconds is not None:
            path = attempt.launch if isinstance(request, LaunchRequest) else attempt.request
            arguments = (request.verb, str(path), str(submission.result))
            waiting = WaitingAttempt(arguments=arguments, log=str(attempt.log), seconds=seconds)
            waiting.write(handle.folder / WAITING.format(takeover.group))


def read_queued(handle: Handle) -> str:
    """The number of its own job; "" where that is not known."""
    try:
        return (handle.folder / _QUEUED).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def read_taker(handle: Handle) -> str:
    """The number of the job that took it over; "" where none did."""
    begun = handle.folder / "begun"
    return read_placement(begun).job.removeprefix("slurm ") if begun.is_file() else ""
