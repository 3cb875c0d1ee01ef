"""The samples that a run loaded, as its log lists them: megabytes for some benchmarks, and mostly the very lists of
other runs, since the seeds of a round choose them.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof

from msgspec import Struct, field

from reconciler.loadgen import keys
from reconciler.loadgen.inconsistency import read_integer
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_line import LogLine

_GROUP = 8  # samples of one query of MultiStream where the log states no number, as since release 2
_SHORT = 1 << 16  # bytes of a list that is read; a longer one is counted without
_BEGINNING = 64  # bytes of a list that distinguish it from most others
_CACHE_LIMIT = 8 << 20  # bytes of lists whose summaries are kept: those of a round


class LoadedSamples(Struct, frozen=True):
    """``different``: how many samples were loaded, those of short lists each counted once. Of short lists also the
    greatest index and the greatest below 0; None where there is none."""

    different: int
    greatest: int | None = None
    negative: int | None = None


def summarize_loaded(log: DetailLog) -> LoadedSamples:
    """Summarise all lines of ``keys.LOADED_QSL_SET``."""
    lists = log.index.find_lists(keys.LOADED_QSL_SET)
    if not lists:
        return _summarize(log.list_entries(keys.LOADED_QSL_SET))
    if (known := _KNOWN.find(lists)) is None:
        texts = tuple([raw[begin:end] for raw, begin, end in lists])
        # Answers depend on the texts alone, not on the rest of the lines: another log with the same ones gets the same
        # answer.
        known = _summarize([LogLine("", None, 0, raw=b'{"value": %b}' % text) for text in texts])
        _KNOWN.keep(texts, known)
    return known


def count_padding(log: DetailLog) -> int:
    """At most how many samples a run of MultiStream loads twice. An accuracy run asks for them twice as well.

    LoadGen fills up each set that it loads by one sample less than a query has (``GenerateLoadableSets``), so that the
    set's last query is whole. Before release 2 a query had as many samples as the submitter chose.
    """
    if log.scenario != "MultiStream":
        return 0
    stated = (read_integer(log, f"{prefix}_samples_per_query") for prefix in ("generated", "effective"))
    group = next((number for number in stated if number is not None and number > 0), _GROUP)
    sets = max(len(log.list_entries(keys.LOADED_QSL_SET)), len(log.list_entries(keys.GENERATED_QUERY_COUNT)), 1)
    return sets * (group - 1)


def _summarize(entries: Sequence[LogLine]) -> LoadedSamples:
    indices = set[int]().union(*(entry.read_integers() for entry in entries if len(entry.raw) <= _SHORT))
    long = (entry.raw for entry in entries if len(entry.raw) > _SHORT)
    others = sum(raw.count(b",", raw.find(b"["), raw.find(b"]")) + 1 for raw in long)
    negative = max((index for index in indices if index < 0), default=None)
    return LoadedSamples(len(indices) + others, max(indices, default=None), negative)


_Texts = tuple[bytes, ...]
_Kind = tuple[tuple[int, bytes], ...]


class _Known(Struct):
    """Summaries by the texts of the lists, the least lately made first. Lists are compared in their lines: to copy and
    hash them takes several times as long. ``alike``: those of the same lengths and beginnings."""

    cached_bytes: int = 0
    found: dict[_Texts, LoadedSamples] = field(default_factory=dict)
    alike: dict[_Kind, list[_Texts]] = field(default_factory=dict)

    def find(self, lists: Sequence[tuple[bytes, int, int]]) -> LoadedSamples | None:
        kind = tuple([(end - begin, raw[begin : min(begin + _BEGINNING, end)]) for raw, begin, end in lists])
        for texts in self.alike.get(kind, ()):
            if all(raw.startswith(text, begin) for text, (raw, begin, _) in zip(texts, lists, strict=True)):
                return self.found[texts]
        return None

    def keep(self, texts: _Texts, loaded: LoadedSamples) -> None:
        self.found[texts] = loaded
        self.alike.setdefault(_find_kind(texts), []).append(texts)
        self.cached_bytes += _count_bytes(texts)
        while self.cached_bytes > _CACHE_LIMIT:
            oldest = next(iter(self.found))
            self.cached_bytes -= _count_bytes(oldest)
            del self.found[oldest]
            alike = self.alike[kind := _find_kind(oldest)]
            alike.remove(oldest)
            if not alike:
                del self.alike[kind]


def _find_kind(texts: _Texts) -> _Kind:
    return tuple([(len(text), text[:_BEGINNING]) for text in texts])


def _count_bytes(texts: tuple[bytes, ...]) -> int:
    return sum(map(getsizeof, (texts, *texts)))


_KNOWN = _Known()
