"""Transfer missing objects between the local object store and a remote one, checking each by its digest.

An object gets its name only if its bytes match the digest; a partial one waits in ``incoming``. An interrupted transfer
therefore continues from where it stopped.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from reconciler.errors import StorageError, StoreError
from reconciler.record.store import find_object, put_object
from reconciler.resource.kinds import Address
from reconciler.resource.records import Recorded
from reconciler.storage.files import RepositoryPaths, hash_file, read_size, remove
from reconciler.storage.parallel_transfers import TransferStoppedError, run_transfers
from reconciler.storage.storage_errors import PARTIAL, convert_storage_errors
from reconciler.stores.remote import Remote

_Item = TypeVar("_Item")
_Ended = TypeVar("_Ended")
_LEAST = 1024  # bytes that must pass within ``patience``
NOT_PUSHED = "it was never pushed to the store"
_SPARE = 64 << 20  # bytes that a pull leaves free on this disk


class TransferStatus(StrEnum):
    """Status of one object. ABSENT: the source does not have it. WRONG: the source has other bytes under its name,
    which were rejected."""

    MOVED = "moved"
    PRESENT = "present"
    ABSENT = "absent"
    WRONG = "wrong"


class ObjectRef(Struct, frozen=True):
    """An object that records name and git does not store. ``name``, ``address``: the name and address of an artifact
    with that content."""

    sha256: str
    size: int
    name: str
    address: Address


class TransferResult(Struct, frozen=True):
    """The outcome of one object's transfer; ``why`` it was neither moved nor already present."""

    what: ObjectRef
    fate: TransferStatus
    why: str = ""


class Transfer(Struct):
    """One push or pull. ``report`` gets the number of bytes so far; it is called from several threads, one at a time.
    ``turn`` is called between pieces, and waits while the machine is in use. ``patience``: seconds without bytes after
    which the transfer fails."""

    paths: RepositoryPaths
    remote: Remote
    report: Callable[[int], None] = lambda _: None
    turn: Callable[[], None] = lambda: None
    patience: float = 600.0
    passed: int = 0
    beats: int = 0
    pausing: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count_moved(self, count: int) -> None:
        self.note_bytes(count)
        with self.lock:
            self.passed += count
            self.report(self.passed)

    def note_bytes(self, count: int) -> None:
        """Count bytes received from the store, of any object."""
        if self.stopped.is_set():
            raise TransferStoppedError
        with self.lock:
            self.beats += count
            self.pausing += 1
        try:
            self.turn()
        finally:
            with self.lock:
                self.pausing -= 1


def list_wanted(recorded: Recorded, chosen: Callable[[Address], bool] = lambda _: True) -> tuple[ObjectRef, ...]:
    """List each object once, in a fixed order."""
    found: dict[str, ObjectRef] = {}
    for key in sorted(recorded.by_key):
        for summary in recorded.by_key[key]:
            if any(map(chosen, (summary.address, *summary.shared))):
                for artifact in summary.artifacts:
                    if artifact.place == "objects":
                        item = ObjectRef(artifact.sha256, artifact.size, artifact.name, summary.address)
                        found.setdefault(artifact.sha256, item)
    return tuple(sorted(found.values(), key=lambda item: (str(item.address), item.name, item.sha256)))


def list_push_due(
    transfer: Transfer, items: Iterable[ObjectRef], *, deep: bool = False, parallel: int = 1
) -> tuple[list[ObjectRef], list[TransferResult], dict[str, int]]:
    """Return the objects to push, the results for those that need not or cannot be pushed, and all files of the store
    by name. ``deep`` reads back the objects that the store already has."""
    (there,) = _run_all(transfer, [transfer.remote], Remote.list_files, parallel)
    items = tuple(items)
    alike = {item.sha256 for item in items if there.get(item.sha256) == item.size}
    if deep:
        alike = set(filter(None, _run_all(transfer, sorted(alike), partial(_read_back, transfer), parallel)))
    due, rest = [], []
    for item in items:
        here = find_object(transfer.paths, item.sha256).is_file()
        if item.sha256 in alike:
            rest.append(TransferResult(item, TransferStatus.PRESENT))
        elif here:
            due.append(item)
        elif item.sha256 in there:
            rest.append(
                TransferResult(
                    item,
                    TransferStatus.WRONG,
                    "the store has different bytes under its name, and there is no local copy",
                )
            )
        else:
            rest.append(TransferResult(item, TransferStatus.ABSENT, "it is neither on this machine nor in the store"))
    return due, rest, there


def _read_back(transfer: Transfer, sha256: str) -> str:
    """Return the digest if the stored bytes match it, else ""."""
    total = hashlib.sha256()
    with suppress(FileNotFoundError):
        for chunk in transfer.remote.read(sha256):
            transfer.note_bytes(len(chunk))
            total.update(chunk)
    return sha256 if total.hexdigest() == sha256 else ""


def push(transfer: Transfer, due: Iterable[ObjectRef], there: Iterable[str], *, parallel: int) -> list[TransferResult]:
    """Push objects. Raises StoreError if the store fails; objects already sent stay there."""

    def send(item: ObjectRef) -> TransferResult:
        source = find_object(transfer.paths, item.sha256)
        if hash_file(source) != item.sha256:
            return TransferResult(item, TransferStatus.WRONG, "damaged here: `reconcile --deep` finds and repairs it")
        transfer.remote.put(source, item.sha256, transfer.count_moved)
        return TransferResult(item, TransferStatus.MOVED)

    ended = _run_all(transfer, due, send, parallel)
    whole = {item.what.sha256 for item in ended if item.fate is TransferStatus.MOVED}.union(there)
    for name in there:
        if name.endswith(PARTIAL) and name.partition(".")[0] in whole:
            transfer.remote.remove(name)  # left by a killed push
    return ended


