"""Children of this process: none of them outlives the pass that submitted it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct, field

from harness.contract import CommandRequest, FileMessage, LaunchRequest, ServiceRequest, StateRequest
from reconciler.execute.attempt import Attempt
from reconciler.execute.executors.executor import (
    START,
    Capacity,
    Handle,
    Progressing,
    State,
    Submission,
    write_handle,
)
from reconciler.execute.process_cleanup import MARK, find_adopted, make_mark
from reconciler.execute.request_parts import list_secrets
from reconciler.resource.settings import CellSettings
from reconciler.storage.process import Child, build_child_environment, build_harness_command, build_launched_environment


class LocalExecutor(Struct):
    """On this machine. ``children``: folder of a submission → its child, and what ends with it."""

    name: str = "local"
    children: dict[Path, tuple[Child, ExitStack]] = field(default_factory=dict)

    def capacity(self, settings: CellSettings) -> Capacity:  # noqa: ARG002 - of every system that is this machine
        """One timed run at a time."""
        return Capacity("quiet", START)

    def submit(self, submission: Submission) -> Handle:
        attempt, request = submission.attempt, submission.request
        path = attempt.launch if isinstance(request, LaunchRequest) else attempt.request
        request.write(path)
        attempt.output.mkdir(exist_ok=True)
        handle = Handle(self.name, attempt.folder, name_submission(attempt))
        write_handle(handle)
        with ExitStack() as stack:
            marked = stack.enter_context(_leftovers_ended(request)) if submission.sweeps else {}
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
        """The child of another process is lost: it ended with that."""
        if handle.folder not in self.children:
            return Progressing(State.LOST)
        status = self.children[handle.folder][0].wait(wait)
        return Progressing(State.RUNNING) if status is None else Progressing(State.ENDED, status)

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        if handle.folder in self.children:
            self.children[handle.folder][0].stop(grace)

    def harvest(self, handle: Handle) -> None:
        """The folder is where it was written; what the child started ends now."""
        if handle.folder in self.children:
            _, stack = self.children.pop(handle.folder)
            stack.close()


def name_submission(attempt: Attempt) -> str:
    """Name a submission of this attempt alone: also its container."""
    return f"reconcile-{attempt.intent.id}"


@contextlib.contextmanager
def _leftovers_ended(request: FileMessage) -> Iterator[dict[str, str]]:
    """Gives what the child's environment must hold for that. A harness command, a launcher and a power state have a
    keeper of their own, which must live to put things in order."""
    if isinstance(request, CommandRequest | LaunchRequest | StateRequest):
        yield {}
        return
    mark = make_mark()
    with find_adopted(mark):
        yield {MARK: mark}


def _build_environment(request: FileMessage) -> dict[str, str]:
    """With the variables that a command refers to: they pass from environment to environment, and through no file."""
    names = [*list_secrets(request).values()]
    names += request.hides if isinstance(request, ServiceRequest) else ()
    extra = {name: os.environ[name] for name in names if name in os.environ}
    if isinstance(request, LaunchRequest):
        return build_launched_environment() | extra
    return build_child_environment(extra)
