"""Batches of samples in a detail log: an accuracy run loads its library part by part, and LoadGen logs the same lines
of each part, behind its list of samples. They are most lines of the logs of a round, of which nobody asks for but the
lists: a batch is matched as a whole, and a line of it is made when it is asked for."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from reconciler.mlperf.loadgen.log_line import BEHIND_LIST, LINE_OF_KEY, MARKER, WRITER_OF_BATCH, LogLine, read_line

_MOST_LINES = 32  # of a batch; LoadGen's have a dozen
_FEWEST = 8  # batches: to match fewer as a whole takes longer than to match their lines
_LIST = MARKER + b' {"key": "%b", "value": ['


class Batches(Struct, frozen=True):
    """Those that follow each other. ``above``: how many lines of the log are before them. ``keys``: of the lines of
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


def list_batch_keys(data: bytes, begin: int, rows: Sequence[object]) -> tuple[bytes, ...]:
    """The keys of the batch that ends the rows of a log, where another one may begin at ``begin``; () where none does.
    A row is a line, or what matched it."""
    keys = []
    for row in reversed(rows[-_MOST_LINES:]):
        if isinstance(row, re.Match):
            keys.append(row[1])
        elif isinstance(row, LogLine) and row.raw and data.startswith(_LIST % row.key.encode(), begin):
            return (row.key.encode(), *reversed(keys))
        else:
            break
    return ()


def match_batches(data: bytes, begin: int, above: int, keys: tuple[bytes, ...]) -> Batches | None:
    """Those from ``begin`` on whose lines have these keys and are as LoadGen writes them. None where they are few, or a
    text among them is not, so that they must be read line by line."""
    head = _LIST % keys[0]
    if not _has_several(data, head, begin):
        return None
    rest = _shape_rest(keys[1:])
    places, lists, writers, at = [begin], [], set[bytes](), begin
    while data.startswith(head, at):
        # What is in a list is looked at by whoever asks for it.
        behind = data.find(b"]", at) + 1
        found = rest.match(data, behind) if behind else None
        if found is None:
            break
        lists.append((at + len(head) - 1, behind))
        writers.add(found[WRITER_OF_BATCH])
        places.append(at := found.end())
    if not lists or data.count(b"\n", begin, at) != len(lists) * len(keys) or data.find(b"\\", begin, at) >= 0:
        return None
    return Batches(data, above, tuple(key.decode("utf-8", "replace") for key in keys), places, lists, writers)


def _has_several(data: bytes, head: bytes, begin: int) -> bool:
    for _ in range(_FEWEST):
        begin = data.find(head, begin) + 1
        if not begin:
            return False
    return True


@functools.lru_cache(maxsize=16)
def _shape_rest(keys: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """What stands behind a list of samples, with the lines of these keys."""
    return re.compile(BEHIND_LIST + b"".join(LINE_OF_KEY % re.escape(key) for key in keys))
