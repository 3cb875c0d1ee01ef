"""The table of executors, and the choice of the executor for a request."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Self

from msgspec import Struct, field

from harness.contract import CommandRequest, FileMessage, ServiceRequest
from reconciler.execute.attempt import Attempt
from reconciler.execute.executors.executor import (
    AttemptTransport,
    Capacity,
    Executor,
    Handle,
    Progressing,
    State,
    Submission,
    read_handle,
)
from reconciler.execute.executors.local import LauncherExecutor, LocalExecutor
from reconciler.execute.executors.queue_executor import JobQueue, QueueExecutor
from reconciler.resource.kinds import Kind
from reconciler.resource.queues import QUEUES
from reconciler.resource.settings import SCORE_COMMAND, CellSettings
from reconciler.storage.event_log import facts
from reconciler.storage.files import RepositoryPaths

# Log lines of executors in the pass's log: submitted, changes of state, ended, harvested.

log = logging.getLogger(__name__)


class LoggingExecutor(Struct):
    """Adds logging to any executor. ``states``: folder of a submission → its last known state."""

    executor: Executor
    states: dict[Path, State] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.executor.name

    def get_capacity(self, settings: CellSettings) -> Capacity:
        return self.executor.get_capacity(settings)

    def submit(self, submission: Submission) -> Handle:
        handle = self.executor.submit(submission)
        resource = str(submission.attempt.intent.address)
        self._log("submitted", handle, resource=resource, verb=submission.request.verb)
        return handle

    def poll(self, handle: Handle, wait: float = 0.0) -> Progressing:
        found = self.executor.poll(handle, wait)
        before = self.states.get(handle.folder)
        if found.state is not before:
            self.states[handle.folder] = found.state
            message = "state changed" if found.goes_on else "ended"
            self._log(message, handle, before=before, state=found.state, status=found.status)
        return found

    def cancel(self, handle: Handle, grace: float = 2.0) -> None:
        self._log("cancelled", handle)
        self.executor.cancel(handle, grace)

    def harvest(self, handle: Handle) -> None:
        self.executor.harvest(handle)
        self.states.pop(handle.folder, None)
        self._log("harvested", handle)

    def _log(self, message: str, handle: Handle, **more: object) -> None:
        log.info(message, extra=facts(attempt=handle.folder.name, executor=self.name, name=handle.name, **more))


# Kinds that must run on the machine of a system. Data sets, models and scores are the same on every machine; a scoring
# command or a server uses the image of the command that runs.
_OF_THE_MACHINE = (Kind.ENGINE, Kind.RUN, Kind.COMPLIANCE_TEST)


class Executors(Struct, frozen=True):
    """The executors by name. One set serves a whole pass, since executors remember what they started."""

    by_name: Mapping[str, Executor]

    @classmethod
    def make(cls, paths: RepositoryPaths, transport: AttemptTransport | None = None) -> Self:
        """Make the executors of a repository. ``transport``: for attempts whose nodes do not see their folder."""
        executors: list[Executor] = [LocalExecutor(), LauncherExecutor(paths=paths)]
        executors += (QueueExecutor(name, paths, _make_queue(each.queue), transport) for name, each in QUEUES.items())
        return cls({executor.name: LoggingExecutor(executor) for executor in executors})

    def choose_for_system(self, settings: CellSettings) -> Executor:
        """Return the executor that reaches a system's machine."""
        if settings.is_queued:
            return self.by_name[settings.queue]
        return self.by_name["local" if settings.runs_here else "launcher"]

    def choose_for_kind(self, kind: Kind, settings: CellSettings) -> Executor:
        """Return the executor for resources of this kind, as far as that is known before the request."""
        scores = kind in (Kind.SCORE, Kind.VERDICT) and SCORE_COMMAND in settings
        return self.choose_for_system(settings if kind in _OF_THE_MACHINE or scores else CellSettings({}))

    def choose(self, attempt: Attempt, request: FileMessage) -> Executor:
        users = isinstance(request, CommandRequest | ServiceRequest)
        settings = attempt.intent.settings
        return (
            self.choose_for_system(settings) if users else self.choose_for_kind(attempt.intent.address.kind, settings)
        )

    def end(self, folder: Path) -> None:
        """End any submission of this folder."""
        handle = read_handle(folder)
        if handle is not None and handle.executor in self.by_name:
            executor = self.by_name[handle.executor]
            executor.cancel(handle)
            executor.harvest(handle)

    def is_still_running(self, handle: Handle | None) -> bool:
        """Return True if a submission of an earlier pass is still running or waiting."""
        executor = self.by_name.get(handle.executor) if handle else None
        return handle is not None and executor is not None and executor.poll(handle).goes_on


def _make_queue(name: str) -> JobQueue:
    module, _, attribute = name.partition(":")
    queue: JobQueue = getattr(import_module(module), attribute)()
    return queue
