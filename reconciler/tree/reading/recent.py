"""Detail logs that were read lately: accuracy variants of a benchmark mostly publish the very same ones."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.mlperf.loadgen.log import DetailLog, parse_detail

_HELD = 16 << 20  # bytes of logs: those of a few scenarios


class RecentLogs(Struct):
    """By digest, the least lately made first. A log that could not be parsed is not kept: its error names its file."""

    held: int = 0
    _logs: dict[str, tuple[DetailLog, int]] = field(default_factory=dict)

    def parse(self, data: bytes, digest: str, file: str) -> DetailLog:
        """LogError as ``parse_detail``."""
        if digest in self._logs:
            return replace(self._logs[digest][0], file=file)
        log = parse_detail(data, file)
        self._logs[digest] = (log, len(data))
        self.held += len(data)
        while self.held > _HELD:
            self.held -= self._logs.pop(next(iter(self._logs)))[1]
        return log


RECENT = RecentLogs()
