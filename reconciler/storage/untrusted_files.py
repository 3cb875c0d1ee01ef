"""The gate for foreign files: submission trees, logs of other machines, and files of a pull request.

The sender of a folder chooses every entry. A link may lead to the reader's own files, which would be read, shown or
recorded as if the sender had sent them; a pipe or a device never ends; a sparse file costs its sender nothing and its
reader hours; and a thousand nested folders exhaust the stack of a recursive walk.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from io import BufferedReader
from pathlib import Path

# For files that are read completely: LoadGen's longest detail logs have tens of megabytes.
LARGEST = 64 << 20
LARGEST_RECORD = 16 << 20  # bytes of a record or a decision, which usually has kilobytes
# For files that are copied or hashed in pieces: answers of an accuracy run (images have gigabytes).
LARGEST_ANSWERS = 64 << 30
DEEPEST = 40  # nested folders; a submission tree has about ten levels
_ANSWERS = "mlperf_log_accuracy.json"
_GIT_FILE = 1 << 16  # bytes of a .git that is a file
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE = 1 << 20  # bytes per read of a file that is longer than its stated size
_HASHED = 1 << 18  # bytes hashed at a time
_LEAST_HASHED = 1 << 12  # if the file states a smaller size
_GROWTH = 64 << 20  # bytes by which a file may grow while it is hashed
_SPARSE = 64  # text that a file system compresses shrinks less


class SpecialFileError(OSError):
    """A special entry under a file's name that cannot be read as a file; ``strerror`` gives the reason."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(errno.EINVAL, why, str(path))


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, following links. Raises SpecialFileError for a pipe, which would block forever, or a
    device."""
    descriptor = os.open(path, _READ)
    try:
        _require_regular(os.fstat(descriptor), path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def hash_regular(path: Path) -> str:
    """Return the SHA-256. Raises SpecialFileError for a file that yields far more than its size: kernel files claim to
    be empty, and some never end. A log may grow a little while it is read."""
    total = hashlib.sha256()
    with open_regular(path) as stream:
        left = os.fstat(stream.fileno()).st_size
        piece = memoryview(bytearray(min(_HASHED, max(left, _LEAST_HASHED))))
        while count := stream.readinto(piece):
            left -= count
            if left < -_GROWTH:
                raise SpecialFileError(path, "it has more bytes than declared")
            total.update(piece[:count])
    return total.hexdigest()


def _require_regular(status: os.stat_result, path: Path | str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise SpecialFileError(path, "it is not a regular file")


def read_regular(path: Path | str, limit: int = LARGEST, *, follow: bool = True) -> bytes:
    """Read a regular file. Raises SpecialFileError for more than ``limit`` bytes before reading any. ``follow`` False:
    raises OSError (ELOOP) for a link."""
    descriptor = os.open(path, _READ if follow else _READ | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        _require_regular(status, path)
        size = status.st_size
        data = _read_all(descriptor, size, limit) if size <= limit else b""
    finally:
        os.close(descriptor)
    if size > limit or len(data) > limit:
        raise SpecialFileError(path, f"it has {max(size, len(data)):,} bytes, too many for its type")
    return data


def _read_all(descriptor: int, size: int, limit: int) -> bytes:
    """Read to the end of the file, at most one byte beyond ``limit``: some file systems report no size or a wrong
    one."""
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data
    while len(data) <= limit and (more := os.read(descriptor, min(_PIECE, limit + 1 - len(data)))):
        data += more
    return data


def walk_files(folder: Path, deepest: int = DEEPEST, skipped: Collection[str] = ()) -> Iterator[Path]:
    """Yield everything below a folder except folders; links are included but not followed. ``skipped``: names of
    folders to leave out. Raises SpecialFileError for folders nested more deeply than ``deepest``, OSError for
    unreadable folders."""
    waiting = [(folder, 0)]
    while waiting:
        parent, depth = waiting.pop()
        if depth > deepest:
            raise SpecialFileError(parent, f"folders are nested more than {deepest} deep")
        with os.scandir(parent) as found:
            entries = sorted(found, key=lambda entry: entry.name, reverse=True)
        below = (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        waiting += [(parent / name, depth + 1) for name in below if name not in skipped]
        yield from (parent / entry.name for entry in reversed(entries) if not entry.is_dir(follow_symlinks=False))


def list_special_entries(folder: Path, inside: Path | None = None) -> Iterator[tuple[Path, str]]:
    """Yield (path, description) of each entry, including the folder itself, that is neither a folder nor a regular file
    of a sensible size, and of links that lead out of ``inside``, by default the folder itself. Links that stay inside
    are followed only once: their targets have their own entries."""
    top = Path(os.path.realpath(inside or folder))
    if not Path(os.path.realpath(folder)).is_relative_to(top):
        yield folder, "a link that points elsewhere"
        return
    try:
        for path in walk_files(folder):
            if what := _describe_special(path, top):
                yield path, what
    except FileNotFoundError:
        return
    except OSError as error:
        yield Path(error.filename or folder), f"not readable: {error.strerror}"


def describe_special(path: Path) -> str:
    """Describe an entry that is neither a folder nor a regular file of a sensible size; "" for any other."""
    return _describe_special(path, Path("/")) if os.path.lexists(path) else ""


def _describe_special(path: Path, top: Path) -> str:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            if not Path(os.path.realpath(path)).is_relative_to(top):
                return "a link that points elsewhere"
            status = path.stat()
    except OSError as error:
        return f"not readable ({error.strerror})"
    if stat.S_ISDIR(status.st_mode):
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "a pipe, socket or device"
    return _describe_size(path.name, status)


def _describe_size(name: str, status: os.stat_result) -> str:
    if status.st_size <= LARGEST:
        return ""
    if name != _ANSWERS or status.st_size > LARGEST_ANSWERS:
        return f"a file of {status.st_size:,} bytes, too many for its type"
    return f"a file of {status.st_size:,} bytes that occupies {status.st_blocks * 512:,}" if is_sparse(status) else ""


def is_special(status: os.stat_result) -> bool:
    """Return True for anything but an ordinary file: a pipe, a device, a sparse file."""
    return not stat.S_ISREG(status.st_mode) or is_sparse(status)


def is_sparse(status: os.stat_result) -> bool:
    """Return True if a file claims far more bytes than were ever written to it."""
    return status.st_size > LARGEST and status.st_blocks * 512 * _SPARSE < status.st_size


def find_in_index(root: Path, folder: str) -> str:
    """Return the first path at or below ``folder`` in git's index, "" for none. The index is read without git, since
    every command needs it; a pull request's additions are in the index once it is checked out. Raises OSError if the
    index, and thus its list, cannot be read."""
    top = _find_work_tree(root)
    if top is None:
        return ""
    wanted = (root.relative_to(top) / folder).as_posix().encode(errors="surrogateescape")
    try:
        index = (_find_git_folder(top / ".git") / "index").read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, SpecialFileError):
        return ""
    below = wanted + b"/"
    try:
        found = next((path for path in _find_paths(index, wanted) if path == wanted or path.startswith(below)), b"")
    except (ValueError, IndexError):
        return ""  # git itself cannot read such an index
    return found.decode(errors="surrogateescape")


def find_place_in_git(root: Path, name: str) -> Path:
    """Return a folder for ``root`` inside its git folder, whose content never comes from a commit; ``root`` is in a
    work tree."""
    top = _find_work_tree(root)
    assert top is not None
    return _find_git_folder(top / ".git").resolve() / name / root.relative_to(top)


def _find_work_tree(root: Path) -> Path | None:
    return next((parent for parent in (root, *root.parents) if (parent / ".git").exists()), None)


def _find_git_folder(path: Path) -> Path:
    """Find the git folder of a linked work tree or a submodule, whose .git is a file that names it."""
    if path.is_dir():
        return path
    named = read_regular(path, _GIT_FILE).decode(errors="surrogateescape").partition("gitdir:")[2].strip()
    return path.parent / named


def _find_paths(index: bytes, wanted: bytes) -> Iterator[bytes]:
    """Yield the paths that may begin with ``wanted`` (gitformat-index). After the flags, which end in the length of the
    path, each path is complete, except in version 4, which stores only the difference from the previous one."""
    if index[4:8] == (4).to_bytes(4, "big"):
        yield from _unpack_paths(index)
        return
    at = index.find(wanted)
    while at >= 0:
        path = index[at : index.find(b"\0", at)]
        flags = {int.from_bytes(index[at - back : at - back + 2], "big") & 0xFFF for back in (2, 4)}
        if min(len(path), 0xFFF) in flags:
            yield path
        at = index.find(wanted, at + 1)


def _unpack_paths(index: bytes) -> Iterator[bytes]:
    at, path = 12, b""
    for _ in range(int.from_bytes(index[8:12], "big")):
        flags = int.from_bytes(index[at + 60 : at + 62], "big")
        at += 64 if flags & 0x4000 else 62
        kept, more = index[at] & 0x7F, index[at] & 0x80
        while more:
            at += 1
            kept, more = ((kept + 1) << 7) | (index[at] & 0x7F), index[at] & 0x80
        end = index.index(b"\0", at + 1)
        path = path[: len(path) - kept] + index[at + 1 : end]
        at = end + 1
        yield path
