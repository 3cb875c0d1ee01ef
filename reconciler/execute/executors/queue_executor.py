"""The executor of every queue, Slurm or Ray: submits, follows, finds and cancels jobs. Jobs outlive the pass that
submitted them. It works in a folder that every node sees, or sends each attempt to the nodes and fetches the results.

Common to all queues: a result counts as soon as it exists, whatever the queue reports; a queue that does not answer
implies nothing; a job begins once, and never after its attempt is over.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct, field

from harness.contract import CounterCopy, LaunchRequest, Result
from reconciler.errors import ReconcilerError, StoreError
from reconciler.execute.executors.executor import (
    JOB_COUNTER,
    PATIENCE,
    TICKET,
    AttemptTransport,
    Capacity,
    Handle,
    Interruption,
    Progressing,
    State,
    Submission,
    TransportSilentError,
    write_handle,
)
from reconciler.execute.executors.local import put_behind_launcher
from reconciler.execute.request_parts import name_submission
from reconciler.resource.queues import EXECUTOR, QUEUES
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths

_LATE = 5.0  # seconds until a shared file system shows the result of an ended job
_LOOK = 0.05
_LOOK_QUEUED = 0.25  # for a waiting job: there may be hundreds of them
_ENDING = 60.0  # seconds beyond the grace that a cancelled job may take to end
_MACHINES = 64  # jobs of one system at a time, if the spec sets no limit
_ASK, _ASK_SLOWLY, _MANY = 1.0, 4.0, 100  # seconds between two queries, more if the answer is long

Answer = TypeVar("Answer")


class QueueSilentError(Exception):
    """The queue does not answer: its server may be down while its jobs continue."""


class Job(Protocol):
    """The status of one job in a queue."""

    def describe(self) -> Progressing:
        """Return the job's progress, with ``why`` it ended if the queue knows."""

    @property
    def gave_up(self) -> bool:
        """Return True if the queue dropped the job before finding a place, although one may become free."""


class LastAnswer(Struct, Generic[Answer]):
    """The queue's last answer about all its jobs, shared by all callers. ``ask``: returns name → status, or raises
    QueueSilentError; ``jobs``: None before the first answer; ``asked``: monotonic time of the query."""

    ask: Callable[[], Mapping[str, Answer]]
    jobs: Mapping[str, Answer] | None = None
    asked: float = float("-inf")
    tried: float = float("-inf")
    problem: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, name: str, since: float) -> Answer | None:
        """Return the status as of ``since`` or later; None if the queue does not list the name. Raises
        QueueSilentError."""
        with self.lock:
            self._refresh(since)
            if self.asked < since:
                raise QueueSilentError(self.problem)
            return (self.jobs or {}).get(name)

    def _refresh(self, since: float) -> None:
        now = time.monotonic()
        every = _ASK_SLOWLY if len(self.jobs or {}) > _MANY else _ASK
        if now - self.tried < every and not (self.asked < since and self.tried < since):
            return
        self.tried = now
        try:
            self.jobs, self.asked = self.ask(), now
        except QueueSilentError as error:
            self.problem = str(error)


class JobQueue(Protocol):
    """A queue, whose jobs are identified by names assigned before submission. All methods may raise
    QueueSilentError."""

    def submit(self, submission: Submission, handle: Handle) -> None:
        """Submit a job. Raises ReconcilerError with the queue's message if it refuses the job; if the queue does not
        answer, it may or may not have accepted the job."""

    def find(self, handle: Handle, since: float) -> Job | None:
        """Return the job as of ``since`` (monotonic) or later; None if the queue does not know it."""

    def cancel(self, handle: Handle) -> None:
        """Request the job's end; ``find`` shows whether it has ended."""

    def forget(self, handle: Handle) -> None:
        """Forget the job. A waiting job whose attempt began elsewhere need not begin."""


