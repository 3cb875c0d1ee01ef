"""Logs that were read lately: accuracy variants of a benchmark mostly publish the very same ones."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import LogError
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_files import is_truncated, log_hash
from reconciler.resource.lazy_property import lazy_property
from reconciler.rules.compliance.entries import Entry, read_cached_entries

_CACHE_LIMIT = 16 << 20  # bytes of logs: those of a few scenarios
_END = 8 << 10  # bytes
_TOLD = 256  # bytes at both ends of a log that distinguish it from most others


def digest_log(data: bytes) -> str:
    """Digest that distinguishes a detail log from others in this process, which salts it, in a third of the time of
    SHA-256. Of one with long lists of samples, that of its length and both ends: settings and results are there, with
    times of the logger that no other run has."""
    return f"{len(data)}-{hash(data[:_END])}-{hash(data[-_END:])}"


Key = tuple[int, bytes]


class LogCache(Struct):
    """By their length and ends, the least lately made first, each with its digest. A log that could not be parsed is
    not kept: its error names its file."""

    cached_bytes: int = 0
    _logs: dict[Key, tuple[DetailLog, str, bytes]] = field(default_factory=dict)

    def find(self, data: bytes, file: str) -> tuple[DetailLog, str] | None:
        """With its digest; None where it was not read lately."""
        log, digest, text = self._logs.get(_make_cache_key(data), (None, "", b""))
        return (replace(log, file=file), digest) if log is not None and text == data else None

    def parse(self, data: bytes, digest: str, file: str) -> DetailLog:
        """LogError as ``parse_detail``."""
        log, key = parse_detail(data, file), _make_cache_key(data)
        known = self._logs.get(key)
        self.cached_bytes += len(data) - (len(known[2]) if known is not None else 0)
        self._logs[key] = (log, digest, data)
        while self.cached_bytes > _CACHE_LIMIT:
            self.cached_bytes -= len(self._logs.pop(next(iter(self._logs)))[2])
        return log


class CachedAnswers(Struct, frozen=True, dict=True):
    """An accuracy log, and what was made of it."""

    data: bytes

    @lazy_property
    def truncated(self) -> bool:
        return is_truncated(self.data)

    @lazy_property
    def hash(self) -> str:
        return log_hash(self.data)

    def own_hashes(self) -> Iterator[str]:
        """As it is, and as LoadGen writes it on Linux."""
        yield self.hash
        if b"\r" in self.data:
            yield log_hash(self._plain)

    def list_hashes(self) -> Iterator[str]:
        """Also with the line ends of the other systems, which git and archivers change in passing; each made when the
        ones before it do not fit."""
        yield from self.own_hashes()
        yield log_hash(self._plain.replace(b"\n", b"\r\n"))

    @property
    def _plain(self) -> bytes:
        return self.data.replace(b"\r\n", b"\n") if b"\r" in self.data else self.data

    @lazy_property
    def entries(self) -> tuple[Entry, ...]:
        """None of a log that is not as LoadGen writes one: reading it line by line gives the reason."""
        try:
            return tuple(read_cached_entries(self.data))
        except LogError:
            return ()


class AnswerCache(Struct):
    """By their length and ends, the least lately made first."""

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
