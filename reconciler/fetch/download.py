"""Download one file from the first of its addresses that works: in parts, verified, and renamed only once complete.

A partial file waits in a separate folder of the scratch space, with a note of its source. However a download ends, the
next one resumes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field

from reconciler.errors import LockedError, ReconcilerError, StoreError
from reconciler.fetch.scratch import hash_with
from reconciler.fetch.sources import AddressError, NothingLeftError, Opened, TransientError, open_source
from reconciler.rules.benchmark_files import GIT, FileDigest
from reconciler.storage.files import Lock, flush_folder, read_size, remove, replace
from reconciler.storage.json_files import read_json
from reconciler.storage.parallel_transfers import TransferStoppedError
from reconciler.storage.storage_errors import convert_storage_errors
from reconciler.storage.untrusted_files import SpecialFileError

_READ = 1 << 20
_START = 512  # bytes that suffice to recognise a web page
_LEAST = 1024  # bytes that must arrive within the patience
_LONGEST = 60.0  # seconds between two attempts, unless the server requests more
_LONGEST_REQUESTED = 300.0  # seconds that a server may request


class DownloadLimits(Struct, frozen=True):
    """Limits of a download. ``timeout``: seconds without any byte; ``attempts``: attempts that bring no new byte;
    ``patience``: seconds in which at least ``_LEAST`` bytes must arrive; ``largest``: bytes of one file."""

    timeout: float = 30.0
    attempts: int = 5
    backoff: float = 1.0
    patience: float = 120.0
    largest: int = 1 << 41


class DownloadProgress(Struct):
    """Counts the bytes of all downloads of one fetch, and stops the downloads on request."""

    report: Callable[[int], None] = lambda _: None
    passed: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count_moved(self, count: int) -> None:
        if self.stopped.is_set():
            raise TransferStoppedError
        with self.lock:
            self.passed += count
            self.report(self.passed)

    def pause(self, seconds: float) -> None:
        if self.stopped.wait(seconds):
            raise TransferStoppedError


class Download(Struct, frozen=True):
    """A file to download. ``folder``: for partial files, on the file system of ``target``. ``is_locked``: the caller
    excludes others."""

    target: Path
    addresses: tuple[str, ...]
    digest: FileDigest | None
    folder: Path
    is_locked: bool = False

    @property
    def part(self) -> Path:
        name = hashlib.sha256(str(self.target).encode(errors="surrogateescape")).hexdigest()[:16]
        return self.folder / f"{name}-{self.target.name}.part"

    @property
    def note(self) -> Path:
        return self.part.with_suffix(".json")


class Downloaded(Struct, frozen=True):
    """A downloaded file. ``sha256``: its digest; ``digest``: the digest that was expected, if any."""

    address: str
    size: int
    sha256: str
    digest: FileDigest | None


class WrongDigestError(AddressError):
    """An address returned another file."""


def download(item: Download, limits: DownloadLimits, progress: DownloadProgress) -> Downloaded:
    """Download a file. Raises StoreError (the last address's) if no address gives the file, StorageError if this disk
    cannot store it, TransferStoppedError."""
    with nullcontext() if item.is_locked else lock_part(item.part.with_suffix(".lock"), item.target.name):
        found = _download_from_any(_RunningDownload(item, limits, progress))
        with convert_storage_errors(item.target):
            item.target.parent.mkdir(parents=True, exist_ok=True)
            item.part.chmod(0o644)
            item.part.replace(item.target)
            flush_folder(item.target.parent)
        remove(item.note)
    return found


@contextmanager
def lock_part(path: Path, name: str) -> Iterator[None]:
    """Lock a partial file, so that two processes never write it. Raises StoreError with the other process's name."""
    lock = Lock(path, purpose=f"fetching {name}", shared_folder=True)
    try:
        acquired = lock.acquire()
    except LockedError as error:
        raise StoreError(f"{name}: {error.message}", fix=error.fix) from error
    with acquired:
        yield


class _RunningDownload(Struct):
    """A running download. ``counted``: bytes reported to the progress so far, over all attempts."""

    item: Download
    limits: DownloadLimits
    progress: DownloadProgress
    counted: int = 0

    def note_size(self, size: int) -> None:
        self.progress.count_moved(max(0, size - self.counted))
        self.counted = max(self.counted, size)


def _download_from_any(run: _RunningDownload) -> Downloaded:
    """Try each address in turn. The next address continues a partial file only if the whole file can be verified."""
    failures: list[ReconcilerError] = []
    for address in run.item.addresses:
        try:
            return _download_from(run, address)
        except (AddressError, TransientError) as error:
            failures.append(error)
    if not failures:
        raise StoreError(f"{run.item.target.name} has no address", fix="download it by hand")
    if len(failures) == 1:
        raise failures[0]
    messages = "; ".join(error.message for error in failures)
    problem = f"all {len(failures)} addresses of {run.item.target.name} failed: {messages}"
    raise StoreError(problem, fix=failures[-1].fix)


def _download_from(run: _RunningDownload, address: str) -> Downloaded:
    item, limits, idle = run.item, run.limits, 0
    while True:
        before = read_size(item.part)
        try:
            return _attempt(run, address)
        except TransientError as error:
            idle = 0 if read_size(item.part) > before else idle + 1
            if idle >= limits.attempts:
                raise
            if error.after > _LONGEST_REQUESTED:
                message = f"{error.message}: retry in {error.after:.0f} s"
                raise TransientError(message, after=error.after) from error
            run.progress.pause(error.after or min(_LONGEST, limits.backoff * 2**idle))


def _attempt(run: _RunningDownload, address: str) -> Downloaded:
    """Make one connection, or two if the partial file turns out to belong to another file."""
    item = run.item
    resumed = read_size(item.part) > 0
    try:
        return _verify(item, address, _append(run, address))
    except (WrongDigestError, NothingLeftError):
        remove(item.part)
        remove(item.note)
        if not resumed:
            raise
    return _verify(item, address, _append(run, address))


class _Whole(Struct):
    """Writes bytes and hashes them."""

    sha256: hashlib._Hash
    asked: hashlib._Hash | None
    size: int = 0

    def add(self, data: bytes) -> None:
        self.sha256.update(data)
        if self.asked is not None:
            self.asked.update(data)
        self.size += len(data)


def _append(run: _RunningDownload, address: str) -> _Whole:
    """Append all missing bytes. Raises TransientError if the connection ends before the file does."""
    item = run.item
    with convert_storage_errors(item.part), _open_part(item.part) as stream:
        have, validator = _find_resumable(item, address, stream)
        limits = run.limits
        opened = open_source(address, have, validator, timeout=limits.timeout, patience=limits.patience)
        try:
            if opened.start != have:
                stream.truncate(opened.start)
            note = {"address": address, "validator": opened.validator, "target": str(item.target)}
            replace(item.note, json.dumps(note).encode(), durable=False)
            whole = _hash_part(item, stream, opened.start)
            run.note_size(opened.start)
            _receive(run, opened, stream, whole)
        finally:
            opened.stream.close()
            stream.flush()
            os.fsync(stream.fileno())
    if opened.total is not None and whole.size != opened.total:
        what = f"{address}: the connection ended after {whole.size:,} of {opened.total:,} bytes"
        raise TransientError(what) if whole.size < opened.total else AddressError(what, fix="name a mirror")
    return whole


def _open_part(path: Path) -> BinaryIO:
    """Open a partial file for reading and appending. Others may write into a scratch space too: a link there could lead
    to one of our files, which would be emptied."""
    descriptor = os.open(
        path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666
    )
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise SpecialFileError(path, "it is a link or a special file: remove it, and fetch again")
    return os.fdopen(descriptor, "a+b")


def _receive(run: _RunningDownload, opened: Opened, stream: BinaryIO, whole: _Whole) -> None:
    limits = run.limits
    since, enough = time.monotonic(), whole.size + _LEAST
    for data in opened.read():
        stream.write(data)
        whole.add(data)
        run.note_size(whole.size)
        if whole.size > limits.largest:
            raise AddressError(f"the server sent more than {limits.largest:,} bytes", fix="name a mirror")
        now = time.monotonic()
        if whole.size >= enough:
            since, enough = now, whole.size + _LEAST
        elif now - since > limits.patience:
            raise TransientError(f"almost no data received for {limits.patience:g} s")


def _find_resumable(item: Download, address: str, stream: BinaryIO) -> tuple[int, str]:
    """Return the resumable bytes of the part, and the validator that the server must still match. Without a published
    digest, only the server can confirm that the rest belongs to the part."""
    have = stream.seek(0, os.SEEK_END)
    try:
        note = read_json(item.note)
        same, validator = note["address"] == address, str(note["validator"])
    except (OSError, ValueError, KeyError, TypeError):
        same, validator = False, ""
    if have and (item.digest is not None or (same and validator)):
        return have, validator if same else ""
    stream.truncate(0)
    return 0, ""


def _hash_part(item: Download, stream: BinaryIO, have: int) -> _Whole:
    algorithm = item.digest.algorithm if item.digest is not None else "sha256"
    own = hashlib.new(algorithm, usedforsecurity=False) if algorithm not in ("sha256", GIT) else None
    whole = _Whole(hashlib.sha256(), own)
    stream.seek(0)
    while whole.size < have and (data := stream.read(min(_READ, have - whole.size))):
        whole.add(data)
    stream.seek(0, os.SEEK_END)
    return whole


def _verify(item: Download, address: str, whole: _Whole) -> Downloaded:
    sha256, asked = whole.sha256.hexdigest(), item.digest
    found = whole.asked.hexdigest() if whole.asked is not None else sha256
    if asked is not None and asked.algorithm == GIT:  # git's digest needs the size before the first byte
        found = hash_with(item.part, GIT)
    if not whole.size:
        raise WrongDigestError(f"{address} returned an empty file", fix="use a mirror: --mirror URL|DIR")
    if asked is None and _is_page(item.part):
        fix = "open the address in a browser: it may require a login; or use a mirror: --mirror URL|DIR"
        raise WrongDigestError(f"{address} returned a web page, not the file", fix=fix)
    if asked is not None and not asked.accepts(found):
        said = f"{address}: the file has the {asked.algorithm} {found}, and {asked.origin} publishes {asked.value}"
        fix = "it may have been replaced, or altered by a proxy: check the address, or use a mirror"
        raise WrongDigestError(said, fix=fix)
    return Downloaded(address, whole.size, sha256, asked)


def _is_page(path: Path) -> bool:
    """Recognise the web page that servers send, with a success status, instead of an unavailable file."""
    with path.open("rb") as stream:
        return stream.read(_START).lstrip().lower().startswith((b"<!doctype html", b"<html"))
