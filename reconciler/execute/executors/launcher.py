"""Children behind the launcher of a system: srun, docker, ssh or any other words before a command."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from harness.contract import CommandRequest, FileMessage, LaunchRequest, ServiceRequest
from reconciler.execute.attempt import Attempt
from reconciler.execute.executors.executor import HERE, PATIENCE, Capacity, Handle, Progressing, Submission
from reconciler.execute.executors.local import LocalExecutor
from reconciler.execute.request_parts import list_locations, list_secrets, name_submission
from reconciler.resource.settings import SERVICE_COMMAND, CellSettings
from reconciler.storage.files import RepositoryPaths, hash_bytes
from reconciler.storage.launch.adapters import build_launch, choose_interpreter, find_outermost, reaches_own_machine
from reconciler.storage.process import build_elsewhere_environment, build_harness_command

_MARGIN = 5.0  # seconds beyond those that a server may take to end, for its end to be reported


class LauncherExecutor(Struct):
    """A child here that starts the launcher, and ends what it leaves. ``local`` keeps these children."""

    paths: RepositoryPaths
    name: str = "launcher"
    local: LocalExecutor = field(default_factory=lambda: LocalExecutor("launcher"))

    def capacity(self, settings: CellSettings) -> Capacity:
        """One timed run at a time behind one launcher, which may wait in a queue for as long as its cluster is busy.
        Boxes that ssh reaches are machines of their own, which work at the same time as this one and as each other."""
        lock = f"quiet-{hash_bytes(chr(0).join(settings.launcher.words).encode())[:16]}"
        own = reaches_own_machine(settings.launcher) and SERVICE_COMMAND not in settings
        return Capacity(lock, PATIENCE, lock if own else HERE)

    def submit(self, submission: Submission) -> Handle:
        request = put_behind_launcher(submission.attempt, submission.request, self.paths)
        return self.local.submit(replace(submission, request=request))

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        return self.local.poll(handle, wait)

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        self.local.cancel(handle, grace)

    def harvest(self, handle: Handle) -> None:
        self.local.harvest(handle)


def put_behind_launcher(attempt: Attempt, request: FileMessage, paths: RepositoryPaths) -> LaunchRequest:
    """A request that starts the child of this one behind the launcher of the attempt's system."""
    launcher = attempt.intent.settings.launcher
    counter_there = attempt.counter.with_name("counter-there")
    inner: Any = dataclasses.replace(request, counter=str(counter_there))  # type: ignore[call-arg]
    shared = paths.work / "locks"  # where each node, and a container, sees it
    if isinstance(inner, CommandRequest) and inner.lock:
        inner = dataclasses.replace(inner, lock=str(shared / Path(inner.lock).name))
    wrapped: dict[str, Any] = getattr(inner, "inner", {})  # of a request around another one
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
    """List the secrets that the child is given; and those which it only hides, where they are set."""
    given = dict(list_secrets(request))
    hides = request.hides if isinstance(request, ServiceRequest) else ()
    return given | {name: name for name in hides if name in os.environ}
