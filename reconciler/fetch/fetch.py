"""Decide which of a benchmark's files to fetch, and fetch several at once."""

from __future__ import annotations

import fnmatch
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple
from urllib.parse import quote, urlsplit

from msgspec import Struct

from reconciler.errors import ReconcilerError, StorageError, StoreError
from reconciler.fetch.download import (
    Download,
    Downloaded,
    DownloadLimits,
    DownloadProgress,
    download,
    lock_part,
)
from reconciler.fetch.scratch import (
    FileState,
    Found,
    Scratch,
    find_expected_digest,
    find_files,
    look_for,
    read_note,
    write_note,
)
from reconciler.resource.quantities import show_size
from reconciler.rules.benchmark_files import BenchmarkFiles, FileDigest, SourceFile
from reconciler.storage.archive_members import NO_ARCHIVE, BoundedMember, read_members
from reconciler.storage.files import hash_file, read_size, remove
from reconciler.storage.json_files import read_json
from reconciler.storage.leftovers import sweep_folders
from reconciler.storage.parallel_transfers import TransferStoppedError, run_transfers
from reconciler.storage.storage_errors import PARTIAL, convert_storage_errors

# Unpack a publisher's archive: the known files go to their places; the rest is not unpacked.

_CHUNK = 1 << 20
_MARGIN = 4  # an archive may contain at most this multiple of its files' known size


class _PackedFile(NamedTuple):
    """A file in an archive. ``open`` returns its bytes."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def unpack_member(archive: Path, member: str, target: Path, *, known: int) -> None:
    """Unpack the one file whose name equals or matches ``member``. ``known``: its approximate size in bytes. Raises
    StorageError."""
    with _open_members(archive) as members:
        for item in members:
            if fnmatch.fnmatchcase(_normalise(item.name), member):
                _check_room(archive, item.size, known)
                _write(item, target)
                return
    raise StorageError(f"{archive.name} has no {member}", fix="fetch it again: the archive changed")


def unpack_folder(archive: Path, prefix: str, folder: Path, *, known: int, moved: Callable[[int], None]) -> int:
    """Unpack every file whose name begins with ``prefix`` into ``folder``, under the rest of its name; existing
    complete files stay. Returns their number."""
    count = total = 0
    with _open_members(archive) as members:
        for item in members:
            name = _normalise(item.name)
            rest = name.removeprefix(prefix)
            if rest == name or not rest:
                continue
            path = PurePosixPath(rest)
            if path.is_absolute() or ".." in path.parts or "\\" in rest or "\0" in rest:
                problem = f"{archive.name} contains {rest!r}, which points outside the archive"
                raise StorageError(problem, fix="do not use this archive")
            total += item.size
            _check_room(archive, total, known)
            target = folder / rest
            if not (target.is_file() and target.stat().st_size == item.size):
                _write(item, target)
            count += 1
            moved(item.size)
    if not count:
        raise StorageError(f"{archive.name} has nothing below {prefix}", fix="fetch it again: the archive changed")
    return count


def _write(item: _PackedFile, target: Path) -> None:
    aside = target.with_name(f".{target.name}{PARTIAL}")
    with convert_storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        aside.unlink(missing_ok=True)  # from a killed fetch, or a foreign link
        with item.open() as source, aside.open("xb") as stream:
            shutil.copyfileobj(source, stream, _CHUNK)
        aside.chmod(0o644)
        aside.replace(target)


def _normalise(name: str) -> str:
    return name.removeprefix("./")


def _check_room(archive: Path, size: int, known: int) -> None:
    if size > known * _MARGIN:
        problem = f"{archive.name} would unpack to {size:,} bytes, but about {known:,} are expected"
        raise StorageError(problem, fix="do not use this archive")


@contextmanager
def _open_members(archive: Path) -> Iterator[Iterator[_PackedFile]]:
    """Yield the archive's regular files in order. Raises StorageError for a damaged archive or another kind of file."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                files = (info for info in zipped.infolist() if not info.is_dir())
                yield (_PackedFile(info.filename, info.file_size, partial(zipped.open, info)) for info in files)
        else:
            with tarfile.open(archive, "r|*", tarinfo=BoundedMember) as packed:
                regular = (info for info in read_members(packed) if info.isreg())
                yield (_PackedFile(info.name, info.size, partial(_extract, packed, info)) for info in regular)
    except NO_ARCHIVE as error:
        raise StorageError(f"{archive.name} cannot be unpacked: {error}", fix="fetch it again") from error


