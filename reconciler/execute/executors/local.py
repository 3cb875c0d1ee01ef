"""Children of this process, none of which outlives the pass that submitted it."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
from msgspec import Struct, field
from msgspec.structs import replace

from harness.contract import CommandRequest, FileMessage, LaunchRequest, ServiceRequest
from reconciler.execute.attempt import Attempt
from reconciler.execute.executors.executor import (
    HERE,
    PATIENCE,
    START,
    Capacity,
    Handle,
    Progressing,
    State,
    Submission,
    write_handle,
)
from reconciler.execute.request_parts import list_locations, list_secrets, name_submission, starts_container
from reconciler.resource.settings import SERVICE_COMMAND, CellSettings
from reconciler.storage.files import RepositoryPaths, hash_bytes
from reconciler.storage.launch.adapters import build_launch, choose_interpreter, find_outermost, reaches_own_machine
from reconciler.storage.process import (
    Child,
    build_child_environment,
    build_elsewhere_environment,
    build_harness_command,
    build_launched_environment,
)

# Ends the processes that a child started and that left its session, so that none of them uses the machine during the
# next timed run or keeps a lock.

MARK = "RECONCILE_CHILD"  # in the environment of a child and its descendants, with a different value for each child
_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 200  # a killed process may have started another since
_LOOK = 0.01
_adopting = 0  # open contexts: steps on several machines overlap, and adoption is a property of the whole process
_adopting_lock = threading.Lock()


@contextlib.contextmanager
def end_leftovers() -> Iterator[dict[str, str]]:
    """Make this process adopt orphans while the context is open, and yield a mark for a child's environment. At the
    end, kill the processes that carry the mark and their descendants, but no other process of this program or the
    user."""
    mark = secrets.token_hex(8)
    _count_adopting(1)
    try:
        yield {MARK: mark}
    finally:
        try:
            _end(mark)
        finally:
            _count_adopting(-1)


def _count_adopting(change: int) -> None:
    global _adopting
    with _adopting_lock:
        _adopting += change
        if sys.platform.startswith("linux"):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(_adopting > 0), 0, 0, 0)


def _end(mark: str) -> None:
    ending: dict[int, psutil.Process] = {}
    for _ in range(_ROUNDS):
        ending |= _find_marked(mark)
        ending = {pid: process for pid, process in ending.items() if not _has_ended(process)}
        if not ending:
            break
        for process in ending.values():
            with contextlib.suppress(psutil.Error):
                process.kill()  # never kills another process that reuses the number
        time.sleep(_LOOK)
    _reap_orphans()


def _find_marked(mark: str) -> dict[int, psutil.Process]:
    """Return the descendants of this process that carry the mark, with their own descendants, even if those changed
    their environment."""
    found: dict[int, psutil.Process] = {}
    for process in _list_descendants(psutil.Process()):
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found |= {each.pid: each for each in (process, *_list_descendants(process))}
    return found


def _has_ended(process: psutil.Process) -> bool:
    """Return True if the process has ended and, if it was our child, was reaped."""
    try:
        return os.waitpid(process.pid, os.WNOHANG)[0] == process.pid
    except ChildProcessError:
        return not process.is_running()


def _reap_orphans() -> None:
    """Reap ended processes, since these no longer show their mark. Leave processes that this process started itself,
    which are in its session or lead one."""
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() == psutil.STATUS_ZOMBIE and os.getsid(process.pid) not in (process.pid, os.getsid(0)):
                os.waitpid(process.pid, os.WNOHANG)


def _list_descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


class LocalExecutor(Struct):
    """Runs children on this machine. ``children`` maps a submitted folder to its child and the cleanup after it."""

    name: str = "local"
    children: dict[Path, tuple[Child, ExitStack]] = field(default_factory=dict)

    def get_capacity(self, settings: CellSettings) -> Capacity:  # noqa: ARG002 - the same for every system on this machine
        """Return a capacity of one timed run at a time."""
        return Capacity("quiet", START)

    def submit(self, submission: Submission) -> Handle:
        attempt, request = submission.attempt, submission.request
        path = attempt.launch if isinstance(request, LaunchRequest) else attempt.request
        request.write(path)
        attempt.output.mkdir(exist_ok=True)
        handle = Handle(self.name, attempt.folder, name_submission(attempt))
        write_handle(handle)
        with ExitStack() as stack:
            sweeps = submission.sweeps and not request.has_keeper
            marked = stack.enter_context(end_leftovers()) if sweeps else {}
            child = Child(
                build_harness_command(request.verb, path, submission.result),
                folder=attempt.folder,
                log=attempt.log,
                environment=_build_environment(request) | marked,
                keep_open=submission.keep_open,
            )
            stack.enter_context(child)
            self.children[attempt.folder] = child, stack.pop_all()
        return handle

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        """Return the progress. A child of another process is lost, because it ended with that process."""
        if handle.folder not in self.children:
            return Progressing(State.LOST)
        status = self.children[handle.folder][0].wait(wait)
        return Progressing(State.RUNNING) if status is None else Progressing(State.ENDED, status)

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        if handle.folder in self.children:
            self.children[handle.folder][0].stop(grace)

    def harvest(self, handle: Handle) -> None:
        """End the processes that the child started; the folder is already here."""
        if handle.folder in self.children:
            _, stack = self.children.pop(handle.folder)
            stack.close()


def _build_environment(request: FileMessage) -> dict[str, str]:
    """Build the environment, including the variables that a command refers to: they are passed on through environments
    only, never through a file."""
    extra = {name: os.environ[name] for name in _list_secrets(request).values() if name in os.environ}
    if isinstance(request, LaunchRequest) or starts_container(request):
        return build_launched_environment() | extra
    return build_child_environment(extra)


# Children behind the launcher of a system: srun, docker, ssh or any other command prefix.

_MARGIN = 5.0  # seconds beyond a server's time to stop, so that its end is reported


class LauncherExecutor(LocalExecutor, kw_only=True):
    """Starts the launcher in a local child and ends the processes that it leaves."""

    paths: RepositoryPaths
    name: str = "launcher"

    def get_capacity(self, settings: CellSettings) -> Capacity:
        """Return a capacity of one timed run at a time behind one launcher, which may wait in a queue while its cluster
        is busy. Machines that ssh reaches run steps independently of this machine and of each other."""
        lock = f"quiet-{hash_bytes(chr(0).join(settings.launcher.words).encode())[:16]}"
        own = reaches_own_machine(settings.launcher) and SERVICE_COMMAND not in settings
        return Capacity(lock, PATIENCE, lock if own else HERE)

    def submit(self, submission: Submission) -> Handle:
        request = put_behind_launcher(submission.attempt, submission.request, self.paths)
        return super().submit(replace(submission, request=request))


def put_behind_launcher(attempt: Attempt, request: FileMessage, paths: RepositoryPaths) -> LaunchRequest:
    """Make a request that starts the child of ``request`` behind the launcher of the attempt's system."""
    launcher = attempt.intent.settings.launcher
    counter_there = attempt.counter.with_name("counter-there")
    inner: Any = dataclasses.replace(request, counter=str(counter_there))  # type: ignore[call-arg]
    shared = paths.work / "locks"  # visible to each node and to a container
    if isinstance(inner, CommandRequest) and inner.lock:
        inner = dataclasses.replace(inner, lock=str(shared / Path(inner.lock).name))
    wrapped: dict[str, Any] = getattr(inner, "inner", {})  # of a request that wraps another one
    if wrapped.get("lock"):
        inner = dataclasses.replace(inner, inner={**wrapped, "lock": str(shared / Path(wrapped["lock"]).name)})
    inner.write(attempt.request)
    child = build_harness_command(
        inner.verb, attempt.request, attempt.answer, choose_interpreter(launcher, sys.executable)
    )
    seen = find_outermost([paths.root, paths.work, *list_locations(request)])
    name = name_submission(attempt)
    started = build_launch(launcher, child, build_elsewhere_environment(), name, seen)
    return LaunchRequest(
        command=started.command,
        answer=str(attempt.answer),
        counter=str(attempt.counter),
        counter_there=str(counter_there),
        cwd=str(paths.root),
        ending=started.ending,
        secrets=_list_secrets(request),
        stop_grace=request.stop_grace + _MARGIN if isinstance(request, ServiceRequest) else 0.0,
    )


def _list_secrets(request: FileMessage) -> dict[str, str]:
    """List the secrets that the child gets, and those that it only hides, if they are set."""
    given = dict(list_secrets(request))
    hides = request.hides if isinstance(request, ServiceRequest) else ()
    return given | {name: name for name in hides if name in os.environ}
