"""``python -P -m reconciler.stores.node TICKET``: the node's side of a remote attempt.

Fetches the attempt, starts its child, reports progress, and sends the files back. Fetched artifacts stay on the node
for later attempts; the attempt itself is removed.
"""

from __future__ import annotations

import base64
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from reconciler.errors import ReconcilerError, StoreError
from reconciler.execute.executors.executor import JOB_COUNTER, read_handle
from reconciler.execute.executors.job_script import GONE, TWICE
from reconciler.resource.codec import encode_json
from reconciler.storage.files import hash_bytes, offer, remove
from reconciler.storage.process import Child, build_harness_command
from reconciler.storage.untrusted_files import walk_files
from reconciler.stores import manifest
from reconciler.stores.manifest import (
    DamagedManifestError,
    FetchTicket,
    Manifest,
    ManifestFile,
    ProgressNote,
    decode_manifest,
    decode_ticket,
    pack,
    receive,
    send_objects,
)
from reconciler.stores.remote import Remote

Done = TypeVar("Done")
_NOTE_INTERVAL = 4.0  # seconds between two progress notes
_LOOK = 0.25
_REFUSED = 75  # exit status if the attempt could not be fetched, or its files could not be sent
_PAUSE = 5.0  # seconds between two requests to a store that does not answer
_FETCHING, _SENDING = 60.0, 3600.0  # seconds of retries; sending gets more, since the run may have taken a long time


class NodeRunner(Struct):
    """``unwanted``: set once the pass no longer wants the attempt."""

    ticket: FetchTicket
    remote: Remote
    environment: dict[str, str]
    unwanted: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def folder(self) -> Path:
        return Path(self.ticket.folder)

    def carry_out(self) -> int:
        """Run the attempt and return the exit status of the job."""
        if self._read(manifest.WANTED) is None:
            return GONE
        if self._read(manifest.BEGUN) is not None:
            self._write(manifest.TWICE, b"")
            return TWICE
        self._write(manifest.BEGUN, b"")
        teller = threading.Thread(target=self._report_often, daemon=True)
        self._send_note()
        sent = retry(self._fetch, _FETCHING)
        teller.start()
        status = self._run_child()
        self.ended.set()
        teller.join()
        if self.unwanted.is_set():
            return GONE
        self._send(sent)
        return status

    def refuse(self, why: str) -> int:
        """Send the reason as the log of the attempt, which produced nothing else."""
        data = f"{why}\n".encode()
        path = str(self.folder / "child.log")
        log = ManifestFile(path, hash_bytes(data), len(data), data=base64.b64encode(data).decode())
        self._write(manifest.RESULT, Manifest((log,)).encode())
        return _REFUSED

    def _fetch(self) -> Manifest:
        data = b"".join(self.remote.read(self.ticket.manifest))
        if hash_bytes(data) != self.ticket.manifest:
            raise DamagedManifestError("the request has another digest")
        sent = decode_manifest(data)
        for folder in sent.folders:
            Path(folder).mkdir(parents=True, exist_ok=True)
        for file in sent.files:
            path = Path(file.path)
            if file.data is not None or not path.is_relative_to(self.folder / "inputs"):
                receive(file, self.remote, path)
                continue
            kept = Path(self.ticket.objects) / file.sha256[:2] / file.sha256
            if not kept.is_file() or kept.stat().st_size != file.size:
                receive(file, self.remote, kept)
            path.unlink(missing_ok=True)
            offer(kept, path)
        return sent

    def _run_child(self) -> int:
        command = build_harness_command(self.ticket.verb, Path(self.ticket.request), Path(self.ticket.result))
        environment = {**self.environment, "RECONCILE_PARENT": str(os.getpid())}
        log = self.folder / "child.log"
        with Child(command, folder=self.folder, log=log, environment=environment) as child:
            while (status := child.wait(_LOOK)) is None:
                if self.unwanted.is_set():
                    child.stop()
        return abs(status)

    def _send(self, sent: Manifest) -> None:
        """Send every file that is new or has changed."""
        known = sent.list_digests()
        found = pack(self._list_left())
        left = Manifest(tuple(file for file in found.files if known.get(file.path) != file.sha256))

        def send() -> None:
            send_objects(left, self.remote)
            self._write(manifest.RESULT, left.encode())

        retry(send, _SENDING)

    def _list_left(self) -> Iterator[Path]:
        for path in walk_files(self.folder):
            inside = path.relative_to(self.folder).parts
            if inside[0] not in manifest.NOT_LEFT and path.is_file() and not path.is_symlink():
                yield path

    def _report_often(self) -> None:
        while not self.ended.wait(_NOTE_INTERVAL):
            with suppress(StoreError):  # the run continues, since the store may answer later
                self._send_note()
                if self._read(manifest.WANTED) is None:
                    self.unwanted.set()
                    return

    def _send_note(self) -> None:
        contents = (_read_bytes(self.folder / name) for name in ("placed", JOB_COUNTER, "last-line"))
        placed, counter, line = contents
        note = ProgressNote(placed.decode(errors="replace"), counter.hex(), line.decode(errors="replace"))
        self._write(manifest.PROGRESS, encode_json(note))

    def _read(self, note: str) -> bytes | None:
        return self.remote.read_note(f"{self.ticket.notes}/{note}")

    def _write(self, note: str, data: bytes) -> None:
        self.remote.write_note(f"{self.ticket.notes}/{note}", data)


def retry(action: Callable[[], Done], patience: float) -> Done:
    """Retry for ``patience`` seconds while the store does not answer, then raise its last error."""
    give_up = time.monotonic() + patience
    while True:
        try:
            return action()
        except StoreError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(_PAUSE)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def main(words: list[str]) -> int:
    ticket = decode_ticket(Path(words[0]).read_bytes())
    environment = {name: value for name, value in os.environ.items() if name not in ticket.hidden}
    try:
        runner = NodeRunner(ticket, ticket.open(), environment)
        if read_handle(runner.folder) is not None:  # exists only where the attempt was submitted
            return runner.refuse("remove `store` from the system's executor: this node has access to the pass's folder")
        try:
            return runner.carry_out()
        except (ReconcilerError, DamagedManifestError, OSError) as error:
            return runner.refuse(str(error))
        finally:
            remove(runner.folder)
    except (ReconcilerError, DamagedManifestError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return _REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
