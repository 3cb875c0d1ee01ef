"""Cache of recently read logs: accuracy variants of a benchmark usually publish identical ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct, field

from reconciler.errors import LogError
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_files import hash_log, is_truncated
from reconciler.resource.lazy_property import lazy_property
from reconciler.rules.compliance.entries import Entry, read_cached_entries

_CACHE_LIMIT = 16 << 20  # bytes of logs, enough for a few scenarios
T = TypeVar("T")


class RecentFiles(Struct, Generic[T]):
    """A cache of the contents of recent files, by SHA-256. The oldest entries are dropped first."""

    cached_bytes: int = 0
    _found: dict[str, tuple[int, T]] = field(default_factory=dict)

    def find(self, digest: str, size: int, read: Callable[[], T]) -> T:
        """Return what ``read`` made of an identical file, or call it. ``size``: bytes."""
        if digest not in self._found:
            self._found[digest] = size, read()
            self.cached_bytes += size
        found = self._found[digest][1]
        while self.cached_bytes > _CACHE_LIMIT:
            self.cached_bytes -= self._found.pop(next(iter(self._found)))[0]
        return found


class CachedAnswers(Struct, frozen=True, dict=True):
    """Accuracy log with values derived from it. ``hash``: see ``hash_log``."""

    data: bytes
    hash: str

    @lazy_property
    def truncated(self) -> bool:
        return is_truncated(self.data)

    def list_own_hashes(self) -> Iterator[str]:
        """Yield the hash of the log unchanged, and with the line ends that LoadGen writes on Linux."""
        yield self.hash
        if b"\r" in self.data:
            yield hash_log(self._plain)

    def list_hashes(self) -> Iterator[str]:
        """Also yield the hash with other line ends, which git and archivers may change. Each is computed only if those
        before do not match."""
        yield from self.list_own_hashes()
        yield hash_log(self._plain.replace(b"\n", b"\r\n"))

    @property
    def _plain(self) -> bytes:
        return self.data.replace(b"\r\n", b"\n") if b"\r" in self.data else self.data

    @lazy_property
    def entries(self) -> tuple[Entry, ...]:
        """Entries of the log; empty if it is not in LoadGen's format. Reading it line by line gives the reason."""
        try:
            return tuple(read_cached_entries(self.data))
        except LogError:
            return ()


RECENT: RecentFiles[DetailLog] = RecentFiles()
RECENT_ANSWERS: RecentFiles[CachedAnswers] = RecentFiles()
