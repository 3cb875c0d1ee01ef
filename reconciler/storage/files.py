"""The only module that replaces, links, hashes, locks and removes files; also defines their paths in a repository.

Every write goes to a temporary file, which is flushed and renamed, and its folder is flushed too. So a reader, or the
next pass after a ``kill -9``, sees the old bytes or the new ones, never a part. A full disk raises a StorageError that
names the file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from io import BufferedWriter
from pathlib import Path
from typing import Self

from msgspec import Struct

from reconciler.errors import LockedError, StorageError
from reconciler.storage.storage_errors import (
    PARTIAL,
    convert_storage_errors,
    explain_storage_error,
    refuse_storage_error,
)
from reconciler.storage.untrusted_files import hash_regular, is_special, open_regular

WORK = ".reconcile"
RECORDS, LOGS = "state/records", "state/logs"
_CHUNK = 1 << 20
_CHECKSUM_LENGTH = 9  # bytes: eight digits and a line end
_CACHE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = ".gone"  # suffix of a folder that is being removed; its name begins with a dot
_ENDING_GRACE = 0.3  # seconds in which a killed process ends
_LONGEST_OWNER = 1000  # bytes read of a lock file
_ORPHAN_GRACE = 10.0  # seconds in which the child of a killed pass ends
_RELEASED = " (released)"  # in a lock file: its owner is done, and only children may still use the lock


class PathIn:
    """An attribute whose value is a path inside a folder that another attribute of the object names. ``folder``: that
    other attribute's name."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name = folder, name

    def __get__(self, owner: object, _: object = None) -> Path:
        folder: Path = getattr(owner, self._folder)
        return folder / self._name


class RepositoryPaths(Struct, frozen=True):
    """The folders of one repository. ``state`` is in git; ``work`` is not, and all its files can be remade or fetched.
    ``apart``: the location of ``work`` if git tracks files at its usual location. ``audits``: reports of measurements
    that an audit repeated. ``incoming``: objects arriving from a remote store, where a partial file stays until the
    rest follows."""

    root: Path
    apart: Path | None = None

    specs = PathIn("root", "specs")
    records = PathIn("root", RECORDS)
    logs = PathIn("root", LOGS)
    audits = PathIn("root", "state/audits")
    objects = PathIn("work", "objects")
    attempts = PathIn("work", "attempts")
    caches = PathIn("work", "caches")
    index = PathIn("work", "index")
    log = PathIn("work", "log")
    incoming = PathIn("work", "incoming")
    tree = PathIn("work", "tree")
    quarantine = PathIn("work", "quarantine")
    pass_lock = PathIn("work", "locks/pass")
    transfer_lock = PathIn("work", "locks/transfer")

    @property
    def work(self) -> Path:
        return self.apart or self.root / WORK


def ignore_work(paths: RepositoryPaths) -> None:
    """Keep the working folder out of git, even without a .gitignore for it."""
    note = paths.work / ".gitignore"
    if not note.exists():
        replace(note, b"*\n")


def find_temporary_folder() -> Path:
    """Return the machine's temporary folder. Raises StorageError if none is writable. Each is tried with a small
    file."""
    import tempfile

    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        named = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - the first candidate
        fix = f"free space in {named}, or set another writable folder: export TMPDIR=DIR"
        raise StorageError("no writable folder for temporary files", fix=fix) from error


def flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Put ``data`` at ``path`` atomically. ``durable`` False skips the flush, for caches that may be lost."""
    with open_replacing(path, durable=durable) as stream:
        stream.write(data)


@contextlib.contextmanager
def open_replacing(path: Path, *, durable: bool = True) -> Iterator[BufferedWriter]:
    """Open a file that gets the name ``path`` at the end, complete or not at all. Until then a flock distinguishes it
    from the remains of a killed process."""
    import tempfile

    with convert_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PARTIAL, dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                try_flock(descriptor)  # continues without a lock, too, since some file systems have none
                yield stream
                stream.flush()
                if durable:
                    os.fsync(descriptor)
                os.fchmod(descriptor, 0o644)
                Path(aside).replace(path)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
        if durable:
            flush_folder(path.parent)


def write_checked(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write bytes under a checksum, for ``read_checked``."""
    replace(path, _make_checksum(data) + data, durable=durable)


def write_cache(path: Path, data: bytes) -> None:
    """Write a cache file under a checksum; a failed write is ignored."""
    with contextlib.suppress(StorageError, OSError):
        write_checked(path, data, durable=False)


