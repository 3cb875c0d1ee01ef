"""Decides what of a benchmark's files is to be fetched, and fetches it, several files at once."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from urllib.parse import quote, urlsplit

from reconciler.errors import ReconcilerError, StorageError
from reconciler.fetching.download import Download, Limits, Progress, StoppedError, download
from reconciler.fetching.scratch import Found, Presence, Scratch, find_files, look_for, read_note, write_note
from reconciler.fetching.unpacking import unpack_folder, unpack_member
from reconciler.files import hash_file, remove
from reconciler.mlperf.benchmark_files import BenchmarkFiles, FileDigest, SourceFile
from reconciler.quantities import show_size

_SPARE = 64 << 20  # bytes that stay free
_BEAT = 0.2  # seconds between two looks whether all has ended
_LAST_BYTES = 5.0  # seconds in which what is under way ends, once it was stopped


class Way(StrEnum):
    """How a file comes, or why it does not."""

    NONE = "here"
    DOWNLOAD = "download"
    COPY = "copy"
    BY_HAND = "by hand"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Mirror:
    """A place that takes that of the publishers: the address of a web server, or a folder of this machine. Files are
    there as in a scratch space; an archive lies where what is in it belongs."""

    address: str

    @property
    def folder(self) -> Path | None:
        parts = urlsplit(self.address)
        if parts.scheme in ("http", "https"):
            return None
        return Path(parts.path if parts.scheme == "file" else self.address).absolute()

    def locate(self, path: str) -> str:
        folder = self.folder
        return (folder / path).as_uri() if folder else f"{self.address.rstrip('/')}/{quote(path)}"


@dataclass(frozen=True, slots=True)
class Due:
    """A file and the way in which it comes. ``packed``: ``addresses`` give the archive that it is in."""

    benchmark: str
    found: Found
    way: Way
    addresses: tuple[str, ...] = ()
    packed: bool = False

    @property
    def file(self) -> SourceFile:
        return self.found.file

    @property
    def coming(self) -> int:
        """Bytes that come over the network, about."""
        if self.way not in (Way.DOWNLOAD, Way.COPY):
            return 0
        return self.file.packed if self.packed and self.file.packed else self.file.size

    @property
    def needed(self) -> int:
        """Bytes that this disk must have free for it, about: what came, and what is unpacked from it."""
        return self.coming + (self.file.size if self.packed and self.coming else 0)


class Fate(StrEnum):
    FETCHED = "fetched"
    HERE = "here"
    BY_HAND = "by hand"
    FAILED = "failed"
    DUE = "to be fetched"


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a file. ``sha256``: "" where it was not read."""

    due: Due
    fate: Fate
    sha256: str = ""
    why: str = ""
    fix: str = ""


def decide(
    scratch: Scratch, benchmarks: Sequence[BenchmarkFiles], mirror: Mirror | None, *, optional: bool, deep: bool = True
) -> list[Due]:
    """Every file of the benchmarks, each place once. ``optional``: those too that a benchmark runs without."""
    found: dict[str, Due] = {}
    for item in benchmarks:
        for file in item.files:
            if file.path not in found and (optional or not file.optional):
                found[file.path] = _choose_way(item.name, look_for(scratch, file, deep=deep), mirror)
    return list(found.values())


def _choose_way(benchmark: str, found: Found, mirror: Mirror | None) -> Due:
    file = found.file
    if not found.is_due:
        return Due(benchmark, found, Way.NONE)
    if found.presence is Presence.WRONG:
        return Due(benchmark, found, Way.WRONG)
    if mirror is None:
        way = Way.DOWNLOAD if file.sources else Way.BY_HAND
        return Due(benchmark, found, way, file.sources, file.is_archive)
    folder = mirror.folder
    if folder is not None and any(find_files(folder, file.path)):
        return Due(benchmark, found, Way.COPY, (mirror.locate(file.path),) if not file.is_pattern else (str(folder),))
    if file.is_archive:
        name = PurePosixPath(urlsplit(file.sources[0]).path).name
        return Due(benchmark, found, Way.DOWNLOAD, (mirror.locate(f"{PurePosixPath(file.path).parent}/{name}"),), True)
    if file.is_pattern:
        return Due(benchmark, found, Way.BY_HAND)
    return Due(benchmark, found, Way.DOWNLOAD, (mirror.locate(file.path),))


def measure_free(scratch: Scratch) -> int:
    """Bytes free where the scratch space is, or will be."""
    place = scratch.root
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def check_room(scratch: Scratch, due: Sequence[Due]) -> None:
    """Raises StorageError before the first byte comes."""
    needed, free = sum(item.needed for item in due), measure_free(scratch)
    if needed and needed + _SPARE > free:
        problem = f"{show_size(needed)} are needed in {scratch.root}, and {show_size(free)} are free"
        raise StorageError(
            problem, fix="free space there, fetch fewer benchmarks, or name another place: --scratch DIR"
        )


