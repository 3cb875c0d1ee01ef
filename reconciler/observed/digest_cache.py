"""Cache file digests by size and modification time, and hash a file again when either changes.

A file whose size and modification time have not changed since it was hashed keeps its digest (stat tier); any other is
hashed (hash tier). The deep tier hashes everything, which also finds a change that restored the times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from reconciler.resource.codec import encode_packed
from reconciler.storage.files import (
    RepositoryPaths,
    hash_bytes,
    hash_file,
    hash_files,
    read_checked,
    read_version,
    write_cache,
)
from reconciler.storage.json_files import parse_json
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.storage.untrusted_files import walk_files

_LARGE, _AT_ONCE = 64 << 20, 4  # bytes from which a file in a folder is remembered separately; files hashed at a time
_KERNEL = ("/proc/", "/sys/")  # files that have size zero, never end, or are as large as all memory
UNREADABLE = ""  # used instead of a digest; no file's digest equals it

Stated = tuple[str, int, int]  # path, size in bytes, modification time in ns


class DigestCache:
    """path → (size, mtime in ns, sha256). Disposable.

    It covers sources, of which there are few, and stored and rendered files, of which there may be many: their stamps
    are read only if something has changed since all were intact (see ``well``).
    """

    def __init__(self, paths: RepositoryPaths, *, deep: bool = False) -> None:
        self._deep, self._root = deep, paths.root
        self._files = _Table(paths.index / "stamps.json")
        self._sources = _Table(paths.index / "sources.json")
        self._seals = _Table(paths.index / "seals.json")
        self._sound: tuple[str, set[tuple[str, str]]] = ("", set())

    def refresh(self) -> None:
        """Reload before another look of the same process, to include other processes' notes."""
        for table in (self._files, self._sources, self._seals):
            table.refresh()

    def load_intact(self, disk: str) -> set[tuple[str, str]]:
        """Load the artifacts that this process found intact on a disk with the present seal; callers add to the set."""
        if self._sound[0] != disk:
            self._sound = (disk, set())
        return self._sound[1]

    def get_digest(self, path: str, size: int, mtime_ns: int) -> str:
        """Return the file's SHA-256; from memory if its size and time are known and this is not a deep look."""
        return self._digest(self._files, path, size, mtime_ns)

    def _digest(self, table: _Table, path: str, size: int, mtime_ns: int) -> str:
        known = table.rows.get(path)
        if known is not None and not self._deep and known[0] == size and known[1] == mtime_ns:
            return str(known[2])
        try:
            found = hash_file(Path(path))
        except OSError as error:
            refuse_storage_error(error, Path(path))
            return UNREADABLE
        table.put(path, [size, mtime_ns, found])
        return found

    def hash_source(self, path: Path) -> str | None:
        """Return the digest of a source: a file, or a whole folder, such as a checkpoint in shards. None if it cannot
        be read, and for a folder that contains the repository itself, such as "/", which would take hours to search.
        Hidden folders below it do not count: the files that git or a download keeps there differ between clones."""
        if is_of_system(path) or _is_above(path, self._root):
            return None
        try:
            return self._hash_source(path)
        except OSError as error:
            refuse_storage_error(error, path)
            return None

    def _hash_source(self, path: Path) -> str | None:
        if path.is_file():
            status = path.stat()
            return self._digest(self._sources, str(path), status.st_size, status.st_mtime_ns) or None
        files = [item for item in sorted(walk_files(path)) if item.is_file() and not _is_in_hidden(item, path)]
        stated = [(item, s.st_size, s.st_mtime_ns) for item in files for s in (item.stat(),)]
        now = seal("folder", ((item.relative_to(path).as_posix(), size, time) for item, size, time in stated))
        return self.get_remembered(f"{path}/ (files)", now, lambda: self._hash_folder(path, stated))

    def _hash_folder(self, folder: Path, files: Sequence[tuple[Path, int, int]]) -> str:
        """Hash several large files at once, and remember each separately, so that a new shard does not require reading
        all of them."""
        from concurrent.futures import ThreadPoolExecutor

        large = [(str(item), size, time) for item, size, time in files if size >= _LARGE]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            digests = pool.map(lambda stated: self._digest(self._sources, *stated), large)
            found = dict(zip([path for path, *_ in large], digests, strict=True))
        return hash_files(folder, ((item, found.get(str(item)) or hash_file(item)) for item, *_ in files))

    def get_remembered(self, name: str, now: str, take: Callable[[], str]) -> str:
        """Return a digest that is valid while the seal of its files is unchanged."""
        known = self._sources.rows.get(name)
        if known is not None and not self._deep and known[0] == now:
            return str(known[1])
        found = take()
        self._sources.put(name, [now, found])
        return found

    def was_intact(self, what: str, seal: str) -> bool:
        """Return True if nothing was wrong when the seal was the same: the stat tier, for many files at once."""
        return not self._deep and self._seals.rows.get(what) == seal

    def note_check(self, what: str, seal: str, *, well: bool) -> None:
        """Note the result of a deep look: a problem remains for the next look, even if no time changed."""
        self._seals.put(what, seal if well else "")

    def save(self) -> None:
        for table in (self._files, self._sources, self._seals):
            table.save()


def is_of_system(path: Path) -> bool:
    """Return True if a spec's path leads to the kernel's own files, or to the root of the file system."""
    real = os.path.realpath(path)
    return real == "/" or f"{real}/".startswith(_KERNEL)


def _is_above(path: Path, root: Path) -> bool:
    real = Path(os.path.realpath(path))
    return root != real and root.is_relative_to(real)


def _is_in_hidden(item: Path, top: Path) -> bool:
    return any(part.startswith(".") for part in item.relative_to(top).parts[:-1])


def seal(of: str, files: Iterable[Stated]) -> str:
    """Return a seal of the files' sizes and times, and of what they were compared with. It uses the folders' listing
    order: another order only costs a closer look."""
    stated = [of, *files]
    try:
        return hash_bytes(encode_packed(stated))
    except UnicodeEncodeError:  # from a name whose bytes are not text
        return hash_bytes(repr(stated).encode())


class _Table:
    """A disposable JSON object on disk, read on first use."""

    def __init__(self, path: Path) -> None:
        self._path, self._dirty = path, False
        self._read: object = None

    def refresh(self) -> None:
        if not self._dirty and read_version(self._path) != self._read:
            self.__dict__.pop("rows", None)

    @cached_property
    def rows(self) -> dict[str, Any]:
        self._read = read_version(self._path)
        try:
            document = parse_json(read_checked(self._path) or b"{}")
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}

    def put(self, name: str, row: Any) -> None:
        if self.rows.get(name) != row:
            self.rows[name] = row
            self._dirty = True

    def save(self) -> None:
        if self._dirty:
            write_cache(self._path, json.dumps(self.rows, separators=(",", ":")).encode())
            self._dirty, self._read = False, read_version(self._path)
