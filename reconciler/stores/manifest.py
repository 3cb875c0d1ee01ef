"""List of files with their digests that travels. Small ones are in the list, the others are objects of a store."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from reconciler.execute.executors.attempt_transport import TICKET
from reconciler.resource.codec import decode_json, encode_json
from reconciler.resource.settings import StoreSettings
from reconciler.storage.files import hash_bytes, hash_file, open_replacing
from reconciler.stores.remote import Remote, open_remote, read_options

FORMAT = 1
SMALL = 64 << 10  # bytes of a file up to which it travels within the list: a question to the store costs more


class DamagedManifestError(Exception):
    """The received files are not those sent."""


class ManifestFile(Struct, frozen=True):
    """``path``: absolute, and the same on both sides. ``data``: of a small file, base64; None for an object."""

    path: str
    sha256: str
    size: int
    executable: bool = False
    data: str | None = None


class Manifest(Struct, frozen=True):
    """``folders`` are there even where nothing is in them."""

    files: tuple[ManifestFile, ...]
    folders: tuple[str, ...] = ()
    format: int = FORMAT

    def encode(self) -> bytes:
        return encode_json(self)

    def list_digests(self) -> dict[str, str]:
        """Path → digest."""
        return {file.path: file.sha256 for file in self.files}


def decode_manifest(data: bytes) -> Manifest:
    """Raises DamagedParcelError."""
    try:
        found: Manifest = decode_json(data, Manifest)
    except ValueError as error:
        raise DamagedManifestError(f"a list of files cannot be read: {error}") from error
    if found.format != FORMAT:
        raise DamagedManifestError("a list of files is of another version of mlperf-reconciler")
    return found


def pack(paths: Iterable[Path], folders: Iterable[Path] = (), known: Mapping[Path, str] | None = None) -> Manifest:
    """``known``: digests that need not be computed. A link is packed as what it leads to."""
    known = known or {}
    files = tuple(_describe(path, known.get(path, "")) for path in sorted(set(paths)))
    return Manifest(files, tuple(str(folder) for folder in sorted(set(folders))))


def _describe(path: Path, sha256: str) -> ManifestFile:
    size, executable = path.stat().st_size, os.access(path, os.X_OK)
    if size > SMALL:
        return ManifestFile(str(path), sha256 or hash_file(path), size, executable)
    data = path.read_bytes()
    return ManifestFile(str(path), hash_bytes(data), len(data), executable, base64.b64encode(data).decode())


def send_objects(parcel: Manifest, remote: Remote) -> None:
    """Send the objects that are not there yet. Raises StoreError."""
    for file in parcel.files:
        if file.data is None and remote.get_size(file.sha256) != file.size:
            remote.put(Path(file.path), file.sha256, lambda _: None)


def receive(file: ManifestFile, remote: Remote, path: Path) -> None:
    """Write one file to ``path``, at once and only with the bytes that its digest names. Raises DamagedParcelError,
    StoreError, StorageError."""
    digest, left = hashlib.sha256(), file.size
    with open_replacing(path) as stream:
        for chunk in _read(file, remote):
            left -= len(chunk)
            if left < 0:
                raise DamagedManifestError(f"{path.name} came with more bytes than its {file.size:,}")
            digest.update(chunk)
            stream.write(chunk)
        if digest.hexdigest() != file.sha256:
            raise DamagedManifestError(f"{path.name} came with the digest {digest.hexdigest()[:12]}…, not its own")
    if file.executable:
        path.chmod(0o755)


def _read(file: ManifestFile, remote: Remote) -> Iterator[bytes]:
    if file.data is not None:
        try:
            yield base64.b64decode(file.data, validate=True)
        except ValueError as error:
            raise DamagedManifestError(f"{Path(file.path).name} cannot be read: {error}") from error
        return
    try:
        yield from remote.read(file.sha256)
    except FileNotFoundError as error:
        raise DamagedManifestError(f"{Path(file.path).name} is not in the store") from error


# Ticket of a job for the attempt that it is to fetch, and the notes that both sides keep of it in the store.

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
