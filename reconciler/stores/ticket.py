"""Ticket of a job for the attempt that it is to fetch, and the notes that both sides keep of it in the store."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from reconciler.execute.executors.attempt_transport import TICKET
from reconciler.resource.codec import decode_json, encode_json
from reconciler.resource.settings import StoreSettings
from reconciler.stores.remote import Remote, open_remote, read_options

# Notes of one attempt, below its folder in the store. WANTED until its pass has taken the result or given it up; BEGUN
# once a job has it, and TWICE after another came; PROGRESS while that runs; RESULT: what it left, the last of all.
WANTED, BEGUN, TWICE, PROGRESS, RESULT = ("wanted", "begun", "twice", "progress", "result")
NOTES = (WANTED, BEGUN, TWICE, PROGRESS, RESULT)
# Files of an attempt's folder that no job leaves: those that were sent, and a command's work folder, from which no
# record takes anything.
NOT_LEFT = frozenset({"attempt.json", "handle.json", "inputs", "run", TICKET})


class FetchTicket(Struct, frozen=True):
    """``url`` and ``options`` of the store, as declared: a secret is named by its variable. ``attempt``: its id;
    ``folder``: where it is on either side; ``parcel``: digest of the list of files that are sent. ``verb``, ``request``
    and ``result``: of the child that carries it out; ``objects``: where a node keeps what many attempts need;
    ``hidden``: variables that hold secrets of the store, and none of the request."""

    url: str
    options: Mapping[str, object]
    attempt: str
    folder: str
    parcel: str = ""
    verb: str = ""
    request: str = ""
    result: str = ""
    objects: str = ""
    hidden: tuple[str, ...] = ()

    @property
    def notes(self) -> str:
        """The folder of its notes, below the store."""
        return f"attempts/{self.attempt}"

    def encode(self) -> str:
        return encode_json(self).decode()

    def open(self) -> Remote:
        """Raises StoreError."""
        return open_remote(self.url, read_options(self.options))


def decode_ticket(data: bytes) -> FetchTicket:
    """Raises ValueError."""
    found: FetchTicket = decode_json(data, FetchTicket)
    return found


class ProgressNote(Struct, frozen=True):
    """Progress from a node while it works: its files ``placed`` and ``last-line``, and its counter in hexadecimal."""

    placed: str = ""
    counter: str = ""
    last_line: str = ""


class AttemptStore(Struct, frozen=True):
    """A store through which attempts may travel. ``refused``: why nothing may go there today, "" when it may."""

    store: StoreSettings
    refused: str = ""
