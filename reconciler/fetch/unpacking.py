"""Unpacking of a publisher's archive: its files go to their places. Anything else in it stays there."""

from __future__ import annotations

import fnmatch
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from reconciler.errors import StorageError
from reconciler.storage.archive_members import NO_ARCHIVE, BoundedMember, read_members
from reconciler.storage.storage_errors import PARTIAL, convert_storage_errors

_CHUNK = 1 << 20
_MARGIN = 4  # an archive may hold so many times what is known of its files, and not more


class _PackedFile(NamedTuple):
    """``open`` gives its bytes."""

    name: str
    size: int
    open: Callable[[], IO[bytes]]


def unpack_member(archive: Path, member: str, target: Path, *, known: int) -> None:
    """The one file whose name is ``member`` or fits it. ``known``: bytes that it is known to have, about. Raises
    StorageError."""
    with _reading(archive) as members:
        for item in members:
            if fnmatch.fnmatchcase(_normalise(item.name), member):
                _check_room(archive, item.size, known)
                _write(item, target)
                return
    raise StorageError(f"{archive.name} holds no {member}", fix="fetch it again: the archive is another one")


def unpack_folder(archive: Path, prefix: str, folder: Path, *, known: int, moved: Callable[[int], None]) -> int:
    """Every file whose name begins with ``prefix``, below ``folder`` by the rest of it; those that are there in full
    stay. Gives their count."""
    count = total = 0
    with _reading(archive) as members:
        for item in members:
            name = _normalise(item.name)
            rest = name.removeprefix(prefix)
            if rest == name or not rest:
                continue
            _check_name(archive, rest)
            total += item.size
            _check_room(archive, total, known)
            target = folder / rest
            if not (target.is_file() and target.stat().st_size == item.size):
                _write(item, target)
            count += 1
            moved(item.size)
    if not count:
        raise StorageError(f"{archive.name} holds nothing below {prefix}", fix="fetch it again: it is another archive")
    return count


def _write(item: _PackedFile, target: Path) -> None:
    aside = target.with_name(f".{target.name}{PARTIAL}")
    with convert_storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        aside.unlink(missing_ok=True)  # of a killed fetch, or a link that somebody else put there
        with item.open() as source, aside.open("xb") as stream:
            shutil.copyfileobj(source, stream, _CHUNK)
        aside.chmod(0o644)
        aside.replace(target)


def _normalise(name: str) -> str:
    return name.removeprefix("./")


def _check_name(archive: Path, name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise StorageError(f"{archive.name} holds {name!r}, which leads elsewhere", fix="do not use this archive")


def _check_room(archive: Path, size: int, known: int) -> None:
    if size > known * _MARGIN:
        problem = f"{archive.name} would unpack to {size:,} bytes, and about {known:,} are known of it"
        raise StorageError(problem, fix="do not use this archive")


@contextmanager
def _reading(archive: Path) -> Iterator[Iterator[_PackedFile]]:
    """Its regular files, in its order. Raises StorageError for what is no archive, or a damaged one."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                yield _zip_members(zipped)
        else:
            with tarfile.open(archive, "r|*", tarinfo=BoundedMember) as packed:
                yield _tar_members(packed)
    except NO_ARCHIVE as error:
        raise StorageError(f"{archive.name} cannot be unpacked: {error}", fix="fetch it again") from error


def _zip_members(zipped: zipfile.ZipFile) -> Iterator[_PackedFile]:
    for info in zipped.infolist():
        if not info.is_dir():
            yield _PackedFile(info.filename, info.file_size, lambda info=info: zipped.open(info))  # type: ignore[misc]


def _tar_members(packed: tarfile.TarFile) -> Iterator[_PackedFile]:
    for info in read_members(packed):
        if info.isreg():
            yield _PackedFile(info.name, info.size, lambda info=info: _extract(packed, info))  # type: ignore[misc]


def _extract(packed: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = packed.extractfile(info)
    assert stream is not None  # only regular files come here
    return stream