def list_pull_due(
    paths: RepositoryPaths, items: Iterable[ObjectRef], *, deep: bool = False
) -> tuple[list[ObjectRef], list[TransferResult]]:
    """Return the objects to pull, and the results for those already here. A file of the wrong size is damaged, and is
    pulled again; ``deep`` also hashes those of the right size."""
    due, rest = [], []
    for item in items:
        path = find_object(paths, item.sha256)
        alike = path.is_file() and path.stat().st_size == item.size
        if alike and not (deep and hash_file(path) != item.sha256):
            rest.append(TransferResult(item, TransferStatus.PRESENT))
        else:
            due.append(item)
    return due, rest


def pull(transfer: Transfer, due: list[ObjectRef], *, parallel: int) -> list[TransferResult]:
    """Pull objects. Raises StoreError if the store fails, StorageError if this disk has no room; complete objects and
    partial ones are kept."""
    folder = transfer.paths.incoming
    folder.mkdir(parents=True, exist_ok=True)
    needed = sum(item.size for item in due) - sum(min(item.size, read_size(folder / item.sha256)) for item in due)
    free = shutil.disk_usage(folder).free
    if needed > free - _SPARE:
        fix = "free space (`reconcile gc` removes files that no record needs), or pull less: reconcile pull kind=Engine"
        raise StorageError(f"{needed} bytes to pull, but only {free} free in {folder}", fix=fix)
    ended = _run_all(transfer, due, lambda item: _pull_one(transfer, item), parallel)
    if not any(folder.iterdir()):  # no partial files are left
        folder.rmdir()
    return ended


def foresee_transfer(transfer: Transfer, due: list[ObjectRef], *, parallel: int) -> list[TransferResult]:
    """Predict what a pull would find in the store, without reading an object."""

    def predict(item: ObjectRef) -> TransferResult:
        size = transfer.remote.get_size(item.sha256)
        if size is None:
            return TransferResult(item, TransferStatus.ABSENT, NOT_PUSHED)
        if size not in (item.size, -1):
            return TransferResult(item, TransferStatus.WRONG, f"{size} bytes in the store, but {item.size} recorded")
        return TransferResult(item, TransferStatus.MOVED)

    return _run_all(transfer, due, predict, parallel)


def _pull_one(transfer: Transfer, item: ObjectRef) -> TransferResult:
    part = transfer.paths.incoming / item.sha256
    for _ in range(2):
        resumed = read_size(part)
        try:
            size, digest = _fetch(transfer, item, part)
        except FileNotFoundError:
            return TransferResult(item, TransferStatus.ABSENT, NOT_PUSHED)
        if digest == item.sha256:
            put_object(transfer.paths, part, item.sha256)
            remove(part)
            return TransferResult(item, TransferStatus.MOVED)
        remove(part)
        if not resumed:
            break  # else the partial file may have been wrong, so retry once from the beginning
    return TransferResult(
        item,
        TransferStatus.WRONG,
        f"rejected: the store's copy ({size} of {item.size} bytes) has the digest {digest[:12]}…",
    )


def _fetch(transfer: Transfer, item: ObjectRef, part: Path) -> tuple[int, str]:
    """Append the missing bytes to a partial file; return the size and digest of the result."""
    total = hashlib.sha256()
    with convert_storage_errors(part), part.open("a+b") as stream:
        have = stream.seek(0, 2)
        chunks = _read_rest(transfer.remote, item, have)
        if chunks is None:
            have = 0
            stream.truncate(0)
            chunks = transfer.remote.read(item.sha256)
        stream.seek(0)
        while data := stream.read(1 << 20):
            total.update(data)
        transfer.count_moved(have)
        for chunk in chunks:
            have += len(chunk)
            total.update(chunk)
            stream.write(chunk)
            transfer.count_moved(len(chunk))
            if have > item.size:
                break
    return have, total.hexdigest()


def _read_rest(remote: Remote, item: ObjectRef, have: int) -> Iterator[bytes] | None:
    """Return the bytes that follow the local ones; None if the object must be read from its beginning."""
    if have == item.size:
        return iter(())
    if not 0 < have < item.size:
        return None
    chunks = remote.read(item.sha256, have)
    try:
        return chain([next(chunks, b"")], chunks)
    except ValueError:
        return None  # this store cannot start in the middle


def _run_all(transfer: Transfer, items: Iterable[_Item], one: Callable[[_Item], _Ended], parallel: int) -> list[_Ended]:
    """Transfer all objects. Raises StoreError if the store fails, or if too few bytes pass for too long."""
    passed, since = -1, time.monotonic()

    def check(ended: int) -> None:
        nonlocal passed, since
        now = transfer.beats + _LEAST * ended
        if transfer.pausing or now - passed >= _LEAST:
            passed, since = now, time.monotonic()
        elif time.monotonic() - since > transfer.patience:
            problem = f"{transfer.remote.url}: almost no data transferred for {transfer.patience:g} s"
            raise StoreError(problem, fix="run the same command again to continue, once the store answers")

    return run_transfers(items, one, transfer.stopped, parallel=parallel, check=check)
