"""Index of a detail log's lines by key: the position of each line, and its entry, parsed on request."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct, field

from reconciler.loadgen import keys
from reconciler.loadgen.log_line import (
    ANY_FILE,
    BEHIND_LIST,
    FILE_OF_BATCH,
    FILE_OF_LINE,
    LINE_OF_KEY,
    MARKER,
    NAMES,
    VALUES,
    WRITER_OF_BATCH,
    ListLine,
    LogLine,
    read_line,
    read_plain,
)

# Keys of a detail log in order. Most of a round's thousands of logs share a few orders, so a search in one applies to
# all logs with the same order.

_LONGEST = 4096  # rows of logs whose order is cached; most have hundreds
Placed = tuple[tuple[str, int], ...]  # keys, and the row of each


class KeyOrder(Struct, frozen=True):
    """Order of keys. ``first``: the first row of each key, in log order. ``others``: later rows of the same keys."""

    first: dict[str, int]
    others: Placed
    _chosen: dict[re.Pattern[str], Placed] = field(default_factory=dict)
    _grouped: dict[Callable[[str], tuple[int, ...]], tuple[tuple[str, int, tuple[int, ...]], ...]] = field(
        default_factory=dict
    )
    _pairs: dict[tuple[str, str], tuple[tuple[str, int, str, int], ...]] = field(default_factory=dict)

    def choose(self, shape: re.Pattern[str]) -> Placed:
        """Return the first row of each key that matches a pattern."""
        if shape not in self._chosen:
            self._chosen[shape] = tuple((key, at) for key, at in self.first.items() if shape.fullmatch(key))
        return self._chosen[shape]

    def group(self, find: Callable[[str], tuple[int, ...]]) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
        """Return the first row of each key with a non-empty result of ``find``, with that result."""
        if find not in self._grouped:
            found = ((key, at, find(key)) for key, at in self.first.items())
            self._grouped[find] = tuple(item for item in found if item[2])
        return self._grouped[find]

    def pair(self, beginning: str, other: str) -> tuple[tuple[str, int, str, int], ...]:
        """Return keys with a prefix, each with its counterpart that has the prefix ``other``, and the first row of
        both."""
        if (beginning, other) not in self._pairs:
            twins = ((key, at, other + key.removeprefix(beginning)) for key, at in self.first.items())
            self._pairs[beginning, other] = tuple(
                (key, at, twin, self.first[twin])
                for key, at, twin in twins
                if key.startswith(beginning) and twin in self.first
            )
        return self._pairs[beginning, other]


def order_keys(keys: tuple[str | None, ...]) -> KeyOrder:
    """Order the key of each row, None for a row without one."""
    return _order_lately(keys) if len(keys) <= _LONGEST else _order(keys)


def _order(keys: tuple[str | None, ...]) -> KeyOrder:
    first: dict[str, int] = {}
    others = []
    for at, key in enumerate(keys):
        if key is not None and first.setdefault(key, at) != at:
            others.append((key, at))
    return KeyOrder(first, tuple(others))


_order_lately = functools.lru_cache(maxsize=128)(_order)


Row = LogLine | ListLine | re.Match[bytes] | None  # None: a line not written by LoadGen's logger
ANY_KEY = re.compile(r".*", re.DOTALL)
_MINUS = ord("-")
_CLOCK = re.compile(rb', "time_ms": (\d{1,15}\.\d{1,9})')


class _Rows(Struct):
    """Lines of a log, parsed on request. ``skipped`` lines after the first ``above`` are not among them."""

    rows: list[Row]
    above: int
    skipped: int

    def number(self, at: int) -> int:
        """Return the 1-based line of a row."""
        return at + 1 if at < self.above else at + 1 + self.skipped

    def read(self, at: int) -> LogLine:
        row = self.rows[at]
        if isinstance(row, LogLine):
            return row
        assert row is not None
        number = at + 1 if at < self.above else at + 1 + self.skipped
        line = read_plain(row, number) if isinstance(row, re.Match) else row.make_line(number)
        self.rows[at] = line
        return line


class _FirstLines(dict[str, LogLine | None]):
    """First line of each requested key; None if no line has it. Many rules request most of the keys."""

    def __init__(self, first: Mapping[str, int], rows: _Rows) -> None:
        super().__init__()
        self._first, self._rows = first, rows

    def __missing__(self, key: str) -> LogLine | None:
        at = self._first.get(key)
        line = self[key] = None if at is None else self._rows.read(at)
        return line


class LogIndex(Mapping[str, LogLine]):
    """First line of each key, in log order; values are parsed on request.

    ``rows``: rows of the log, without ``batches``, which repeat earlier keys. ``flagged``: rows that LoadGen marks as
    an error or a warning. ``first``: like ``get``, but faster. ``made``: values that other code computed from the log.
    ``began_at``, ``ended_at``: milliseconds from the start of LoadGen's logger to its power_begin and power_end lines;
    None if it wrote none. ``one_process``: all lines name the same process. ``structured``: lines are objects, as since
    v1.0.
    """

    structured = True

    def __init__(
        self,
        rows: list[Row],
        *,
        flagged: Iterable[int] = (),
        batches: SampleBatches | None = None,
        one_process: bool = True,
    ) -> None:
        self.one_process = one_process
        self.made: dict[Callable[..., Any], Any] = {}
        self._texts = tuple(rows)
        self._flagged = flagged
        self._batches = batches
        self._rows = _Rows(rows, batches.above, batches.length) if batches else _Rows(rows, len(rows), 0)
        self._order = order_keys(
            tuple([NAMES[row[1]] if isinstance(row, re.Match) else None if row is None else row.key for row in rows])
        )
        first = self._first = self._order.first
        self.first = _FirstLines(self._first, self._rows)
        self.began_at, self.ended_at = (
            _read_clock(rows[first[key]]) if key in first else None for key in (keys.POWER_BEGIN, keys.POWER_END)
        )

    def __getitem__(self, key: str) -> LogLine:
        return self._rows.read(self._first[key])

    def find_line_number(self, key: str) -> int:
        """Return the 1-based line of a key, 0 if it is absent."""
        at = self._first.get(key)
        return 0 if at is None else self._rows.number(at)

    def __contains__(self, key: object) -> bool:
        return key in self._first

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def list_pairs(self, beginning: str, other: str) -> list[tuple[str, str]]:
        """Return keys with a prefix, each with its counterpart that has the prefix ``other``. Pairs that state one
        value in the same notation are left out."""
        return [
            (key, twin)
            for key, at, twin, twin_at in self._order.pair(beginning, other)
            if not self._is_same(at, twin_at)
        ]

    def _is_same(self, at: int, twin: int) -> bool:
        one, two = self._texts[at], self._texts[twin]
        return isinstance(one, re.Match) and isinstance(two, re.Match) and one.group(*VALUES) == two.group(*VALUES)

    def list_absent(self, keys: Iterable[str]) -> list[str]:
        first = self._first
        return [key for key in keys if key not in first]

    def list_unlike(self, find_groups: Callable[[str], tuple[int, ...]]) -> list[str]:
        """Return keys whose first line is not a plain one with a non-negative value that matches one of the key's
        groups. Keys without groups are left out."""
        texts = self._texts
        return [key for key, at, groups in self._order.group(find_groups) if not _is_like(texts[at], groups)]

    def list_repeated(self, beginnings: tuple[str, ...]) -> Iterator[LogLine]:
        """Return lines with these key prefixes whose key an earlier line has, too."""
        return self._with_batches([at for key, at in self._order.others if key.startswith(beginnings)], beginnings)

    def list_entries(self, key: str) -> Iterator[LogLine]:
        return (line for line in self._with_batches(self._list_rows(key), (key,)) if line.key == key)

    def _list_rows(self, key: str) -> list[int]:
        return [self._first[key], *(at for name, at in self._order.others if name == key)] if key in self._first else []

    def find_lists(self, key: str) -> list[tuple[bytes, int, int]]:
        """Return the text and the position of the list in every line of a key; empty if any line contains more than a
        list."""
        rows, batches = self._list_rows(key), self._batches
        own = [self._texts[at] for at in rows]
        lists = [(row.data, *row.place) for row in own if isinstance(row, ListLine)]
        if len(lists) < len(own):  # true for a key of batches, too, as earlier lines have it
            return []
        if batches is not None and key == batches.keys[0]:
            above = bisect.bisect_left(rows, self._rows.above)
            lists[above:above] = [(batches.data, begin, end) for begin, end in batches.lists]
        return lists

    def list_lines(self) -> Iterator[LogLine]:
        return self._with_batches([at for at, row in enumerate(self._texts) if row is not None], ("",))

    def _with_batches(self, rows: list[int], beginnings: tuple[str, ...]) -> Iterator[LogLine]:
        """Return these rows, which are in log order, and at their position the batch lines with these key prefixes."""
        above = bisect.bisect_left(rows, self._rows.above)
        yield from map(self._rows.read, rows[:above])
        if self._batches is not None:
            yield from self._batches.read(beginnings)
        yield from map(self._rows.read, rows[above:])

    def choose(self, shape: re.Pattern[str]) -> list[str]:
        """Return the keys that match a pattern."""
        return [key for key, _ in self._order.choose(shape)]

    def list_texts(self, shape: re.Pattern[str] = ANY_KEY) -> list[tuple[str, int, bytes]]:
        """Return (key, 1-based line, text) of the first line of each key that matches a pattern, if it has a plain
        value in LoadGen's own notation."""
        return [
            (key, self._rows.number(at), row[0])
            for key, at in self._order.choose(shape)
            if isinstance(row := self._texts[at], re.Match)
        ]

    def list_flagged(self) -> Iterator[LogLine]:
        """Return lines that LoadGen marks as an error or a warning."""
        return map(self._rows.read, self._flagged)


