"""The protocol of every executor, and of transports, which bring attempts to nodes that do not see the repository's
folder. A step is a request file in an attempt's folder; harvesting reads that folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from harness.contract import FileMessage
from reconciler.execute.attempt import Attempt
from reconciler.resource.parts import load_part
from reconciler.resource.settings import CellSettings, SubmissionSettings
from reconciler.storage.files import RepositoryPaths, replace
from reconciler.storage.json_files import read_json
from reconciler.storage.storage_errors import refuse_storage_error

PATIENCE = 6 * 3600.0  # seconds: TensorRT, a benchmark's own code or a cluster's queue may be silent this long
START = 900.0  # seconds until a child first reports its activity; usually it takes a few

HERE = "here"  # this machine, and everything reached from it by one command after another

JOB_COUNTER = "counter-job"  # written by a queue's job, with its node's clock
_HANDLE = "handle.json"
TICKET = "ticket.json"  # in the folder of a sent attempt: what its job needs to fetch it


class Ticket(Struct, frozen=True):
    """Instructions for the job of a sent attempt. ``command``: what a job runs, followed by the name of a file that
    contains ``text``. ``variables``: the environment variables of this process that it needs."""

    text: str
    command: tuple[str, ...]
    variables: tuple[str, ...] = ()


class Submission(Struct, frozen=True):
    """Runs ``request`` for ``attempt`` and writes the result to ``result``. ``keep_open``: descriptors of locks, which
    stay locked while any process of it runs. ``sweeps``: processes that it leaves behind end with it. ``ticket``: for a
    folder that its node does not see. ``seconds``: expected duration, None if unknown."""

    attempt: Attempt
    request: FileMessage
    result: Path
    keep_open: tuple[int, ...] = ()
    sweeps: bool = True
    ticket: Ticket | None = None
    seconds: float | None = None


class Handle(Struct, frozen=True):
    """The data by which a later pass finds a submission: its owner, its folder, and the name that it was given before
    it started."""

    executor: str
    folder: Path
    name: str


class State(StrEnum):
    """LOST: no process of it runs any more, and this process did not see it end."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


class Interruption(Struct, frozen=True):
    """The reason for an end without a result, as its queue reports it: the class of the problem, the problem and the
    fix."""

    problem_class: str
    problem: str
    fix: str


class Progressing(Struct, frozen=True):
    """The progress of a submission. ``status``: the exit status once it has ended, negative for the signal that ended
    it. ``note``: where it runs or what it waits for; ``why``: why it ended, if its queue knows."""

    state: State
    status: int | None = None
    note: str = ""
    why: Interruption | None = None

    @property
    def goes_on(self) -> bool:
        return self.state in (State.QUEUED, State.RUNNING)


class Capacity(Struct, frozen=True):
    """The capacity of a machine. ``lock``: name of the machine's lock that allows one timed run at a time; "" if the
    executor ensures that. ``start``: seconds that a submission may take to report its first activity. ``machine``: runs
    up to ``places`` of its steps at a time, independently of other machines. ``lasts``: its submissions outlive the
    pass."""

    lock: str
    start: float
    machine: str = HERE
    places: int = 1
    lasts: bool = False


class Executor(Protocol):
    """Starts requests somewhere and follows them. ``name``: the executor's name in a handle."""

    @property
    def name(self) -> str: ...

    def get_capacity(self, settings: CellSettings) -> Capacity:
        """Return the capacity of the machine that these settings describe."""

    def submit(self, submission: Submission) -> Handle:
        """Write the handle, then start. Raises ReconcilerError or OSError if it cannot be started."""

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        """Return the progress, after at most ``wait`` seconds; the handle may come from another process."""

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        """Ask it to end, and force it after ``grace`` seconds."""

    def harvest(self, handle: Handle) -> None:
        """After its end, fetch its files into its folder and free its resources."""


def write_handle(handle: Handle) -> None:
    document = {"executor": handle.executor, "name": handle.name}
    replace(handle.folder / _HANDLE, json.dumps(document, sort_keys=True).encode())


def read_handle(folder: Path) -> Handle | None:
    """Return the handle; None if nothing was submitted, or if an unknown version submitted it."""
    try:
        document = read_json(folder / _HANDLE)
        return Handle(str(document["executor"]), folder, str(document["name"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        refuse_storage_error(error, folder)
        return None


class TransportSilentError(Exception):
    """The transport does not answer; its files may still exist."""


class AttemptTransport(Protocol):
    """A transport, addressed by an attempt's folder. All methods except ``send`` also work for attempts that another
    process sent."""

    def declare(self, submission: SubmissionSettings, today: date) -> None:
        """Declare the stores, and whether results may be written there today (UTC)."""

    def send(self, attempt: Attempt, request: FileMessage, asked: FileMessage, result: Path) -> Ticket:
        """Send what a job needs. ``request``: the request that it runs; ``asked``: the same request without a launcher.
        Raises ReconcilerError."""

    def look(self, folder: Path) -> None:
        """Fetch the progress and placement; repeated calls query only now and then."""

    def bring(self, folder: Path) -> bool:
        """Fetch the job's results; return whether it had ended. Raises TransportSilentError."""

    def withdraw(self, folder: Path) -> None:
        """Prevent a job from starting, or end it if it runs."""

    def forget(self, folder: Path) -> None:
        """Forget a recorded attempt, which is not requested again."""


def open_transport(paths: RepositoryPaths, *, only_looks: bool = False) -> AttemptTransport | None:
    """Return the transport, or None if that part was removed. ``only_looks``: leave an ended attempt in the store for
    the pass that waits for it, and end no job."""
    found: Callable[..., AttemptTransport] | None = load_part("stores")
    return None if found is None else found(paths, only_looks=only_looks)
