"""Digests of files, remembered by size and time: the stat tier, and the hash tier behind it.

A file whose size and modification time are as they were when its digest was taken is believed (stat tier); any
other is hashed (hash tier). The deep tier hashes everything, which also finds a change that put the times back.
"""

from __future__ import annotations

import json
from pathlib import Path

from reconciler.files import Places, read_checked, sha256_file, sha256_tree, write_cache


UNREADABLE = ""  # in place of a digest: no file's digest equals it


class Stamps:
    """path → (size, mtime in ns, sha256). Disposable."""

    def __init__(self, places: Places, *, deep: bool = False) -> None:
        self._path = places.index / "stamps.json"
        self._deep, self._dirty = deep, False
        self._known: dict[str, tuple[int, int, str]] = {}
        try:
            document = json.loads(read_checked(self._path) or b"{}")
            self._known = {name: (row[0], row[1], row[2]) for name, row in document.items()}
        except (ValueError, AttributeError, IndexError, TypeError):
            pass

    def digest(self, path: str, size: int, mtime_ns: int) -> str:
        """The file's SHA-256; from memory when its size and time are known ones and this is no deep look."""
        known = self._known.get(path)
        if known is not None and not self._deep and known[0] == size and known[1] == mtime_ns:
            return known[2]
        try:
            found = sha256_file(Path(path))
        except OSError:
            return UNREADABLE
        if known is None or known != (size, mtime_ns, found):
            self._known[path] = (size, mtime_ns, found)
            self._dirty = True
        return found

    def source(self, path: Path) -> str | None:
        """Digest of a source: a file, or a folder as a whole (its size and newest time stand for it); None when it
        cannot be read."""
        try:
            return self._source(path)
        except OSError:
            return None

    def _source(self, path: Path) -> str | None:
        if path.is_file():
            status = path.stat()
            return self.digest(str(path), status.st_size, status.st_mtime_ns) or None
        statuses = [p.stat() for p in path.rglob("*") if p.is_file()]
        size, newest = sum(s.st_size for s in statuses), max((s.st_mtime_ns for s in statuses), default=0)
        name = f"{path}/ ({len(statuses)} files)"
        known = self._known.get(name)
        if known is not None and not self._deep and known[:2] == (size, newest):
            return known[2]
        self._known[name] = (size, newest, sha256_tree(path))
        self._dirty = True
        return self._known[name][2]

    def save(self) -> None:
        if self._dirty:
            write_cache(self._path, json.dumps(self._known, separators=(",", ":")).encode())
            self._dirty = False
