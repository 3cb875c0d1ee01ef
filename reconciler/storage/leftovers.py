"""Remains of killed commands in a repository: partly written files, partly removed folders, scratch folders. The next
pass, import or adoption removes them automatically."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from reconciler.errors import StorageError
from reconciler.storage.files import (
    RepositoryPaths,
    find_temporary_folder,
    ignore_work,
    is_leftover,
    remove,
    replace,
    try_flock,
)
from reconciler.storage.storage_errors import PARTIAL, convert_storage_errors

_SCRATCH = "scratch-"  # prefix of folders that a command removes at its end
_OF_EARLIER_VERSIONS = ("rerun-", "rescore-", "probe-")  # remains of an earlier version's audit or probe
_TEMPORARY = "mlperf-reconciler."  # prefix of folders that may be among other programs' files
_YOUNG = 60.0  # seconds during which an empty one may still be under construction


def sweep(folder: Path) -> None:
    """Remove, at any depth, the remains of killed writes and removals. Requires the pass lock."""
    for parent, folders, files in os.walk(folder):
        for name in filter(is_leftover, [*folders, *files]):
            _remove_leftover(Path(parent) / name)


def sweep_folders(folders: Iterable[Path]) -> None:
    """Remove such remains directly inside these folders."""
    for folder in folders:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for entry in list(os.scandir(folder)):
                _remove_leftover(Path(entry.path))


def sweep_repository(paths: RepositoryPaths) -> None:
    """Remove such remains of everything that commands write in a repository. The rendered tree may be elsewhere."""
    for folder in (paths.root / "state", paths.objects, paths.index, paths.specs):
        sweep(folder)
    for name in (_SCRATCH, *_OF_EARLIER_VERSIONS):
        for path in paths.work.glob(f"{name}*"):
            remove(path)
    sweep_temporary(paths.work)
    with contextlib.suppress(StorageError):
        sweep_temporary(find_temporary_folder())
    sweep_folders((paths.root, paths.work, paths.caches, paths.work / "locks"))


def sweep_siblings(path: Path) -> None:
    """Remove the remains of killed writes of a file, and of files whose names begin with its name. For a user's folder,
    in which nothing else is ours."""
    for left in path.parent.glob(f".{glob.escape(path.name)}*{PARTIAL}"):
        _remove_leftover(left)


def write_output(path: Path, data: bytes) -> None:
    """Write like ``replace`` to a file that the user names: /dev/stdout, a pipe or another device is written to and
    never replaced. Remains of an earlier killed write are removed. Raises StorageError."""
    try:
        folder = path.is_relative_to("/dev/shm")  # noqa: S108 - it is one like any other
        special = path.is_relative_to("/proc") or (path.is_relative_to("/dev") and not folder)
        if special or (path.exists() and not path.is_file()):
            with convert_storage_errors(path), path.open("wb") as stream:
                stream.write(data)
        else:
            sweep_siblings(path)
            replace(path, data)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", fix="name another file") from error


@contextlib.contextmanager
def make_folder(path: Path) -> Iterator[Path]:
    """Yield a folder to fill, which gets the name ``path`` at the end, complete or not at all. No folder of this name
    may exist, except an empty one. Remains of an earlier killed process are removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{PARTIAL}"):
        _remove_leftover(left)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=PARTIAL, dir=path.parent))
    opened = os.open(aside, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try_flock(opened)
        aside.chmod(0o755)
        yield aside
        aside.replace(path)
    except BaseException:
        remove(aside)
        raise
    finally:
        os.close(opened)


@contextlib.contextmanager
def open_temporary(purpose: str, within: Path | None = None) -> Iterator[Path]:
    """Yield a temporary folder ``within`` one of our folders or the machine's temporary folder. Remains of this user's
    killed processes there are removed first."""
    parent = within or find_temporary_folder()
    with convert_storage_errors(parent):
        sweep_temporary(parent)
        folder = Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{purpose}-", dir=parent))
        opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try_flock(opened)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(opened)


def sweep_temporary(parent: Path) -> None:
    """Remove those folders of ``open_temporary`` that have no flock. In a shared folder, other users' entries are kept:
    a name does not prove ownership."""
    for path in parent.glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
            if ours and (any(path.iterdir()) or time.time() - status.st_mtime > _YOUNG) and _is_unlocked(path):
                shutil.rmtree(path, ignore_errors=True)


def _remove_leftover(path: Path) -> None:
    if is_leftover(path.name) and _is_unlocked(path):
        remove(path)


def _is_unlocked(path: Path) -> bool:
    """Return True if there is no flock. A file being written has one, and other commands write specs and decisions
    during a pass."""
    if path.is_symlink():
        return True
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return try_flock(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_scratch(paths: RepositoryPaths) -> Iterator[Path]:
    """Yield a folder for intermediate files, after a sweep. Requires the pass lock."""
    with convert_storage_errors(paths.work):
        sweep_repository(paths)
        ignore_work(paths)
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=paths.work))
    try:
        yield folder
    finally:
        remove(folder)
