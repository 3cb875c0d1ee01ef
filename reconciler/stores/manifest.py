"""Manifest of transferred files and their digests. Small files are embedded; the others are objects of a store."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from reconciler.execute.executors.executor import TICKET
from reconciler.resource.codec import decode_json, encode_json
from reconciler.resource.settings import StoreSettings
from reconciler.storage.files import hash_bytes, hash_file, open_replacing
from reconciler.stores.remote import Remote, open_remote

FORMAT = 1
SMALL = 64 << 10  # bytes; a file up to this size is embedded in the manifest, which costs less than a request


class DamagedManifestError(Exception):
    """The received files differ from those sent."""


class ManifestFile(Struct, frozen=True):
    """``path``: absolute, the same on both sides. ``data``: base64 content of a small file; None for an object."""

    path: str
    sha256: str
    size: int
    executable: bool = False
    data: str | None = None


class Manifest(Struct, frozen=True):
    """``folders`` are created even if they are empty."""

    files: tuple[ManifestFile, ...]
    folders: tuple[str, ...] = ()
    format: int = FORMAT

    def encode(self) -> bytes:
        return encode_json(self)

    def list_digests(self) -> dict[str, str]:
        """Map each path to its digest."""
        return {file.path: file.sha256 for file in self.files}


def decode_manifest(data: bytes) -> Manifest:
    """Decode a manifest. Raises DamagedManifestError if it is malformed."""
    try:
        found: Manifest = decode_json(data, Manifest)
    except ValueError as error:
        raise DamagedManifestError(f"a list of files cannot be read: {error}") from error
    if found.format != FORMAT:
        raise DamagedManifestError("the list of files was written by another version of mlperf-reconciler")
    return found


def pack(paths: Iterable[Path], folders: Iterable[Path] = (), known: Mapping[Path, str] | None = None) -> Manifest:
    """Make a manifest. ``known``: digests that need not be computed. A link is packed as the file that it points to."""
    known = known or {}
    files = tuple(_describe(path, known.get(path, "")) for path in sorted(set(paths)))
    return Manifest(files, tuple(str(folder) for folder in sorted(set(folders))))


def _describe(path: Path, sha256: str) -> ManifestFile:
    size, executable = path.stat().st_size, os.access(path, os.X_OK)
    if size > SMALL:
        return ManifestFile(str(path), sha256 or hash_file(path), size, executable)
    data = path.read_bytes()
    return ManifestFile(str(path), hash_bytes(data), len(data), executable, base64.b64encode(data).decode())


def send_objects(manifest: Manifest, remote: Remote) -> None:
    """Send the objects that the store does not have yet. Raises StoreError."""
    for file in manifest.files:
        if file.data is None and remote.get_size(file.sha256) != file.size:
            remote.put(Path(file.path), file.sha256, lambda _: None)


def receive(file: ManifestFile, remote: Remote, path: Path) -> None:
    """Write one file to ``path`` atomically, and only if its bytes match its digest. Raises DamagedManifestError,
    StoreError, StorageError."""
    digest, left = hashlib.sha256(), file.size
    with open_replacing(path) as stream:
        for chunk in _read(file, remote):
            left -= len(chunk)
            if left < 0:
                raise DamagedManifestError(f"{path.name} has more than {file.size:,} bytes")
            digest.update(chunk)
            stream.write(chunk)
        if digest.hexdigest() != file.sha256:
            raise DamagedManifestError(f"{path.name} has the digest {digest.hexdigest()[:12]}…, not the recorded one")
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


# The ticket with which a job fetches its attempt, and the notes that both sides keep about it in the store.

# Notes of one attempt, below its folder in the store. WANTED exists until the pass has taken the result or given it up;
# BEGUN exists once a job has started it, TWICE once a second job has; PROGRESS while it runs; RESULT lists its output
# and is written last.
WANTED, BEGUN, TWICE, PROGRESS, RESULT = ("wanted", "begun", "twice", "progress", "result")
NOTES = (WANTED, BEGUN, TWICE, PROGRESS, RESULT)
# Parts of an attempt's folder that no job sends back: those that were sent to it, and a command's work folder, which no
# record uses.
NOT_LEFT = frozenset({"attempt.json", "handle.json", "inputs", "run", TICKET})


class FetchTicket(Struct, frozen=True):
    """``url`` and ``options`` of the store, as declared: they refer to a secret by its variable. ``attempt``: its ID;
    ``folder``: its path on both sides; ``manifest``: digest of the manifest of sent files. ``verb``, ``request`` and
    ``result``: arguments of its child; ``objects``: the node's cache of files that many attempts need; ``hidden``:
    variables with the store's secrets, unless the request uses them."""

    url: str
    options: Mapping[str, object]
    attempt: str
    folder: str
    manifest: str = field(default="", name="parcel")
    verb: str = ""
    request: str = ""
    result: str = ""
    objects: str = ""
    hidden: tuple[str, ...] = ()

    @property
    def notes(self) -> str:
        """Return the folder of its notes, below the store."""
        return f"attempts/{self.attempt}"

    def encode(self) -> str:
        return encode_json(self).decode()

    def open(self) -> Remote:
        """Open the store. Raises StoreError."""
        return open_remote(self.url, self.options)


def decode_ticket(data: bytes) -> FetchTicket:
    """Decode a ticket. Raises ValueError."""
    found: FetchTicket = decode_json(data, FetchTicket)
    return found


class ProgressNote(Struct, frozen=True):
    """Progress of a running node: its files ``placed`` and ``last-line``, and its counter in hexadecimal."""

    placed: str = ""
    counter: str = ""
    last_line: str = ""


class AttemptStore(Struct, frozen=True):
    """A store through which attempts may travel. ``refused``: why nothing may be sent there today, or ""."""

    store: StoreSettings
    refused: str = ""
