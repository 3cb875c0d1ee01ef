"""Reads ``mlperf_log_detail.txt``: lines of ``:::MLLOG`` and one JSON object each.

Exact where LoadGen and the official checkers are exact: the first line must begin with the marker, a broken object is
an error that names its line, and the first of several lines of one key counts. Tolerant elsewhere: other lines are
skipped.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct

from reconciler.errors import LogError
from reconciler.mlperf.loadgen.log_batches import Batches, list_batch_keys, match_batches
from reconciler.mlperf.loadgen.log_line import (
    MARKER,
    NAMES,
    VALUES,
    WRITER,
    LogLine,
    match_lines,
    parse_line,
    read_plain,
)
from reconciler.mlperf.log_files import DETAIL

_HIDDEN = b"\r" + MARKER
TEXT_MARKER = b'"pid": '  # how a log of before v1.0 begins
AUDIT_TEXT = "Found Audit Config file"
_CLOCK = re.compile(rb', "time_ms": (\d{1,15}\.\d{1,9})')
_PROCESS = b'"pid": '
_ENDING, _ENDING_LENGTH = re.compile(rb'"pid": (\d++), "tid": \d++\}\}\s*+\Z'), 48
_DIGITS, _FIRST_APART = 9, 4  # digits of a release, and a release
_TIME = "%m-%d-%Y %H:%M:%S.%f"
_DIGITS_OF_TIME = re.compile(r"(\d\d)-(\d\d)-(\d{4}) (\d\d):(\d\d):(\d\d)\.(\d{1,6})", re.ASCII)

_Row = LogLine | re.Match[bytes] | None  # None: a line that LoadGen's logger did not write


class _Rows(Struct):
    """The lines of a log, made when they are asked for, but for ``skipped`` ones that stand behind the first ``above``."""

    rows: list[_Row]
    above: int
    skipped: int

    def number(self, at: int) -> int:
        """The 1-based line of a row."""
        return at + 1 if at < self.above else at + 1 + self.skipped

    def read(self, at: int) -> LogLine:
        row = self.rows[at]
        if not isinstance(row, LogLine):
            assert row is not None
            row = self.rows[at] = read_plain(row, self.number(at))
        return row


class _FirstLines(dict[str, LogLine | None]):
    """Of each key that is asked for; None for one that no line has. A rule asks for most keys, and many rules do."""

    def __init__(self, first: Mapping[str, int], rows: _Rows) -> None:
        super().__init__()
        self._first, self._rows = first, rows

    def __missing__(self, key: str) -> LogLine | None:
        at = self._first.get(key)
        line = self[key] = None if at is None else self._rows.read(at)
        return line


class LogIndex(Mapping[str, LogLine]):
    """The first line of each key, in the order of the log; a value is made of its text when it is asked for.

    ``rows``: those of the log but for ``batches``, whose keys others before them have. ``flagged``: the rows that
    LoadGen calls an error or a warning. ``first``: as ``get``, and faster. ``began_at``, ``ended_at``: milliseconds
    from the start of LoadGen's logger to its lines of power_begin and of power_end; None where it wrote none.
    ``one_process``: all lines name the same one.
    """

    def __init__(
        self,
        rows: list[_Row],
        *,
        flagged: Iterable[int] = (),
        batches: Batches | None = None,
        one_process: bool = True,
    ) -> None:
        self.one_process = one_process
        self._texts = tuple(rows)
        self._flagged = flagged
        self._batches = batches
        self._rows = _Rows(rows, batches.above, batches.length) if batches else _Rows(rows, len(rows), 0)
        keys = [None if row is None else row.key if isinstance(row, LogLine) else NAMES[row[1]] for row in rows]
        first = dict(zip(keys, range(len(rows)), strict=True))
        self._others: list[tuple[str, int]] = []
        if len(first) < len(rows):
            last_to_first = range(len(rows) - 1, -1, -1)
            first |= dict(zip(reversed(keys), last_to_first, strict=True))
            self._others = [(key, at) for at, key in enumerate(keys) if key is not None and first[key] != at]
        first.pop(None, None)
        self._first: dict[str, int] = first  # type: ignore[assignment] # without None
        self.first = _FirstLines(self._first, self._rows)
        self.began_at, self.ended_at = (
            _read_clock(rows[first[key]]) if key in first else None for key in ("power_begin", "power_end")
        )

    def __getitem__(self, key: str) -> LogLine:
        return self._rows.read(self._first[key])

    def number(self, key: str) -> int:
        """The 1-based line of a key, 0 when it is absent."""
        at = self._first.get(key)
        return 0 if at is None else self._rows.number(at)

    def __contains__(self, key: object) -> bool:
        return key in self._first

    def __iter__(self) -> Iterator[str]:
        return iter(self._first)

    def __len__(self) -> int:
        return len(self._first)

    def list_pairs(self, beginning: str, other: str) -> list[tuple[str, str]]:
        """Keys that begin so, each with the one that begins with ``other`` instead; but pairs of which it is plain that
        they state one value in one way."""
        found = []
        for key, at in self._first.items():
            if key.startswith(beginning):
                twin = other + key[len(beginning) :]
                if twin in self._first and not self._is_same(at, self._first[twin]):
                    found.append((key, twin))
        return found

    def _is_same(self, at: int, twin: int) -> bool:
        one, two = self._texts[at], self._texts[twin]
        return isinstance(one, re.Match) and isinstance(two, re.Match) and one.group(*VALUES) == two.group(*VALUES)

    def repeated(self, beginnings: tuple[str, ...]) -> Iterator[LogLine]:
        """Lines with a key that begins so and that another line before them has."""
        return self._with_batches([at for key, at in self._others if key.startswith(beginnings)], beginnings)

    def all_of(self, key: str) -> Iterator[LogLine]:
        return (line for line in self._with_batches(self._list_rows(key), (key,)) if line.key == key)

    def _list_rows(self, key: str) -> list[int]:
        return [self._first[key], *(at for name, at in self._others if name == key)] if key in self._first else []

    def find_lists(self, key: str) -> list[tuple[bytes, int, int]]:
        """Of every line of a key a text, and where in it the list of the line is; none where one is not just a list."""
        own = [self._rows.read(at) for at in self._list_rows(key)]
        lists = [(entry.raw, *entry.find_list()) for entry in own]
        if self._batches is not None and key in self._batches.keys:
            if key != self._batches.keys[0]:
                return []
            lists += [(self._batches.data, begin, end) for begin, end in self._batches.lists]
        return [] if any(end == 0 for _, _, end in lists) else lists

    def lines(self) -> Iterator[LogLine]:
        return self._with_batches([at for at, row in enumerate(self._texts) if row is not None], ("",))

    def _with_batches(self, rows: list[int], beginnings: tuple[str, ...]) -> Iterator[LogLine]:
        """These rows, which are in the order of the log, and in their place the lines of batches that begin so."""
        above = bisect.bisect_left(rows, self._rows.above)
        yield from map(self._rows.read, rows[:above])
        if self._batches is not None:
            yield from self._batches.read(beginnings)
        yield from map(self._rows.read, rows[above:])

    def list_texts(self, beginning: str = "") -> list[tuple[str, int, bytes]]:
        """(key, 1-based line, text) of the first lines of keys that begin so, of those with plain values, as LoadGen
        itself writes them."""
        return [
            (key, self._rows.number(at), row[0])
            for key, at in self._first.items()
            if key.startswith(beginning) and isinstance(row := self._texts[at], re.Match)
        ]

    def flagged(self) -> Iterator[LogLine]:
        """Lines that LoadGen calls an error or a warning."""
        return map(self._rows.read, self._flagged)


def _read_clock(row: _Row) -> Decimal | None:
    found = _CLOCK.search(row[0]) if isinstance(row, re.Match) else None
    return Decimal(found[1].decode()) if found else None


class DetailLog(Struct, frozen=True, dict=True):
    """A detail log. ``file`` is used in messages only; ``length`` is the number of lines."""

    file: str
    index: LogIndex
    length: int

    def line(self, key: str) -> LogLine | None:
        """The first line of a key."""
        return self.index.first[key]

    def get(self, key: str, default: Any = None) -> Any:
        found = self.index.first[key]
        if found is None:
            return default
        return found.read() if found.raw else found.value

    def number(self, key: str) -> int:
        """The 1-based line of a key, 0 when it is absent."""
        return self.index.number(key)

    def effective(self, name: str, default: Any = None) -> Any:
        """A setting that LoadGen used, after its own adjustments."""
        return self.get(f"effective_{name}", default)

    def requested(self, name: str, default: Any = None) -> Any:
        """A setting as given to LoadGen, audit overrides included."""
        return self.get(f"requested_{name}", default)

    @functools.cached_property
    def lines(self) -> tuple[LogLine, ...]:
        """Every entry, in the order of the log."""
        return tuple(self.index.lines())

    def all_of(self, key: str) -> tuple[LogLine, ...]:
        """Every line of a key."""
        return tuple(self.index.all_of(key))

    @functools.cached_property
    def _flagged(self) -> tuple[LogLine, ...]:
        return tuple(self.index.flagged())

    @property
    def errors(self) -> tuple[LogLine, ...]:
        return tuple(entry for entry in self._flagged if entry.error)

    @property
    def warnings(self) -> tuple[LogLine, ...]:
        return tuple(entry for entry in self._flagged if entry.warning)

    @functools.cached_property
    def version(self) -> str:
        """LoadGen's release and revision, as in "6.0.17 @ d6147c7eb7"; empty when not logged."""
        return str(self.get("loadgen_version", ""))

    @functools.cached_property
    def release(self) -> int:
        """The first number of LoadGen's release; 0 for those before 2, which call themselves ".5a1"."""
        first = self.version.partition(".")[0]
        return int(first[:_DIGITS]) if first.isdecimal() and first.isascii() else 0

    @functools.cached_property
    def scenario(self) -> str:
        """LoadGen's scenario: Server for Interactive."""
        return str(self.effective("scenario", ""))

    @functools.cached_property
    def mode(self) -> str:
        """PerformanceOnly, AccuracyOnly, SubmissionRun or FindPeakPerformance."""
        return str(self.effective("test_mode", ""))

    @property
    def serves_both(self) -> bool:
        """Whether one run measured and answered, as was done with releases before 4: its log is published twice."""
        return self.mode == "SubmissionRun" and self.release < _FIRST_APART

    @property
    def validity(self) -> str:
        """LoadGen's verdict, VALID or INVALID; empty for accuracy runs and for a run that did not end."""
        return str(self.get("result_validity", ""))

    @property
    def seeds(self) -> dict[str, int]:
        names = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
        return {name: value for name in names if (value := self.effective(name)) is not None}

    @property
    def audit(self) -> LogLine | None:
        """The warning that LoadGen took settings from an audit.config: a compliance run, or a file left behind."""
        return next((e for e in self.warnings if isinstance(e.value, str) and e.value.startswith(AUDIT_TEXT)), None)

    @functools.cached_property
    def complete(self) -> bool:
        """Whether the run came to its end: LoadGen logs power_end last, and results after it in performance runs."""
        if self.mode == "AccuracyOnly":
            return "power_end" in self.index
        return "result_validity" in self.index

    @functools.cached_property
    def started(self) -> datetime | None:
        """power_begin, which is UTC (test_datetime is local time with a misleading Z)."""
        return self._time("power_begin")

    @functools.cached_property
    def ended(self) -> datetime | None:
        return self._time("power_end")

    def _time(self, key: str) -> datetime | None:
        found = self.index.first[key]
        if found is None:
            return None
        try:
            return _read_time(str(found.value))
        except ValueError as error:
            raise LogError(f"{self.file}:{found.line}: {key} is not a time: {found.value!r}") from error


