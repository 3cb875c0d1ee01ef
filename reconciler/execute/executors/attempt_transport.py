"""The protocol of carriers: they bring attempts to nodes without the repository's folder, and their results back."""

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

TICKET = "ticket.json"  # in the folder of an attempt that travels: what its job needs to fetch it


class Ticket(Struct, frozen=True):
    """``command``: what a job starts with the name of a file that holds ``text``. ``variables``: those of this
    process's environment that it needs."""

    text: str
    command: tuple[str, ...]
    variables: tuple[str, ...] = ()


class TransportSilentError(Exception):
    """The transport does not answer: its files are there, perhaps."""


class AttemptTransport(Protocol):
    """By the folder of an attempt. All but ``send`` work for what another process sent, too."""

    def declare(self, submission: SubmissionSettings, today: date) -> None:
        """Declare the stores, and whether results may go there today (UTC)."""

    def send(self, attempt: Attempt, request: FileMessage, asked: FileMessage, result: Path) -> Ticket:
        """Hand over what a job needs. ``request``: what it carries out; ``asked``: the same without a launcher before
        it. Raises ReconcilerError."""

    def look(self, folder: Path) -> None:
        """Bring here how far it is, and where it runs; now and then, however often it is asked."""

    def bring(self, folder: Path) -> bool:
        """Bring here what the job left; whether it had ended. Raises CarrierSilentError."""

    def withdraw(self, folder: Path) -> None:
        """A job that has not begun shall not begin any more, and one that runs shall end."""

    def forget(self, folder: Path) -> None:
        """Forget a recorded attempt: it is not asked for again."""


def open_transport(paths: RepositoryPaths, *, only_looks: bool = False) -> AttemptTransport | None:
    """None where the part was removed. ``only_looks``: an ended attempt stays in the store, for the pass that waits for
    it, and no job is asked to end."""
    found: Callable[..., AttemptTransport] | None = load_part("stores")
    return None if found is None else found(paths, only_looks=only_looks)
