"""Reading of single files within size limits: an unreadable file gives a problem, never an exception."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct

from reconciler.errors import LogError
from reconciler.resource.kinds import DIVISIONS
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.storage.untrusted_files import SpecialFileError, read_regular
from reconciler.tree.reading.unreadable_folders import (
    UnreadableFolderError,
    find_closed_folder,
    note_closed_file,
    refuse_closed_folder,
)

# An in-memory tree that is read as if it were on disk. An audit renders a tree and applies the rules for published
# trees to it; writing tens of thousands of small files would take longer than judging them.

ROOT = Path("in-memory:")  # relative and never created, so no path of a tree on disk begins with it
_CURRENT: ContextVar[InMemoryTree | None] = ContextVar("current_tree", default=None)


class InMemoryTree(Struct, frozen=True):
    """``files``: path below the root → function that returns its bytes; ``folders``: path → names of the folders and of
    the files in it, both sorted."""

    files: Mapping[str, Callable[[], bytes]]
    folders: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]


@contextlib.contextmanager
def use_in_memory_tree(files: Mapping[str, Callable[[], bytes]]) -> Iterator[Path]:
    """Provide a root under which the files can be read within the context. Nothing is written to disk."""
    folders: dict[str, tuple[set[str], set[str]]] = {"": (set(), set())}
    for path in files:
        parent, _, name = path.rpartition("/")
        _enter(parent, folders)[1].add(name)
    listed = {path: (tuple(sorted(below)), tuple(sorted(names))) for path, (below, names) in folders.items()}
    token = _CURRENT.set(InMemoryTree(files, listed))
    try:
        yield ROOT
    finally:
        _CURRENT.reset(token)


def _enter(path: str, folders: dict[str, tuple[set[str], set[str]]]) -> tuple[set[str], set[str]]:
    """Add a folder, and list it in the folders above it."""
    if path not in folders:
        folders[path] = set(), set()
        parent, _, name = path.rpartition("/")
        _enter(parent, folders)[0].add(name)
    return folders[path]


def strip_root(path: Path | str) -> str:
    """Return the path below the in-memory root; "" for the root itself."""
    return str(path).removeprefix(str(ROOT)).removeprefix("/")


T = TypeVar("T", covariant=True)

# LoadGen's logs take tens of kilobytes, or megabytes if they list hundreds of thousands of samples.
LOG_LIMIT = 64 << 20
TEXT_LIMIT = 8 << 20
_EMPTY: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


class Read(Struct, Generic[T], frozen=True):
    """File and its parsed value. ``value`` None: the file is absent (``problem`` empty) or unusable. ``file``: path
    below the tree's root; ``line``: 1-based line of the problem."""

    file: str
    value: T | None = None
    problem: str = ""
    line: int = 0

    @property
    def absent(self) -> bool:
        return self.value is None and not self.problem


class UnreadableError(ValueError):
    """A file exists but cannot be used."""


def read_bytes(path: Path | str, limit: int) -> bytes | None:
    """Read a file; None if nothing exists at ``path``. Raises UnreadableError for anything but a regular file within
    the limit."""
    if (in_memory := _CURRENT.get()) is not None:
        return _read_in_memory(in_memory, strip_root(path), limit)
    try:
        return read_regular(path, limit, follow=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return _read_link(Path(path), limit)
        if isinstance(error, PermissionError):
            note_closed_file(path)
        raise _convert_error(error) from error


def _read_in_memory(tree: InMemoryTree, name: str, limit: int) -> bytes | None:
    if name in tree.folders:
        raise UnreadableError("it is not a regular file")
    data = tree.files[name]() if name in tree.files else None
    if data is not None and len(data) > limit:
        raise UnreadableError(f"it has {len(data):,} bytes, too many for its type")
    return data


def _read_link(path: Path, limit: int) -> bytes | None:
    try:
        if leads_out(path):
            raise UnreadableError("it is a link that points outside the tree")
        return read_regular(path, limit)
    except FileNotFoundError:
        raise UnreadableError("it is a broken link") from None
    except NotADirectoryError:
        return None
    except OSError as error:
        raise _convert_error(error) from error


def _convert_error(error: OSError) -> UnreadableError:
    if isinstance(error, IsADirectoryError):
        return UnreadableError("it is not a regular file")
    if isinstance(error, SpecialFileError):
        return UnreadableError(str(error.strerror))
    return UnreadableError(f"it cannot be read: {error.strerror}")


def read_file(path: Path | str, shown: str, parse: Callable[[bytes, str], T], limit: int = TEXT_LIMIT) -> Read[T]:
    """Read and parse a file. ``parse`` takes the bytes and the shown name, and raises LogError or ValueError."""
    try:
        data = read_bytes(path, limit)
        return Read(shown) if data is None else Read(shown, parse(data, shown))
    except LogError as error:
        # A Read stores file and line separately.
        rest = error.message.removeprefix(f"{shown}:")
        line, _, text = rest.partition(": ")
        return Read(shown, problem=text, line=int(line)) if line.isdecimal() else Read(shown, problem=rest.strip())
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError, OverflowError) as error:
        problem = " ".join(str(error).split()) or type(error).__name__
        return Read(shown, problem=problem, line=getattr(error, "lineno", 0))


