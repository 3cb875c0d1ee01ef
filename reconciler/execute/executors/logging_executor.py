"""Log lines of executors in the pass's log: submitted, each change of state, ended, harvested."""

from __future__ import annotations

import logging
from pathlib import Path

from msgspec import Struct, field

from reconciler.execute.executors.executor import Capacity, Executor, Handle, Progressing, State, Submission
from reconciler.resource.settings import CellSettings
from reconciler.storage.event_log import facts

log = logging.getLogger(__name__)


class LoggingExecutor(Struct):
    """Any executor, with logging. ``states``: folder of a submission → its state when it was last asked for."""

    executor: Executor
    states: dict[Path, State] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.executor.name

    def capacity(self, settings: CellSettings) -> Capacity:
        return self.executor.capacity(settings)

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
