"""Cache of recently read logs: accuracy variants of a benchmark usually publish identical ones."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import LogError
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_files import is_truncated, log_hash
from reconciler.resource.lazy_property import lazy_property
from reconciler.rules.compliance.entries import Entry, read_cached_entries

_CACHE_LIMIT = 16 << 20  # bytes of logs, enough for a few scenarios
_END = 8 << 10  # bytes
_TOLD = 256  # bytes at both ends of a log that distinguish it from most others


def digest_log(data: bytes) -> str:
    """Digest that distinguishes a detail log from others in this process, which salts it, in a third of the time of
    SHA-256. For a log with long lists of samples, only its length and both ends count: they contain the settings, the
    results and timestamps that no other run has."""
    return f"{len(data)}-{hash(data[:_END])}-{hash(data[-_END:])}"


Key = tuple[int, bytes]


class LogCache(Struct):
    """Parsed logs and their digests by length and ends; the oldest are dropped first. A log that could not be parsed is
    not cached, because its error names its file."""

    cached_bytes: int = 0
    _logs: dict[Key, tuple[DetailLog, str, bytes]] = field(default_factory=dict)

    def find(self, data: bytes, file: str) -> tuple[DetailLog, str] | None:
        """Return a log and its digest; None if it was not read recently."""
        log, digest, text = self._logs.get(_make_cache_key(data), (None, "", b""))
        return (replace(log, file=file), digest) if log is not None and text == data else None

    def parse(self, data: bytes, digest: str, file: str) -> DetailLog:
        """Parse and cache a log. Raises LogError like ``parse_detail``."""
        log, key = parse_detail(data, file), _make_cache_key(data)
        known = self._logs.get(key)
        self.cached_bytes += len(data) - (len(known[2]) if known is not None else 0)
        self._logs[key] = (log, digest, data)
        while self.cached_bytes > _CACHE_LIMIT:
            self.cached_bytes -= len(self._logs.pop(next(iter(self._logs)))[2])
        return log


class CachedAnswers(Struct, frozen=True, dict=True):
    """Accuracy log with values derived from it."""

    data: bytes

    @lazy_property
    def truncated(self) -> bool:
        return is_truncated(self.data)

    @lazy_property
    def hash(self) -> str:
        return log_hash(self.data)

    def own_hashes(self) -> Iterator[str]:
        """Yield the hash of the log unchanged, and with the line ends that LoadGen writes on Linux."""
        yield self.hash
        if b"\r" in self.data:
            yield log_hash(self._plain)

    def list_hashes(self) -> Iterator[str]:
        """Also yield the hash with other line ends, which git and archivers may change. Each is computed only if those
        before do not match."""
        yield from self.own_hashes()
        yield log_hash(self._plain.replace(b"\n", b"\r\n"))

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


class AnswerCache(Struct):
    """Accuracy logs by length and ends; the oldest are dropped first."""

    cached_bytes: int = 0
    _logs: dict[Key, CachedAnswers] = field(default_factory=dict)

    def find(self, data: bytes) -> CachedAnswers:
        key = _make_cache_key(data)
        known = self._logs.get(key)
        if known is not None and known.data == data:
            return known
        self.cached_bytes += len(data) - (len(known.data) if known is not None else 0)
        found = self._logs[key] = CachedAnswers(data)
        while self.cached_bytes > _CACHE_LIMIT:
            self.cached_bytes -= len(self._logs.pop(next(iter(self._logs))).data)
        return found


def _make_cache_key(data: bytes) -> Key:
    return len(data), data[:_TOLD] + data[-_TOLD:]


RECENT = LogCache()
RECENT_ANSWERS = AnswerCache()
