"""Batches of samples in a detail log: an accuracy run loads its library part by part, and LoadGen logs the same lines
of each part, behind its list of samples. They are most lines of the logs of a round, and only the lists are ever asked
for: a batch is matched as a whole, and a line of it is made when it is asked for."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from reconciler.loadgen.log_line import (
    ANY_FILE,
    BEHIND_LIST,
    FILE_OF_BATCH,
    FILE_OF_LINE,
    LINE_OF_KEY,
    MARKER,
    WRITER_OF_BATCH,
    ListLine,
    LogLine,
    read_line,
)

_MOST_LINES = 32  # of a batch; LoadGen's have a dozen
_FEWEST = 8  # batches: to match fewer as a whole takes longer than to match their lines
BatchLine = tuple[bytes, bytes]  # its key, and the source file that wrote it, in quotes
_LIST = MARKER + b' {"key": "%b", "value": ['


class SampleBatches(Struct, frozen=True):
    """Batches that follow each other. ``above``: how many lines of the log are before them. ``keys``: of the lines of
    each, that of its list first. ``places``: where each begins in ``data``, and where the last one ends. ``lists``:
    where their lists are. ``writers``: the processes that wrote them."""

    data: bytes
    above: int
    keys: tuple[str, ...]
    places: list[int]
    lists: list[tuple[int, int]]
    writers: set[bytes]

    @property
    def length(self) -> int:
        """In lines."""
        return len(self.lists) * len(self.keys)

    def read(self, beginnings: tuple[str, ...]) -> Iterator[LogLine]:
        """The lines with a key that begins so."""
        wanted = [at for at, key in enumerate(self.keys) if key.startswith(beginnings)]
        for batch, begin in enumerate(self.places[:-1] if wanted else ()):
            number = self.above + batch * len(self.keys) + 1
            yield from (self._read(begin, at, number + at) for at in wanted)

    def _read(self, begin: int, at: int, number: int) -> LogLine:
        for _ in range(at):
            begin = self.data.find(b"\n", begin) + 1
        return read_line(self.data[begin : self.data.find(b"\n", begin)], number)


def list_batch_lines(data: bytes, begin: int, rows: Sequence[object]) -> tuple[BatchLine, ...]:
    """List the lines of the batch that ends the rows of a log, where another one may begin at ``begin``; () where none
    does. A row is a line, or what matched it."""
    lines: list[BatchLine] = []
    for row in reversed(rows[-_MOST_LINES:]):
        if isinstance(row, re.Match):
            lines.append((row[1], _find_source(row.string, *row.span())))
        elif isinstance(row, ListLine) and data.startswith(_LIST % row.key.encode(), begin):
            return ((row.key.encode(), _find_source(data, row.place[1], row.end)), *reversed(lines))
        else:
            break
    return ()


def _find_source(data: bytes, begin: int, end: int) -> bytes:
    found = FILE_OF_LINE.search(data, begin, end)
    return found[1] if found is not None else b""


def match_batches(data: bytes, begin: int, above: int, lines: tuple[BatchLine, ...]) -> SampleBatches | None:
    """Match the batches from ``begin`` on whose lines are these, as LoadGen writes them. None where they are few, so
    that they must be read line by line."""
    head = _LIST % lines[0][0]
    if not _has_several(data, head, begin):
        return None
    rest = _shape_rest(lines)
    places, lists, writers, at = [begin], [], set[bytes](), begin
    while data.startswith(head, at):
        # Lists are parsed when they are asked for.
        behind = data.find(b"]", at) + 1
        found = rest.match(data, behind) if behind else None
        if found is None or data.find(b"\n", at, behind) >= 0 or data.find(b"\\", at, behind) >= 0:
            break
        lists.append((at + len(head) - 1, behind))
        writers.add(found[WRITER_OF_BATCH])
        places.append(at := found.end())
    keys = tuple(key.decode("utf-8", "replace") for key, _ in lines)
    return SampleBatches(data, above, keys, places, lists, writers) if lists else None


def _has_several(data: bytes, head: bytes, begin: int) -> bool:
    for _ in range(_FEWEST):
        begin = data.find(head, begin) + 1
        if not begin:
            return False
    return True


@functools.lru_cache(maxsize=16)
def _shape_rest(lines: tuple[BatchLine, ...]) -> re.Pattern[bytes]:
    """Shape of the rest behind a list of samples, with these lines: those of one source name the same."""
    groups, parts = {lines[0][1]: FILE_OF_BATCH}, [BEHIND_LIST]
    for key, source in lines[1:]:
        known = groups.get(source)
        parts.append(LINE_OF_KEY % (re.escape(key), ANY_FILE if known is None else b"\\%d" % known))
        groups.setdefault(source, WRITER_OF_BATCH + len(groups))
    return re.compile(b"".join(parts))