def read_checked(path: Path) -> bytes | None:
    """Return the bytes as written; None if the file is missing or damaged."""
    try:
        # In a copied repository, its sender chose the file of this name. A cache may have megabytes, so no copy is
        # made.
        with os.fdopen(os.open(path, _CACHE_FLAGS), "rb", buffering=0) as stream:
            if is_special(os.fstat(stream.fileno())):
                return None
            head, data = stream.read(_CHECKSUM_LENGTH), stream.read()
    except OSError as error:
        refuse_storage_error(error, path)
        return None
    return data if data is not None and head == _make_checksum(data) else None


def _make_checksum(data: bytes) -> bytes:
    return b"%08x\n" % zlib.crc32(data)


def read_version(path: Path) -> tuple[int, int, int] | None:
    """Return a value that changes each time the file is replaced; None if it is missing."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def stamp_sources(paths: Iterable[Path]) -> tuple[tuple[int, int], ...]:
    """Stamp those files of our own code on which a cache depends. An edit of them counts as a new version."""
    return tuple((status.st_size, status.st_mtime_ns) for status in map(Path.stat, paths))


def copy(source: Path, path: Path) -> None:
    """Copy a file of any size atomically."""
    with open_replacing(path) as target, open_regular(source) as origin:
        while piece := origin.read(_CHUNK):
            target.write(piece)


def link(source: Path, path: Path) -> None:
    """Give a file a second name (a copy if the file system has no links), read-only and flushed; an existing ``path``
    is replaced."""
    with convert_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
        aside.unlink(missing_ok=True)
        try:
            try:
                with source.open("rb") as stream:
                    os.fsync(stream.fileno())
                os.link(source.resolve(), aside)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                    raise
                copy(source, aside)
            aside.chmod(0o444)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)  # renaming onto another name of the same file does nothing
        flush_folder(path.parent)


def offer(source: Path, path: Path) -> None:
    """Show a stored file to a child under another name: a hard link, or a symbolic one across file systems."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, path)
    except OSError:
        path.symlink_to(source)