def _is_like(row: Row, groups: tuple[int, ...]) -> bool:
    if isinstance(row, re.Match):
        for group in groups:
            if (at := row.start(group)) >= 0:
                return row.string[at] != _MINUS
    return False


def _read_clock(row: Row) -> Decimal | None:
    found = _CLOCK.search(row.string, row.end(1), row.end()) if isinstance(row, re.Match) else None
    return Decimal(found[1].decode()) if found else None


# Batches of samples in a detail log. An accuracy run loads its library in parts, and LoadGen logs the same lines for
# each part, after its list of samples. They make up most lines of a round's logs, and only the lists are ever
# requested, so a batch is matched as a unit, and its lines are parsed on request.

_MOST_LINES = 32  # per batch; LoadGen's have a dozen
_FEWEST = 8  # batches: matching fewer as a unit takes longer than matching their lines
BatchLine = tuple[bytes, bytes]  # its key, and the source file that wrote it, in quotes
_LIST = MARKER + b' {"key": "%b", "value": ['


class SampleBatches(Struct, frozen=True):
    """Consecutive batches. ``above``: number of log lines before them. ``keys``: keys of the lines of each batch, that
    of the list first. ``places``: start of each batch in ``data``, and the end of the last one. ``lists``: positions of
    their lists. ``writers``: processes that wrote them."""

    data: bytes
    above: int
    keys: tuple[str, ...]
    places: list[int]
    lists: list[tuple[int, int]]
    writers: set[bytes]

    @property
    def length(self) -> int:
        """Number of lines."""
        return len(self.lists) * len(self.keys)

    def read(self, beginnings: tuple[str, ...]) -> Iterator[LogLine]:
        """Return the lines with these key prefixes."""
        wanted = [at for at, key in enumerate(self.keys) if key.startswith(beginnings)]
        for batch, begin in enumerate(self.places[:-1] if wanted else ()):
            number = self.above + batch * len(self.keys) + 1
            yield from (self._read(begin, at, number + at) for at in wanted)

    def _read(self, begin: int, at: int, number: int) -> LogLine:
        for _ in range(at):
            begin = self.data.find(b"\n", begin) + 1
        return read_line(self.data[begin : self.data.find(b"\n", begin)], number)


def list_batch_lines(data: bytes, begin: int, rows: Sequence[object]) -> tuple[BatchLine, ...]:
    """List the lines of the batch that ends the rows of a log if another one may begin at ``begin``; () if none does. A
    row is a line, or the match of one."""
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
    """Match the batches from ``begin`` on that consist of these lines in LoadGen's notation. Return None if there are
    only a few, which must then be read line by line."""
    head = _LIST % lines[0][0]
    if not _has_several(data, head, begin):
        return None
    rest = _shape_rest(lines)
    places, lists, writers, at = [begin], [], set[bytes](), begin
    while data.startswith(head, at):
        # Lists are parsed on request.
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
    """Build the pattern of these lines after a list of samples: lines from the same source name the same file."""
    groups, parts = {lines[0][1]: FILE_OF_BATCH}, [BEHIND_LIST]
    for key, source in lines[1:]:
        known = groups.get(source)
        parts.append(LINE_OF_KEY % (re.escape(key), ANY_FILE if known is None else b"\\%d" % known))
        groups.setdefault(source, WRITER_OF_BATCH + len(groups))
    return re.compile(b"".join(parts))