@functools.lru_cache(maxsize=256)
def _read_time(text: str) -> datetime:
    """ValueError where it is none. Digits in their places are read in a fifth of strptime's time."""
    if (found := _DIGITS_OF_TIME.fullmatch(text)) is not None:
        month, day, year, hour, minute, second, fraction = found.groups()
        if int(second) < 60:  # above, strptime has its own rule
            microsecond = int(fraction.ljust(6, "0"))
            return datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), microsecond, UTC)
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def parse_detail(data: bytes, file: str = DETAIL) -> DetailLog:
    """Parse the bytes of a detail log. LogError (file:line) on a missing marker, broken JSON, an entry without key."""
    if not data or data.isspace():
        raise LogError(
            f"{file}:1: it is empty: LoadGen wrote nothing", fix="see what the program printed: its run never began"
        )
    if data.startswith(TEXT_MARKER):
        raise LogError(
            f"{file}:1: a log of before v1.0, which is text and has no results",
            fix="`verify-tree` and `check` read such trees; their runs cannot be recorded",
        )
    if not data.startswith(MARKER):
        raise LogError(
            f"{file}:1: the first line does not begin with {MARKER.decode()}",
            fix="this is not a LoadGen detail log, or it was edited; import the log that LoadGen wrote",
        )
    if b"\r" in data and (hidden := data.find(_HIDDEN)) >= 0:
        number = data.count(b"\n", 0, hidden) + 1
        raise LogError(
            f"{file}:{number}: a carriage return alone is before an entry",
            fix="it ends a line for the official checker and not for LoadGen, which writes none: import the log again",
        )
    rows: list[_Row] = []
    flagged: list[int] = []
    writers, at, exactly = set[bytes | None](), 0, False
    batches, skipped = None, 0
    keys: tuple[bytes, ...] = ()
    while at < len(data):
        plain, exactly = match_lines(data, at, exactly=exactly)
        if plain:
            named = [row[WRITER] for row in plain]
            if None in named:  # an error or a warning
                marked = [number for number, name in enumerate(named) if name is None]
                flagged += [len(rows) + number for number in marked]
                writers.update([_read_writer(data, *plain[number].span()) for number in marked])
            writers.update(filter(None, named))
            rows += plain
            at = plain[-1].end()
        if not keys and (keys := list_batch_keys(data, at, rows)):
            batches = match_batches(data, at, len(rows), keys)
            if batches is not None:
                writers |= batches.writers
                at, skipped = batches.places[-1], batches.length
                continue
        if at < len(data):
            found = data.find(b"\n", at)
            end = len(data) if found < 0 else found
            other = _parse_other(data, at, end, file, len(rows) + skipped + 1)
            if other is not None and (other.error or other.warning):
                flagged.append(len(rows))
            rows.append(other)
            writers.add(_read_writer(data, at, end))
            at = end + 1
    one_process = _are_of_one_process(writers, data)
    return DetailLog(
        file, LogIndex(rows, flagged=flagged, batches=batches, one_process=one_process), len(rows) + skipped
    )


def _read_writer(data: bytes, begin: int, end: int) -> bytes | None:
    """The process that the end of a line names; None where there is none."""
    found = _ENDING.search(data, max(begin, end - _ENDING_LENGTH), end)
    return found[1] if found else None


def _are_of_one_process(writers: set[bytes | None], data: bytes) -> bool:
    """``writers``: those that the lines name, None among them where it takes a closer look."""
    if None not in writers:
        return len(writers) == 1
    # Within a text these quotes would be escaped.
    begin = data.find(_PROCESS)
    own = data[begin : data.find(b",", begin) + 1]
    return begin < 0 or data.count(_PROCESS) == data.count(own)


def _parse_other(data: bytes, begin: int, end: int, file: str, number: int) -> LogLine | None:
    if not data.startswith(MARKER, begin, end):
        return None
    # One blank behind the marker, as LoadGen writes it: a long list is then copied once.
    begin += len(MARKER)
    return parse_line(data[begin + data.startswith(b" ", begin, end) : end], file, number)