def remove(path: Path) -> None:
    """Remove a file or a whole folder, if it exists. A folder is first renamed, so that a killed removal leaves no
    partial folder under its name."""
    if path.is_dir() and not path.is_symlink():
        import shutil

        gone = path if is_leftover(path.name) else path.with_name(f".{path.name}{_GONE}")
        shutil.rmtree(gone, ignore_errors=True)
        with contextlib.suppress(OSError):
            path.replace(gone)
            shutil.rmtree(gone, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def has_path(folder: Path, path: str) -> bool:
    """Return True if a folder contains a file or folder at this path, in which * matches any text."""
    return any(folder.glob(path)) if "*" in path else (folder / path).exists()


def is_leftover(name: str) -> bool:
    """Return True for a name that only an unfinished write or removal uses."""
    return name.startswith(".") and name.endswith((PARTIAL, _GONE))


def read_size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def hash_file(path: Path) -> str:
    return hash_regular(path)


def hash_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def hash_files(folder: Path, digests: Iterable[tuple[Path, str]]) -> str:
    """Return a folder's digest, computed from the digests of its files, sorted by path."""
    total = hashlib.sha256()
    for item, digest in digests:
        total.update(f"{item.relative_to(folder).as_posix()}\0{digest}\n".encode())
    return total.hexdigest()


def hash_listing(files: Mapping[str, str]) -> str:
    """Return the digest of {name: sha256 of its bytes}."""
    return hash_bytes("".join(f"{name}\0{files[name]}\n" for name in sorted(files)).encode())


def try_flock(descriptor: int) -> bool:
    """Take the flock of an open file or folder, unless another process has it or the file system has none."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Lock:
    """A flock on an open descriptor: it ends with the process, so it never has to be unlocked by hand.

    The descriptor is inheritable: a child started with it keeps the lock until it too has ended, so the next pass
    cannot begin while a dying child of the last one still writes.
    """

    def __init__(self, path: Path, *, purpose: str, shared_folder: bool = False) -> None:
        self.path, self.purpose, self._shared = path, purpose, shared_folder
        self.descriptor = -1

    def acquire(self, *, wait: float = 0.0, note: str = "") -> Self:
        """Take the lock. Raises LockedError with the owner's name if the lock is not free within ``wait`` seconds.
        ``note``: its purpose, shown to processes that wait for it."""
        with convert_storage_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = self._open()
        give_up = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                    os.close(descriptor)
                    raise explain_storage_error(error, self.path) from error
                owner, taken_for = _read_owner(descriptor)
                owner = owner or "another process"
                # A killed owner ends a moment later, and its child keeps the lock even longer.
                alive = _is_running(owner)
                grace = _ENDING_GRACE if alive else _ORPHAN_GRACE
                if time.monotonic() >= give_up + grace:
                    os.close(descriptor)
                    raise self._make_locked_error(owner, taken_for, alive=alive) from None
                time.sleep(0.05)
        try:
            with convert_storage_errors(self.path):
                self._write_owner(descriptor, f", {self.purpose}\n{note}")
        except BaseException:
            os.close(descriptor)
            raise
        os.set_inheritable(descriptor, True)
        self.descriptor = descriptor
        return self

    def _write_owner(self, descriptor: int, text: str) -> None:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}{text}\n".encode(errors="replace"), 0)

    def _make_locked_error(self, owner: str, note: str, *, alive: bool) -> LockedError:
        owner = owner.replace(_RELEASED, "")
        if alive:
            holder = owner.removesuffix(f", {self.purpose}")
            fix = "wait for it to end, or stop it; the lock ends with it"
            return LockedError(f"{self.purpose} (held by {holder}{f': {note}' if note else ''})", fix=fix)
        problem = f"{self.purpose}: {owner}, has ended, but a process that it started still uses it"
        return LockedError(problem, fix=f"find that process with `fuser {self.path}`: wait for it to end, or stop it")

    def _open(self) -> int:
        """Open the lock file. Linux lets us open another user's lock file in a shared folder, but not with O_CREAT
        (fs.protected_regular). Any other kind of file in its place is never written, since a link would lead to one of
        our files."""
        try:
            descriptor = self._open_or_create()
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise
            raise self._make_foreign_error() from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(descriptor)
            raise self._make_foreign_error()
        return descriptor

    def _open_or_create(self) -> int:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
        while True:
            with contextlib.suppress(FileNotFoundError):
                return os.open(self.path, flags)
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o644)
                if self._shared:
                    os.fchmod(descriptor, 0o666)
                return descriptor

    def _make_foreign_error(self) -> StorageError:
        fix = "find its creator and remove it, or use another folder: export RECONCILE_LOCKS=DIR"
        return StorageError(f"{self.path} is a link or special file, not a lock", fix=fix)

    def release(self) -> None:
        if self.descriptor >= 0:
            with contextlib.suppress(OSError):
                self._write_owner(self.descriptor, f"{_RELEASED}, {self.purpose}\n")
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class RepositoryLock(Lock):
    """The lock of a pass, and of any other command that changes the records or stored files of a repository."""

    def __init__(self, paths: RepositoryPaths, *, purpose: str) -> None:
        super().__init__(paths.pass_lock, purpose=purpose)

    def _make_locked_error(self, owner: str, note: str, *, alive: bool) -> LockedError:
        process, _, purpose = owner.partition(", ")
        if not alive:
            return super()._make_locked_error(owner, note, alive=alive)
        article = "another" if purpose == self.purpose else "an" if purpose[:1] in tuple("aeiou") else "a"
        running = f"{article} {purpose} is running ({process})" if purpose else f"{owner} uses this repository"
        return LockedError(f"cannot start: {running}", fix="try again when it has ended")


def find_lock_owner(path: Path) -> str:
    """Return the lock's owner, as "process 123, pass over this repository"; "" if it is free or released. The check
    itself takes the lock for a moment, so a process that fails to get it just then should try again."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return ""
    except OSError:
        owner = _read_owner(descriptor)[0]
        return "" if _RELEASED in owner else owner
    finally:
        os.close(descriptor)


def _read_owner(descriptor: int) -> tuple[str, str]:
    """Return the lock's owner and note. Others may write into a shared lock file, so unprintable characters are left
    out."""
    owner, _, note = os.pread(descriptor, _LONGEST_OWNER, 0).decode(errors="replace").partition("\n")
    found = ("".join(filter(str.isprintable, text.partition("\n")[0])).strip() for text in (owner, note))
    return next(found), next(found)


def _is_running(owner: str) -> bool:
    """Return True if the process named in a lock file is running and has not released the lock, or if none is named. A
    process that merely waits for its parent to notice its end does not count."""
    found = re.match(r"process (\d+)", owner)
    if found is None:
        return True
    if _RELEASED in owner:
        return False
    try:
        os.kill(int(found[1]), 0)
        state = Path(f"/proc/{found[1]}/stat").read_text(encoding="utf-8", errors="replace")
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return not state.rpartition(")")[2].strip().startswith("Z")


class TrialPaths(RepositoryPaths, frozen=True):
    """Paths of a trial. It shares specs, objects and locks with every pass; its records, logs, attempts and tree are
    separate."""

    trials = PathIn("work", "trials")
    records = PathIn("trials", "records")
    logs = PathIn("trials", "logs")
    attempts = PathIn("trials", "attempts")
    index = PathIn("trials", "index")
    tree = PathIn("trials", "tree")
