"""The protocol of transports, which bring attempts to nodes that do not see the repository's folder, and return their
results."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from harness.contract import FileMessage
from reconciler.execute.attempt import Attempt
from reconciler.resource.parts import load_part
from reconciler.resource.settings import SubmissionSettings
from reconciler.storage.files import RepositoryPaths

TICKET = "ticket.json"  # in the folder of a sent attempt: what its job needs to fetch it


class Ticket(Struct, frozen=True):
    """Instructions for the job of a sent attempt. ``command``: what a job runs, followed by the name of a file that
    contains ``text``. ``variables``: the environment variables of this process that it needs."""

    text: str
    command: tuple[str, ...]
    variables: tuple[str, ...] = ()


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
