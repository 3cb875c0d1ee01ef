"""Protocol of every executor. A step is a request file in the folder of an attempt; harvesting reads that folder."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from harness.contract import FileMessage
from reconciler.execute.attempt import Attempt
from reconciler.execute.executors.attempt_transport import Ticket
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import replace
from reconciler.storage.json_files import read_json
from reconciler.storage.storage_errors import refuse_storage_error

PATIENCE = 6 * 3600.0  # seconds: TensorRT, a benchmark's own code, or a cluster's queue may be silent for long
START = 900.0  # seconds in which a child says for the first time what it does; mostly it is a few

HERE = "here"  # this machine, and whatever is reached from it by one command after another

JOB_COUNTER = "counter-job"  # kept by the job of a queue, by the clock of its node
_HANDLE = "handle.json"


class Submission(Struct, frozen=True):
    """``request`` is carried out for ``attempt``, and leaves its result in ``result``. ``keep_open``: descriptors of
    locks, which stay locked as long as anything of it runs. ``sweeps``: processes that it started, and left, end with
    it. ``ticket``: of one whose folder its node does not see. ``seconds`` that it is expected to take, None where that
    is unknown."""

    attempt: Attempt
    request: FileMessage
    result: Path
    keep_open: tuple[int, ...] = ()
    sweeps: bool = True
    ticket: Ticket | None = None
    seconds: float | None = None


class Handle(Struct, frozen=True):
    """Data for a later pass to find a submission: whose it is, where its folder is, and the name that it was given
    before it was started."""

    executor: str
    folder: Path
    name: str


class State(StrEnum):
    """LOST: nothing of it runs any more, and this process did not see its end."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"


class Interruption(Struct, frozen=True):
    """Reason of an end without a result, as its queue says: the class of the problem, what it is and the fix."""

    problem_class: str
    problem: str
    fix: str


class Progressing(Struct, frozen=True):
    """``status``: its exit status once it has ended; negative for the signal that ended it. ``note``: where it runs or
    what it waits for; ``why`` it ended, where its queue knows."""

    state: State
    status: int | None = None
    note: str = ""
    why: Interruption | None = None

    @property
    def goes_on(self) -> bool:
        return self.state in (State.QUEUED, State.RUNNING)


class Capacity(Struct, frozen=True):
    """``lock``: name of the machine's lock that one timed run at a time holds; "" where the executor sees to that.
    ``start``: seconds that a submission may take until it says what it does. ``machine``: whose steps come one after
    another, or up to ``places`` of them at a time, while those of other machines go on. ``lasts``: what is submitted
    there outlives the pass."""

    lock: str
    start: float
    machine: str = HERE
    places: int = 1
    lasts: bool = False


class Executor(Protocol):
    """Starts requests somewhere and follows them. ``name``: in a handle."""

    @property
    def name(self) -> str: ...

    def capacity(self, settings: CellSettings) -> Capacity:
        """Capacity of the machine of these settings."""

    def submit(self, submission: Submission) -> Handle:
        """Write the handle, then start. Raises ReconcilerError or OSError when it cannot be started."""

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        """How it is, after at most ``wait`` seconds; also for a handle that another process wrote."""

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        """Ask it to end, and make it after ``grace`` seconds."""

    def harvest(self, handle: Handle) -> None:
        """Once it has ended: bring its files into its folder, and free its resources."""


def write_handle(handle: Handle) -> None:
    document = {"executor": handle.executor, "name": handle.name}
    replace(handle.folder / _HANDLE, json.dumps(document, sort_keys=True).encode())


def read_handle(folder: Path) -> Handle | None:
    """None where nothing was submitted, or an unknown version did."""
    try:
        document = read_json(folder / _HANDLE)
        return Handle(str(document["executor"]), folder, str(document["name"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        refuse_storage_error(error, folder)
        return None
