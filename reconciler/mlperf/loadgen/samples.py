"""The samples that a run loaded, as its log lists them: megabytes for some benchmarks, and mostly the very lists of
other runs, since the seeds of a round choose them.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof

from msgspec import Struct, field

from reconciler.mlperf.loadgen.log import LogLine

_SHORT = 1 << 16  # bytes of a list that is read; a longer one is counted without
_HELD = 8 << 20  # bytes of lists whose summaries are kept: those of a round


class LoadedSamples(Struct, frozen=True):
    """``different``: how many samples were loaded, those of short lists each counted once. Of short lists also the
    greatest index and the greatest below 0; None where there is none."""

    different: int
    greatest: int | None = None
    negative: int | None = None


def summarize_loaded(entries: tuple[LogLine, ...]) -> LoadedSamples:
    """Of all lines ``loaded_qsl_set`` of a log."""
    texts = tuple([entry.cut_list() for entry in entries])
    if b"" in texts:
        return _summarize(entries)
    known = _KNOWN.found.get(texts)
    if known is None:
        # Of the texts alone, whatever else stands in the lines: another log with the same ones gets the same answer.
        known = _summarize([LogLine("", None, 0, raw=b'{"value": %b}' % text) for text in texts])
        _KNOWN.keep(texts, known)
    return known


def _summarize(entries: Sequence[LogLine]) -> LoadedSamples:
    indices = set[int]().union(*(entry.read_integers() for entry in entries if len(entry.raw) <= _SHORT))
    long = (entry.raw for entry in entries if len(entry.raw) > _SHORT)
    others = sum(raw.count(b",", raw.find(b"["), raw.find(b"]")) + 1 for raw in long)
    negative = max((index for index in indices if index < 0), default=None)
    return LoadedSamples(len(indices) + others, max(indices, default=None), negative)


class _Known(Struct):
    """Summaries by the texts of the lists, the least lately made first."""

    held: int = 0
    found: dict[tuple[bytes, ...], LoadedSamples] = field(default_factory=dict)

    def keep(self, texts: tuple[bytes, ...], loaded: LoadedSamples) -> None:
        self.found[texts] = loaded
        self.held += _count_bytes(texts)
        while self.held > _HELD:
            oldest = next(iter(self.found))
            self.held -= _count_bytes(oldest)
            del self.found[oldest]


def _count_bytes(texts: tuple[bytes, ...]) -> int:
    return sum(map(getsizeof, (texts, *texts)))


_KNOWN = _Known()
