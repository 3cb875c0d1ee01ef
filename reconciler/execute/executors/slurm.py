"""Jobs of Slurm. They outlive the pass that submitted them, which works in a folder that every node sees.

submitit writes the batch script and submits it. Its own program on the node is left out: what a request leaves is a
file already, the output of a run can be long, and a job that was preempted must not be queued again behind our back.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.contract import CounterCopy, LaunchRequest, Result, installing
from reconciler.errors import ReconcilerError
from reconciler.execute.executors.executor import (
    JOB_COUNTER,
    PATIENCE,
    Capacity,
    Handle,
    Interruption,
    Progressing,
    State,
    Submission,
    write_handle,
)
from reconciler.execute.executors.launcher import put_behind_launcher
from reconciler.execute.executors.local import name_submission
from reconciler.execute.executors.slurm_job import (
    SLURM,
    choose_more_options,
    choose_options,
    list_hidden,
    make_script,
    must_be_alone,
)
from reconciler.execute.executors.slurm_queue import SlurmQueue, SlurmSilentError
from reconciler.files import RepositoryPaths
from reconciler.resource.settings import CellSettings

_LATE = 5.0  # seconds in which a shared file system shows a result whose job has ended
_LOOK = 0.05
_ENDING = 60.0  # seconds that a cancelled job may take to end, beyond the grace
_MACHINES = 64  # jobs of one system at a time, where the spec does not say how many


@dataclass(slots=True)
class SlurmExecutor:
    """``since``: folder of a submission → when this process first heard of it, monotonic: an older answer of Slurm says
    nothing of it. ``unheard``: folder → what was submitted while Slurm did not answer, and may be there or not: it is
    submitted again once Slurm knows of none, since two jobs of one attempt do no harm. ``relays``: folder → what
    brings its progress here."""

    paths: RepositoryPaths
    name: str = "slurm"
    queue: SlurmQueue = field(default_factory=SlurmQueue)
    since: dict[Path, float] = field(default_factory=dict)
    unheard: dict[Path, Submission] = field(default_factory=dict)
    relays: dict[Path, CounterCopy] = field(default_factory=dict)

    def capacity(self, settings: CellSettings) -> Capacity:
        machines = settings.number(f"{SLURM}.machines") or _MACHINES
        return Capacity("", PATIENCE, f"slurm {settings.text('system.name')}", machines, lasts=True)

    def submit(self, submission: Submission) -> Handle:
        """A job that Slurm refuses leaves a result that says so: other steps go on."""
        attempt, request = submission.attempt, submission.request
        if attempt.intent.settings.launcher.words:  # within the job: that of several nodes, or of a container there
            request = put_behind_launcher(attempt, request, self.paths)
        request = replace(request, counter=str(attempt.folder / JOB_COUNTER))  # type: ignore[call-arg]
        request.write(attempt.launch if isinstance(request, LaunchRequest) else attempt.request)
        attempt.output.mkdir(exist_ok=True)
        handle = Handle(self.name, attempt.folder, name_submission(attempt))
        write_handle(handle)
        self._try(Submission(attempt, request, submission.result), handle)
        return handle

    def _try(self, submission: Submission, handle: Handle) -> None:
        try:
            self._queue(submission, handle)
        except SlurmSilentError:
            self.unheard[handle.folder] = submission
        except ReconcilerError as error:
            Result(done=False, seconds=0.0, problem=error.message, problem_class="input", fix=error.fix).write(
                submission.result
            )
        else:
            self.unheard.pop(handle.folder, None)
        self.since[handle.folder] = time.monotonic()

    def _queue(self, submission: Submission, handle: Handle) -> None:
        try:
            from reconciler.execute.executors.slurm_submission import submit_job
        except ImportError as error:
            raise ReconcilerError("submitit is not installed here", fix=installing("slurm")) from error
        settings = submission.attempt.intent.settings
        options = choose_options(settings, alone=must_be_alone(submission.attempt))
        submit_job(
            handle.folder / self.name,
            make_script(submission),
            {**options, "job_name": handle.name},
            choose_more_options(settings),
            list_hidden(submission.request),
        )

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        give_up = time.monotonic() + wait
        while True:
            found = self._look(handle)
            if not found.goes_on or time.monotonic() >= give_up:
                return found
            time.sleep(min(_LOOK, wait))

    def _look(self, handle: Handle) -> Progressing:
        """A result is complete once it is there; whether its job still tidies up is Slurm's affair."""
        since = self.since.setdefault(handle.folder, time.monotonic())
        if (handle.folder / "result.json").exists():
            return Progressing(State.ENDED, 0)
        self._relay(handle.folder)
        try:
            job = self.queue.find(handle.name, since)
        except SlurmSilentError as error:
            state = State.QUEUED if handle.folder in self.unheard else State.RUNNING
            return Progressing(state, note=f"Slurm does not answer: {error}")
        if job is None and handle.folder in self.unheard:
            self._try(self.unheard[handle.folder], handle)
            return Progressing(State.QUEUED, note="submitted again after Slurm did not answer")
        found = job.describe() if job is not None else Progressing(State.LOST, why=_FORGOTTEN)
        return found if found.goes_on else self._await_result(handle, found)

    def _await_result(self, handle: Handle, found: Progressing) -> Progressing:
        result = handle.folder / "result.json"
        give_up = time.monotonic() + (_LATE if found.why is None else _LOOK)
        while not result.exists() and time.monotonic() < give_up:
            time.sleep(_LOOK)
        if result.exists():
            return Progressing(State.ENDED, 0)
        twice = handle.folder / "twice"
        return Progressing(found.state, why=_REQUEUED) if twice.exists() and found.why is None else found

    def _relay(self, folder: Path) -> None:
        there = folder / JOB_COUNTER
        if folder not in self.relays and there.exists():
            self.relays[folder] = CounterCopy(there, folder / "counter")
        if folder in self.relays:
            self.relays[folder].copy()

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        """Slurm makes it end itself. One that does not answer cannot be asked: its job will find its folder gone."""
        self.since[handle.folder] = time.monotonic()
        self.queue.cancel(handle.name)
        give_up = time.monotonic() + grace + _ENDING
        with contextlib.suppress(SlurmSilentError):
            while time.monotonic() < give_up:
                job = self.queue.find(handle.name, time.monotonic() - 1.0)
                if job is None or not job.goes_on:
                    return
                time.sleep(_LOOK)

    def harvest(self, handle: Handle) -> None:
        """Everything is where it was written."""
        self.since.pop(handle.folder, None)
        self.unheard.pop(handle.folder, None)
        relay = self.relays.pop(handle.folder, None)
        if relay is not None:
            relay.close()


_FORGOTTEN = Interruption("lost", "Slurm knows nothing of its job any more, and it left no result", "pass again")
_REQUEUED = Interruption(
    "requeued", "its job was queued again by Slurm, after it had begun", "it is submitted anew by itself"
)
