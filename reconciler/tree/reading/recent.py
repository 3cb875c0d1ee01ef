"""Detail logs that were read lately: accuracy variants of a benchmark mostly publish the very same ones."""

from __future__ import annotations

import hashlib

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.mlperf.loadgen.log import DetailLog, parse_detail

_HELD = 16 << 20  # bytes of logs: those of a few scenarios
_END = 32 << 10  # bytes


def digest_log(data: bytes) -> str:
    """SHA-256 of a detail log; of one with long lists of samples, of its length and both ends: settings and results are
    there, with times of the logger that no other run has."""
    if len(data) <= 2 * _END:
        return hashlib.sha256(data).hexdigest()
    total = hashlib.sha256(data[:_END])
    total.update(data[-_END:])
    total.update(b"%d" % len(data))
    return total.hexdigest()


class RecentLogs(Struct):
    """By digest, the least lately made first. A log that could not be parsed is not kept: its error names its file."""

    held: int = 0
    _logs: dict[str, tuple[DetailLog, bytes]] = field(default_factory=dict)

    def parse(self, data: bytes, digest: str, file: str) -> DetailLog:
        """LogError as ``parse_detail``."""
        known, text = self._logs.get(digest, (None, b""))
        if known is not None and text == data:
            return replace(known, file=file)
        log = parse_detail(data, file)
        self.held += len(data) - len(text)
        self._logs[digest] = (log, data)
        while self.held > _HELD:
            self.held -= len(self._logs.pop(next(iter(self._logs)))[1])
        return log


RECENT = RecentLogs()