def fetch(scratch: Scratch, due: Sequence[Due], limits: Limits, progress: Progress, *, parallel: int) -> list[Ended]:
    """In the order of ``due``. What fails is told of each file, and keeps no other from coming."""
    futures: list[Future[Ended]] = [Future() for _ in due]
    waiting = list(zip(due, futures, strict=True))[::-1]
    lock = threading.Lock()

    def work() -> None:
        while not progress.stopped.is_set():
            with lock:
                if not waiting:
                    return
                item, future = waiting.pop()
            try:
                future.set_result(_fetch_one(scratch, item, limits, progress))
            except BaseException as error:
                future.set_exception(error)

    # Not a pool: nobody waits for its threads when the process is to end.
    for _ in range(min(parallel, len(due))):
        threading.Thread(target=work, daemon=True).start()
    try:
        while wait(futures, timeout=_BEAT).not_done:
            pass
    except BaseException:
        progress.stopped.set()
        began = time.monotonic()
        while threading.active_count() > 1 and time.monotonic() - began < _LAST_BYTES:
            time.sleep(_BEAT)
        raise
    return [future.result() for future in futures]


def foresee(scratch: Scratch, due: Due) -> Ended:
    """What becomes of a file without a byte of it being fetched."""
    if due.way is Way.NONE:
        return Ended(due, Fate.HERE, due.found.sha256)
    if due.way is Way.BY_HAND:
        return Ended(due, Fate.BY_HAND, why=due.found.why, fix=show_by_hand(scratch, due))
    if due.way is Way.WRONG:
        return Ended(due, Fate.FAILED, why=f"{due.found.path}: {due.found.why}", fix="move it away, and fetch again")
    return Ended(due, Fate.DUE)


def _fetch_one(scratch: Scratch, due: Due, limits: Limits, progress: Progress) -> Ended:
    if due.way not in (Way.DOWNLOAD, Way.COPY):
        return foresee(scratch, due)
    bring: Callable[[Scratch, Due, Limits, Progress], str] = _bring_packed if due.packed else _bring_file
    if due.way is Way.COPY and due.file.is_pattern:
        bring = _copy_all
    try:
        return Ended(due, Fate.FETCHED, bring(scratch, due, limits, progress))
    except StoppedError:
        raise
    except ReconcilerError as error:
        return Ended(due, Fate.FAILED, why=error.message, fix=error.fix)
    except OSError as error:
        return Ended(due, Fate.FAILED, why=f"{due.file.path}: {error}", fix="look at that place, and fetch again")


def _bring_file(scratch: Scratch, due: Due, limits: Limits, progress: Progress) -> str:
    target = scratch.root / due.file.path
    noted = read_note(scratch, target)
    first = FileDigest("sha256", noted.sha256, "the first fetch") if noted else None
    digest = None if due.file.is_archive else due.file.digest
    came = download(Download(target, due.addresses, digest or first, scratch.incoming), limits, progress)
    write_note(scratch, target, came.sha256, came.address)
    return came.sha256


def _bring_packed(scratch: Scratch, due: Due, limits: Limits, progress: Progress) -> str:
    file = due.file
    name = PurePosixPath(urlsplit(due.addresses[0]).path).name
    archive = scratch.incoming / f"{file.digest.value[:16] if file.digest else 'unproved'}-{name}"
    address = due.addresses[0]
    if not archive.is_file():  # else an earlier fetch ended while it was unpacked
        address = download(Download(archive, due.addresses, file.digest, scratch.incoming), limits, progress).address
    target = scratch.root / file.path
    if file.member:
        unpack_member(archive, file.member, target, known=file.size)
        sha256 = hash_file(target)
        write_note(scratch, target, sha256, address)
    else:
        sha256 = ""
        folder = scratch.root / file.path.partition("*")[0].rpartition("/")[0]
        unpack_folder(archive, str(file.unpack), folder, known=file.size, moved=lambda _: progress.moved(0))
    remove(archive)
    return sha256


def _copy_all(scratch: Scratch, due: Due, limits: Limits, progress: Progress) -> str:
    """The files of a pattern from a mirror's folder, those that are here in full left out."""
    folder = Path(due.addresses[0])
    for source in sorted(find_files(folder, due.file.path)):
        target = scratch.root / source.relative_to(folder)
        if not (target.is_file() and target.stat().st_size == source.stat().st_size):
            download(Download(target, (source.absolute().as_uri(),), None, scratch.incoming), limits, progress)
    return ""


def show_by_hand(scratch: Scratch, due: Due) -> str:
    place = scratch.root / due.file.path
    return f"{due.file.by_hand or 'bring it'}; it belongs at {place}"