class QueueExecutor(Struct):
    """Runs requests as jobs of a queue. ``since``: folder of a submission → monotonic time when this process first saw
    it; answers that the queue gave earlier do not cover it. ``submitted``: folder → this process's submission;
    ``unheard``: submissions that the queue did not confirm. They are submitted again if the queue does not know them,
    since two jobs of one attempt do no harm. ``relays``: folder → the relay of its progress. ``transport``: for
    attempts sent to the nodes."""

    name: str
    paths: RepositoryPaths
    queue: JobQueue
    transport: AttemptTransport | None = None
    since: dict[Path, float] = field(default_factory=dict)
    submitted: dict[Path, Submission] = field(default_factory=dict)
    unheard: set[Path] = field(default_factory=set)
    relays: dict[Path, CounterCopy] = field(default_factory=dict)

    def get_capacity(self, settings: CellSettings) -> Capacity:
        machines = settings.get_number(f"{EXECUTOR}.{self.name}.machines") or _MACHINES
        return Capacity("", PATIENCE, f"{self.name} {settings.system}", machines, lasts=True)

    def submit(self, submission: Submission) -> Handle:
        """Submit a request. If the queue refuses a job, its result states that, and other steps continue."""
        attempt, request = submission.attempt, submission.request
        if attempt.intent.settings.launcher.words:  # inside the job: a launcher for several nodes or a container
            request = put_behind_launcher(attempt, request, self.paths)
        request = replace(request, counter=str(attempt.folder / JOB_COUNTER))  # type: ignore[call-arg]
        request.write(attempt.launch if isinstance(request, LaunchRequest) else attempt.request)
        attempt.output.mkdir(exist_ok=True)
        handle = Handle(self.name, attempt.folder, name_submission(attempt))
        ticket = None
        if attempt.intent.settings.get_text(f"{EXECUTOR}.{self.name}.store"):
            try:
                ticket = self._find_transport().send(attempt, request, submission.request, submission.result)
            except ReconcilerError as error:
                _refuse(submission, error, "resources" if isinstance(error, StoreError) else "input")
        write_handle(handle)
        kept = Submission(attempt, request, submission.result, ticket=ticket, seconds=submission.seconds)
        self.submitted[handle.folder] = kept
        if not submission.result.exists():
            self._try_submit(handle)
        return handle

    def _find_transport(self) -> AttemptTransport:
        assert self.transport is not None, "an executor of remote attempts has a transport"
        return self.transport

    def _travels(self, handle: Handle) -> bool:
        return self.transport is not None and (handle.folder / TICKET).exists()

    def _try_submit(self, handle: Handle) -> None:
        submission = self.submitted[handle.folder]
        try:
            self.queue.submit(submission, handle)
        except QueueSilentError:
            self.unheard.add(handle.folder)
        except ReconcilerError as error:
            _refuse(submission, error, "input")
        else:
            self.unheard.discard(handle.folder)
        self.since[handle.folder] = time.monotonic()

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        give_up = time.monotonic() + wait
        while True:
            found = self._look(handle)
            left = give_up - time.monotonic()
            if not found.goes_on or left <= 0:
                return found
            time.sleep(min(_LOOK_QUEUED if found.state is State.QUEUED else _LOOK, left))

    def _look(self, handle: Handle) -> Progressing:
        """Return the progress. A result is complete once it exists; cleaning up afterwards is left to the queue."""
        since = self.since.setdefault(handle.folder, time.monotonic())
        if (handle.folder / "result.json").exists():
            return Progressing(State.ENDED, 0)
        if self._travels(handle):
            self._find_transport().look(handle.folder)
        self._relay(handle.folder)
        title = QUEUES[self.name].title
        try:
            job = self.queue.find(handle, since)
        except QueueSilentError as error:
            state = State.QUEUED if handle.folder in self.unheard else State.RUNNING
            return Progressing(state, note=f"{title} does not answer: {error}")
        if job is None and handle.folder in self.unheard:
            self._try_submit(handle)
            return Progressing(State.QUEUED, note=f"submitted again after {title} did not answer")
        if job is not None and job.gave_up and handle.folder in self.submitted:
            self._try_submit(handle)
            return Progressing(State.QUEUED, note=f"submitted again after {title} found no place for it")
        found = job.describe() if job is not None else Progressing(State.LOST, why=_describe_lost(title))
        return found if found.goes_on else self._await_result(handle, found, title)

    def _await_result(self, handle: Handle, found: Progressing, title: str) -> Progressing:
        result = handle.folder / "result.json"
        if self._travels(handle):
            transport = self._find_transport()
            try:
                brought = transport.bring(handle.folder)
            except TransportSilentError as error:
                return Progressing(
                    State.RUNNING, note=f"its job has ended, but its result cannot be fetched yet: {error}"
                )
            if brought:
                return Progressing(State.ENDED, 0) if result.exists() else found
            transport.withdraw(handle.folder)
        give_up = time.monotonic() + (_LATE if found.why is None else _LOOK)
        while not result.exists() and time.monotonic() < give_up:
            time.sleep(_LOOK)
        if result.exists():
            return Progressing(State.ENDED, 0)
        twice = handle.folder / "twice"
        return Progressing(found.state, why=_describe_double(title)) if twice.exists() and found.why is None else found

    def _relay(self, folder: Path) -> None:
        there = folder / JOB_COUNTER
        if folder not in self.relays and there.exists():
            self.relays[folder] = CounterCopy(there, folder / "counter")
        if folder in self.relays:
            self.relays[folder].copy()

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        """Let the queue end the job. If the queue does not answer, the job will find that its folder is gone. A job
        that has not begun will find its place taken, so there is no need to wait until the queue has removed it."""
        self.since[handle.folder] = time.monotonic()
        began = not _take_place(handle.folder)
        if self._travels(handle):
            self._find_transport().withdraw(handle.folder)
            began = True  # no report reaches this machine
        give_up = time.monotonic() + grace + _ENDING
        with contextlib.suppress(QueueSilentError):
            self.queue.cancel(handle)
            while began and time.monotonic() < give_up:
                job = self.queue.find(handle, time.monotonic() - 1.0)
                if job is None or not job.describe().goes_on:
                    break
                time.sleep(_LOOK)
        if self._travels(handle):
            self._find_transport().forget(handle.folder)

    def harvest(self, handle: Handle) -> None:
        """Forget the job. There are no files to fetch, because every file was written here or was already fetched."""
        if self._travels(handle) and (handle.folder / "result.json").exists():
            self._find_transport().forget(handle.folder)
        self.queue.forget(handle)
        self.since.pop(handle.folder, None)
        self.submitted.pop(handle.folder, None)
        self.unheard.discard(handle.folder)
        relay = self.relays.pop(handle.folder, None)
        if relay is not None:
            relay.close()


def _refuse(submission: Submission, error: ReconcilerError, kind: str) -> None:
    """Write a failed result with the reason for a step that could not be submitted; other steps continue."""
    result = Result(done=False, seconds=0.0, problem=error.message, problem_class=kind, fix=error.fix)
    result.write(submission.result)


def _take_place(folder: Path) -> bool:
    """Take the place as the job itself does when it begins; return whether this call was first."""
    try:
        (folder / "begun").mkdir()
    except FileExistsError:
        return False
    except FileNotFoundError:
        return True
    return True


def _describe_lost(title: str) -> Interruption:
    problem = f"{title} no longer has the job, and there is no result"
    return Interruption("lost", problem, "pass again")


def _describe_double(title: str) -> Interruption:
    problem = f"its job was queued again by {title}, after it had begun"
    return Interruption("requeued", problem, "it is submitted again automatically")