def decode_text(data: bytes, _: str) -> str:
    return data.decode("utf-8", "replace")


def join_path(path: str, name: str) -> str:
    """Join like Path, in a tenth of the time: finding a tree searches thousands of folders."""
    return name if path == "." else f"{path.removesuffix('/')}/{name}"


def list_folders(path: Path | str) -> tuple[str, ...]:
    """List the names of the folders in a folder, sorted; empty if it is not a folder or unreadable."""
    if (in_memory := _CURRENT.get()) is not None:
        return in_memory.folders.get(strip_root(path), _EMPTY)[0]
    return tuple(sorted(entry.name for entry in list_entries(path) if _is_folder(entry)))


def list_files(path: Path | str) -> tuple[str, ...]:
    """List the names of everything in a folder except folders, sorted."""
    if (in_memory := _CURRENT.get()) is not None:
        return in_memory.folders.get(strip_root(path), _EMPTY)[1]
    return tuple(sorted(entry.name for entry in list_entries(path) if not _is_folder(entry)))


def is_folder(path: Path | str) -> bool:
    """Return True for a folder; follows links."""
    if (in_memory := _CURRENT.get()) is not None:
        return strip_root(path) in in_memory.folders
    return (status := _find_status(path)) is not None and stat.S_ISDIR(status.st_mode)


def is_there(path: str) -> bool:
    """Return True if anything exists at the path; follows links."""
    if (in_memory := _CURRENT.get()) is not None:
        return (name := strip_root(path)) in in_memory.files or name in in_memory.folders
    return _find_status(path) is not None


def find_size(folder: str, name: str) -> int | None:
    """Return the size in bytes; None if there is no such file."""
    if (in_memory := _CURRENT.get()) is not None:
        path = strip_root(f"{folder}/{name}")
        return len(in_memory.files[path]()) if path in in_memory.files else None
    found = next((entry for entry in list_entries(folder) if entry.name == name), None)
    try:
        return None if found is None or found.is_dir() else found.stat().st_size
    except OSError as error:
        _refuse_unknown(error, f"{folder}/{name}")
        return None


def list_entries(path: Path | str) -> list[os.DirEntry[str]]:
    """List a folder's entries; empty if there is no such folder. Raises StorageError for a folder that cannot be read
    (UnreadableFolderError if this user lacks permission), because its content is unknown, not empty."""
    try:
        with os.scandir(path) as found:
            return list(found)
    except PermissionError as error:
        raise UnreadableFolderError(error, find_closed_folder(path) or Path(path)) from error
    except OSError as error:
        refuse_storage_error(error, path)
        return []


def _find_status(path: Path | str) -> os.stat_result | None:
    """Return the status of a file, following links; None if there is no such file."""
    try:
        return os.stat(path)  # noqa: PTH116
    except ValueError:  # a name that contains a NUL byte
        return None
    except OSError as error:
        _refuse_unknown(error, path)
        return None


def _refuse_unknown(error: OSError, path: Path | str) -> None:
    """Raise StorageError if the error does not show that there is no such file."""
    refuse_storage_error(error, path)
    refuse_closed_folder(error, path)


def leads_out(path: Path) -> bool:
    """Return True if a link leads out of its tree. The tree's author could otherwise have a file of the reader's
    machine read under the link's name."""
    parent = Path(os.path.realpath(path.parent))
    divisions = [index for index, name in enumerate(parent.parts) if name in DIVISIONS]
    top = Path(*parent.parts[: divisions[-1]]) if divisions else parent
    return not Path(os.path.realpath(path)).is_relative_to(top)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() and not (entry.is_symlink() and leads_out(Path(entry.path)))
    except OSError as error:
        _refuse_unknown(error, entry.path)
        return False