def _extract(packed: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = packed.extractfile(info)
    assert stream is not None  # only regular files reach this line
    return stream


_SPARE = 64 << 20  # bytes to keep free
_AT_ONCE = 8  # files of one list downloading at once
_LARGEST_LIST = 512 << 20  # bytes of a list of files


class Way(StrEnum):
    """The way to obtain a file, or the reason why there is none."""

    NONE = "here"
    DOWNLOAD = "download"
    COPY = "copy"
    BY_HAND = "by hand"
    WRONG = "wrong"


class Mirror(Struct, frozen=True):
    """A source that replaces the publishers': a web server's address, or a local folder. Files have the paths of a
    scratch space; an archive is where its contents belong."""

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

    def check(self) -> None:
        """Check the mirror's address. Raises ReconcilerError if it cannot be a mirror."""
        scheme, marked, _ = self.address.partition("://")
        if marked and scheme.lower() not in ("http", "https", "file"):
            problem = f"the mirror {self.address} cannot be read"
            raise ReconcilerError(problem, fix="pass a folder, or an http, https or file address")
        if self.folder is not None and not self.folder.is_dir():
            raise ReconcilerError(f"the mirror {self.folder} is not a folder", fix="mount it, or pass another one")


class Due(Struct, frozen=True):
    """A file and the way to obtain it. ``packed``: ``addresses`` lead to the archive that contains it."""

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
        """Approximate number of bytes to download."""
        if self.way not in (Way.DOWNLOAD, Way.COPY):
            return 0
        return self.file.packed if self.packed and self.file.packed else self.file.size

    @property
    def needed(self) -> int:
        """Approximate number of bytes needed on this disk, for the download and the files unpacked from it."""
        return self.coming + (self.file.size if self.packed and self.coming else 0)


class FetchStatus(StrEnum):
    FETCHED = "fetched"
    HERE = "here"
    BY_HAND = "by hand"
    FAILED = "failed"
    DUE = "to be fetched"


class FetchResult(Struct, frozen=True):
    """The result for a file. ``sha256``: "" if it was not read."""

    due: Due
    fate: FetchStatus
    sha256: str = ""
    why: str = ""
    fix: str = ""


def decide(
    scratch: Scratch, benchmarks: Sequence[BenchmarkFiles], mirror: Mirror | None, *, optional: bool, deep: bool = True
) -> list[Due]:
    """Return every file of the benchmarks, each place once. ``optional``: include files that a benchmark can run
    without."""
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
    if found.presence is FileState.WRONG:
        return Due(benchmark, found, Way.WRONG)
    if mirror is None:
        way = Way.DOWNLOAD if file.sources else Way.BY_HAND
        return Due(benchmark, found, way, file.sources, file.is_archive)
    folder = mirror.folder
    if folder is not None and any(find_files(folder, file.path)):
        return Due(benchmark, found, Way.COPY, (mirror.locate(file.path),) if not file.is_pattern else (str(folder),))
    if file.is_archive:
        place = f"{PurePosixPath(file.path).parent}/{file.archive}"
        return Due(benchmark, found, Way.DOWNLOAD, (mirror.locate(place),), True)
    if file.listed_in:
        return Due(benchmark, found, Way.DOWNLOAD, (mirror.locate(str(PurePosixPath(file.path).parent)),))
    if file.is_pattern:
        return Due(benchmark, found, Way.BY_HAND)
    return Due(benchmark, found, Way.DOWNLOAD, (mirror.locate(file.path),))


def measure_free(scratch: Scratch) -> int:
    """Return the free bytes at the scratch space's present or future location."""
    place = scratch.root
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def check_room(scratch: Scratch, due: Sequence[Due]) -> None:
    """Check the free space. Raises StorageError before the first download."""
    needed, free = sum(item.needed for item in due), measure_free(scratch)
    if needed and needed + _SPARE > free:
        problem = f"{show_size(needed)} needed in {scratch.root}, but only {show_size(free)} free"
        fix = "free space there, fetch fewer benchmarks, or use another folder: --scratch DIR"
        raise StorageError(problem, fix=fix)


def fetch(
    scratch: Scratch, due: Sequence[Due], limits: DownloadLimits, progress: DownloadProgress, *, parallel: int
) -> list[FetchResult]:
    """Fetch in the order of ``due``. A failure is reported for its file, and does not stop the others."""
    sweep_folders((scratch.incoming, scratch.notes))
    running = _RunningFetch(scratch, limits, progress)
    ended: dict[str, FetchResult] = {}
    # A list of files is fetched before the files that it names.
    for listed in (False, True):
        groups = _group_by_archive(scratch, [item for item in due if bool(item.file.listed_in) is listed])
        found = run_transfers(groups, running.fetch_group, progress.stopped, parallel=parallel)
        ended |= {end.due.file.path: end for ends in found for end in ends}
    return [ended[item.file.path] for item in due]


def _group_by_archive(scratch: Scratch, due: Sequence[Due]) -> list[list[Due]]:
    """Group files from one archive at the position of the first: it is downloaded once for all of them."""
    groups: dict[Path, list[Due]] = {}
    for item in due:
        comes = item.way is Way.DOWNLOAD and item.packed
        groups.setdefault(_locate_archive(scratch, item) if comes else scratch.root / item.file.path, []).append(item)
    return list(groups.values())


class _RunningFetch(Struct, frozen=True):
    scratch: Scratch
    limits: DownloadLimits
    progress: DownloadProgress

    def fetch_group(self, group: Sequence[Due]) -> list[FetchResult]:
        """Fetch one file, or all files of one archive. The archive is removed once no file needs it. An archive that
        cannot be verified is always removed, since it may have caused a failure."""
        ended = [self._fetch_one(item) for item in group]
        unproved = group[0].file.digest is None
        if group[0].packed and (unproved or all(item.fate is FetchStatus.FETCHED for item in ended)):
            remove(_locate_archive(self.scratch, group[0]))
        return ended

    def _fetch_one(self, due: Due) -> FetchResult:
        if due.way not in (Way.DOWNLOAD, Way.COPY):
            return foresee(self.scratch, due)
        try:
            if due.way is Way.COPY and due.file.is_pattern:
                self._copy_all(due)
                return _judge_copies(self.scratch, due)
            if due.file.listed_in:
                self._bring_listed(due)
                return FetchResult(due, FetchStatus.FETCHED)
            sha256 = self._bring_packed(due) if due.packed else self._bring_file(due)
            return FetchResult(due, FetchStatus.FETCHED, sha256)
        except TransferStoppedError:
            raise
        except ReconcilerError as error:
            return FetchResult(due, FetchStatus.FAILED, why=error.message, fix=error.fix)
        except OSError as error:
            why, fix = f"{due.file.path}: {error}", "check that folder, and fetch again"
            return FetchResult(due, FetchStatus.FAILED, why=why, fix=fix)

    def _bring_file(self, due: Due) -> str:
        target = self.scratch.root / due.file.path
        digest = find_expected_digest(due.file, read_note(self.scratch, target))
        came = self._download(target, due.addresses, digest)
        write_note(self.scratch, target, came.sha256, came.address)
        return came.sha256

    def _bring_packed(self, due: Due) -> str:
        file, address, archive = due.file, due.addresses[0], _locate_archive(self.scratch, due)
        if not archive.is_file():  # otherwise an earlier fetch ended while unpacking it
            address = self._download(archive, due.addresses, file.digest).address
        target = self.scratch.root / file.path
        if file.member:
            unpack_member(archive, file.member, target, known=file.size)
            sha256 = hash_file(target)
            write_note(self.scratch, target, sha256, address)
            return sha256
        folder = self.scratch.root / file.path.partition("*")[0].rpartition("/")[0]
        unpack_folder(archive, str(file.unpack), folder, known=file.size, moved=lambda _: self.progress.count_moved(0))
        return ""

    def _copy_all(self, due: Due) -> None:
        """Copy the files of a pattern from a mirror's folder, except those that are already complete here."""
        folder = Path(due.addresses[0])
        missing = {}
        for source in sorted(find_files(folder, due.file.path)):
            target = self.scratch.root / source.relative_to(folder)
            if not (target.is_file() and target.stat().st_size == source.stat().st_size):
                missing[target] = source.absolute().as_uri()
        self._bring_many(due, missing)

    def _bring_listed(self, due: Due) -> None:
        """Download the files in a list, each below the address, except those already here."""
        folder = (self.scratch.root / due.file.path).parent
        names = read_listed(self.scratch.root / due.file.listed_in)
        base = due.addresses[0].rstrip("/")
        missing = {folder / name: f"{base}/{quote(name)}" for name in names if not read_size(folder / name)}
        self._bring_many(due, missing)

    def _bring_many(self, due: Due, missing: Mapping[Path, str]) -> None:
        """Download small files under one lock. Raises StoreError that names the first failed file; the other files
        stay."""

        def bring(target: Path) -> ReconcilerError | None:
            try:
                self._download(target, (missing[target],), None, is_locked=True)
            except ReconcilerError as error:
                return error
            return None

        name = PurePosixPath(due.file.path).parent.as_posix().replace("/", "-")
        with lock_part(self.scratch.incoming / f"{name}.lock", due.file.path):
            ended = run_transfers(missing, bring, self.progress.stopped, parallel=_AT_ONCE)
        failures = [error for error in ended if error]
        if failures:
            many = f"{len(failures):,} of {len(missing):,} files could not be fetched, such as: {failures[0].message}"
            raise StoreError(many, fix=failures[0].fix)

    def _download(
        self, target: Path, addresses: tuple[str, ...], digest: FileDigest | None, *, is_locked: bool = False
    ) -> Downloaded:
        item = Download(target, addresses, digest, self.scratch.incoming, is_locked)
        return download(item, self.limits, self.progress)


def foresee(scratch: Scratch, due: Due) -> FetchResult:
    """Predict a file's result without fetching anything."""
    if due.way is Way.NONE:
        return FetchResult(due, FetchStatus.HERE, due.found.sha256)
    if due.way is Way.BY_HAND:
        return FetchResult(due, FetchStatus.BY_HAND, why=due.found.why, fix=show_by_hand(scratch, due))
    if due.way is Way.WRONG:
        why = f"{due.found.path}: {due.found.why}"
        return FetchResult(due, FetchStatus.FAILED, why=why, fix="move it away, and fetch again")
    return FetchResult(due, FetchStatus.DUE)


def _judge_copies(scratch: Scratch, due: Due) -> FetchResult:
    """Judge the copies, since a mirror may have only some of the files of a pattern."""
    found = look_for(scratch, due.file, deep=False)
    if not found.is_due:
        return FetchResult(due, FetchStatus.FETCHED)
    if not due.file.sources:
        return FetchResult(due, FetchStatus.BY_HAND, why=found.why, fix=show_by_hand(scratch, due))
    fix = "complete the mirror, or fetch without it"
    return FetchResult(due, FetchStatus.FAILED, why=f"{found.path}: {found.why}", fix=fix)


def _locate_archive(scratch: Scratch, due: Due) -> Path:
    """Return the path of an archive that waits to be unpacked."""
    proof = due.file.digest.value[:16] if due.file.digest else "unproved"
    return scratch.incoming / f"{proof}-{PurePosixPath(urlsplit(due.addresses[0]).path).name}"


def read_listed(path: Path) -> list[str]:
    """Return the names of the images in a COCO-style annotation file. Raises StorageError."""
    fix = f"fetch {path.name} first; if it exists, move it away and fetch it again"
    try:
        names = [str(image["file_name"]) for image in read_json(path, _LARGEST_LIST)["images"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path} cannot be read as a list of images: {error}", fix=fix) from error
    misnamed = [name for name in names if PurePosixPath(name).name != name or name in (".", "..")]
    if misnamed or not names:
        what = f"names {misnamed[0]!r}, which is not a file name" if misnamed else "names no image"
        raise StorageError(f"{path} {what}", fix=fix)
    return names


def show_by_hand(scratch: Scratch, due: Due) -> str:
    place = scratch.root / due.file.path
    return f"{due.file.by_hand or 'bring it'}; save it as {place}"
