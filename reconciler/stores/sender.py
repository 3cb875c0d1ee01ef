"""The pass's side of remote attempts: send them to a store, and fetch the files that their jobs leave there."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from harness.contract import FileMessage, Result
from reconciler.errors import ReconcilerError, StoreError
from reconciler.execute.attempt import Attempt
from reconciler.execute.executors.executor import JOB_COUNTER, TICKET, Ticket, TransportSilentError
from reconciler.execute.request_parts import list_locations, list_secrets
from reconciler.resource.codec import decode_json
from reconciler.resource.embargo import explain_refusal, make_embargo
from reconciler.resource.queues import EXECUTOR
from reconciler.resource.settings import SubmissionSettings
from reconciler.storage.files import RepositoryPaths, hash_bytes
from reconciler.storage.files import replace as write
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.storage.untrusted_files import walk_files
from reconciler.stores.manifest import (
    NOT_LEFT,
    NOTES,
    PROGRESS,
    RESULT,
    TWICE,
    WANTED,
    AttemptStore,
    DamagedManifestError,
    FetchTicket,
    Manifest,
    ProgressNote,
    decode_manifest,
    decode_ticket,
    pack,
    receive,
    send_objects,
)
from reconciler.stores.remote import Remote, list_option_variables

NODE_MODULE = ("-P", "-m", "reconciler.stores.node")  # follows an interpreter; the ticket follows it
_MANIFEST = "parcel.json"
_LOOK = 4.0  # seconds between two progress requests for one attempt
_LEFT_HERE = frozenset({".git", ".reconcile", "__pycache__"})  # folders of a repository that no request needs


class StoreTransport(Struct):
    """``depots``: stores by name, as declared in the spec. ``remotes``: folder of an attempt → its ticket and store;
    ``looked``: folder → monotonic time of the last progress request. ``only_looks``: see ``open_transport``."""

    paths: RepositoryPaths
    depots: Mapping[str, AttemptStore] = field(default_factory=dict)
    only_looks: bool = False
    remotes: dict[Path, tuple[FetchTicket, Remote]] = field(default_factory=dict)
    looked: dict[Path, float] = field(default_factory=dict)

    def declare(self, submission: SubmissionSettings, today: date) -> None:
        embargo = make_embargo(submission)
        self.depots = {
            name: AttemptStore(store, explain_refusal(embargo, store.url, today))
            for name, store in submission.stores.items()
        }

    def send(self, attempt: Attempt, request: FileMessage, asked: FileMessage, result: Path) -> Ticket:
        depot = self._choose(attempt)
        manifest = pack(self._list_sent(attempt, asked), _list_folders(attempt.folder), _list_known(attempt))
        data, variables = manifest.encode(), list_option_variables(depot.store.options)
        ticket = FetchTicket(
            url=depot.store.url,
            options=depot.store.options,
            attempt=attempt.intent.id,
            folder=str(attempt.folder),
            manifest=hash_bytes(data),
            verb=request.verb,
            request=str(attempt.launch if attempt.launch.exists() else attempt.request),
            result=str(result),
            objects=str(self.paths.objects),
            hidden=tuple(name for name in variables if name not in list_secrets(asked).values()),
        )
        remote = ticket.open()
        remote.write_note(f"{ticket.notes}/{WANTED}", b"")
        send_objects(manifest, remote)
        write(attempt.folder / _MANIFEST, data)
        remote.put(attempt.folder / _MANIFEST, ticket.manifest, lambda _: None)
        write(attempt.folder / TICKET, ticket.encode().encode())
        self.remotes[attempt.folder] = ticket, remote
        return Ticket(ticket.encode(), NODE_MODULE, tuple(variables))

    def _choose(self, attempt: Attempt) -> AttemptStore:
        settings = attempt.intent.settings
        name = settings.get_text(f"{EXECUTOR}.{settings.queue}.store")
        depot = self.depots.get(name)
        if depot is None:
            raise ReconcilerError(f"no store {name!r} is declared", fix=f"declared: {', '.join(self.depots) or 'none'}")
        if depot.refused:
            raise ReconcilerError(f"nothing may be sent there: {depot.refused}", fix="add its url to embargo.allow")
        return depot

    def _list_sent(self, attempt: Attempt, asked: FileMessage) -> Iterator[Path]:
        """List the files of the attempt, and those that its request names within the repository. Files outside the
        repository must exist on the nodes, at the same path."""
        yield from _walk(attempt.folder)
        root = self.paths.root.resolve()
        for location in list_locations(asked):
            if location.is_file() and location.is_relative_to(root):
                yield location
            elif location.is_dir() and location.is_relative_to(root) and not location.is_relative_to(attempt.folder):
                yield from _walk(location)

    def look(self, folder: Path) -> None:
        if time.monotonic() < self.looked.get(folder, float("-inf")) + _LOOK:
            return
        self.looked[folder] = time.monotonic()
        with contextlib.suppress(StoreError, ValueError):
            ticket, remote = self._open(folder)
            data = remote.read_note(f"{ticket.notes}/{PROGRESS}")
            if data is not None:
                note: ProgressNote = decode_json(data, ProgressNote)
                contents = {"placed": note.placed.encode(), JOB_COUNTER: bytes.fromhex(note.counter)}
                contents["last-line"] = note.last_line.encode()
                for name, content in contents.items():
                    if content and folder.is_dir():
                        write(folder / name, content, durable=False)

    def bring(self, folder: Path) -> bool:
        try:
            ticket, remote = self._open(folder)
            data = remote.read_note(f"{ticket.notes}/{RESULT}")
            if data is None:
                self.looked.pop(folder, None)
                self.look(folder)  # fetch at least how far it got
                if remote.read_note(f"{ticket.notes}/{TWICE}") is not None:
                    write(folder / TWICE, b"")
                return False
            if not self.only_looks:
                _unpack_left(data, remote, folder)
            return True
        except DamagedManifestError as error:
            # Neither the queue nor the step failed: retry it, as after a failed node.
            problem, fix = f"its results arrived damaged: {error}", "check the store, then run `reconcile` again"
            lost = Result(done=False, seconds=0.0, problem=problem, problem_class="lost", fix=fix)
            lost.write(folder / "result.json")
            return True
        except (StoreError, ValueError) as error:
            raise TransportSilentError(str(error)) from error

    def withdraw(self, folder: Path) -> None:
        self._remove_notes(folder, WANTED)

    def forget(self, folder: Path) -> None:
        self._remove_notes(folder, *NOTES)
        self.remotes.pop(folder, None)
        self.looked.pop(folder, None)

    def _remove_notes(self, folder: Path, *names: str) -> None:
        """Remove the notes. If the store is down, they stay there and are ignored once the attempt is gone."""
        if self.only_looks:
            return
        with contextlib.suppress(StoreError, ValueError, OSError):
            ticket, remote = self._open(folder)
            remote.remove_notes(ticket.notes, *names)

    def _open(self, folder: Path) -> tuple[FetchTicket, Remote]:
        """Open an attempt as it was sent, possibly by another process. Raises StoreError, ValueError."""
        if folder not in self.remotes:
            try:
                ticket = decode_ticket((folder / TICKET).read_bytes())
            except OSError as error:
                refuse_storage_error(error, folder)
                raise StoreError(f"{folder} has no {TICKET}") from error
            self.remotes[folder] = ticket, ticket.open()
        return self.remotes[folder]


def _walk(folder: Path) -> Iterator[Path]:
    for path in walk_files(folder, skipped=_LEFT_HERE):
        if path.is_file() and os.access(path, os.R_OK):
            yield path


def _list_folders(folder: Path) -> list[Path]:
    return [folder, *(path for path in folder.rglob("*") if path.is_dir())]


def _list_known(attempt: Attempt) -> dict[Path, str]:
    """Map its inputs, which may be large, to their digests."""
    found = {}
    for name, sha256 in attempt.intent.made_from.items():
        folder, _, file = name.partition(".")
        found[attempt.inputs / folder / file] = sha256
    return found


def _unpack_left(data: bytes, remote: Remote, folder: Path) -> None:
    """Unpack into the folder of the attempt and nowhere else, the result last. Unpacking twice changes nothing."""
    manifest: Manifest = decode_manifest(data)
    for file in sorted(manifest.files, key=lambda file: (Path(file.path) == folder / "result.json", file.path)):
        path = Path(file.path)
        inside = path.relative_to(folder).parts if path.is_relative_to(folder) else ()
        if not inside or ".." in inside or inside[0] in NOT_LEFT:
            raise DamagedManifestError(f"{file.path} is not an expected job output")
        receive(replace(file, executable=False), remote, path)
