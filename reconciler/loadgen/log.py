"""Parse ``mlperf_log_detail.txt``: lines of ``:::MLLOG`` with one JSON object each.

As strict as LoadGen and the official checkers: the first line must begin with the marker, a broken object is an error
with its line number, and the first of several lines with one key counts. Other lines are skipped.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec import Struct, field

from reconciler.errors import LogError
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import DETAIL
from reconciler.loadgen.log_index import LogIndex, Row, SampleBatches, list_batch_lines, match_batches
from reconciler.loadgen.log_line import MARKER, WRITER, ListLine, LogLine, find_list, match_lines, parse_line
from reconciler.resource.lazy_property import lazy_property

_HIDDEN = b"\r" + MARKER
TEXT_MARKER = b'"pid": '  # beginning of logs before v1.0
AUDIT_TEXT = "Found Audit Config file"
_PROCESS = b'"pid": '
_ENDING, _ENDING_LENGTH = re.compile(rb'"pid": (\d++), "tid": \d++\}\}\s*+\Z'), 48
_DIGITS, _FIRST_APART = 9, 4  # digits of a release, and a release
_TIME = "%m-%d-%Y %H:%M:%S.%f"
_DIGITS_OF_TIME = re.compile(r"(\d\d)-(\d\d)-(\d{4}) (\d\d):(\d\d):(\d\d)\.(\d{1,6})", re.ASCII)

T = TypeVar("T")


class DetailLog(Struct, frozen=True, dict=True):
    """Parsed detail log. ``file``: used in messages only; ``length``: number of lines."""

    file: str
    index: LogIndex
    length: int

    def find_line(self, key: str) -> LogLine | None:
        """Return the first line of a key."""
        return self.index.first[key]

    def get(self, key: str, default: Any = None) -> Any:
        found = self.index.first[key]
        if found is None:
            return default
        return found.read() if found.raw else found.value

    def find_line_number(self, key: str) -> int:
        """Return the 1-based line number of a key, 0 if absent."""
        return self.index.find_line_number(key)

    def get_effective(self, name: str, default: Any = None) -> Any:
        """Return the value of a setting that LoadGen used, after its own adjustments."""
        return self.get(f"effective_{name}", default)

    def compute_once(self, make: Callable[[DetailLog], T]) -> T:
        """Compute a function of this log once for all identical files, regardless of their names."""
        made = self.index.made
        if make not in made:
            made[make] = make(self)
        found: T = made[make]
        return found

    @lazy_property
    def lines(self) -> tuple[LogLine, ...]:
        """Return every entry in log order."""
        return tuple(self.index.list_lines())

    def list_entries(self, key: str) -> tuple[LogLine, ...]:
        """Return every line of a key."""
        return tuple(self.index.list_entries(key))

    @lazy_property
    def _flagged(self) -> tuple[LogLine, ...]:
        return tuple(self.index.list_flagged())

    @property
    def errors(self) -> tuple[LogLine, ...]:
        return tuple(entry for entry in self._flagged if entry.error)

    @property
    def warnings(self) -> tuple[LogLine, ...]:
        return tuple(entry for entry in self._flagged if entry.warning)

    @lazy_property
    def version(self) -> str:
        """LoadGen's release and revision, as in "6.0.17 @ d6147c7eb7"; empty if not logged."""
        return str(self.get(keys.LOADGEN_VERSION, ""))

    @lazy_property
    def release(self) -> int:
        """The first number of LoadGen's release; 0 for releases before 2, which log ".5a1"."""
        first = self.version.partition(".")[0]
        return int(first[:_DIGITS]) if first.isdecimal() and first.isascii() else 0

    @lazy_property
    def scenario(self) -> str:
        """LoadGen's scenario: Server for Interactive."""
        return str(self.get(keys.EFFECTIVE_SCENARIO, ""))

    @lazy_property
    def mode(self) -> str:
        """PerformanceOnly, AccuracyOnly, SubmissionRun or FindPeakPerformance."""
        return str(self.get(keys.EFFECTIVE_TEST_MODE, ""))

    @property
    def serves_both(self) -> bool:
        """True if one run both measured and logged answers, as with releases before 4: its log is published twice."""
        return self.mode == "SubmissionRun" and self.release < _FIRST_APART

    @property
    def validity(self) -> str:
        """LoadGen's verdict, VALID or INVALID; empty for accuracy runs and for runs that did not end."""
        return str(self.get(keys.RESULT_VALIDITY, ""))

    @property
    def seeds(self) -> dict[str, int]:
        return {name: value for name in keys.SEEDS if (value := self.get_effective(name)) is not None}

    @property
    def audit(self) -> LogLine | None:
        """The warning that LoadGen read settings from an audit.config: a compliance run, or a leftover file."""
        return next((e for e in self.warnings if isinstance(e.value, str) and e.value.startswith(AUDIT_TEXT)), None)

    @lazy_property
    def complete(self) -> bool:
        """True if the run completed: LoadGen logs power_end last, followed only by results in performance runs."""
        if self.mode == "AccuracyOnly":
            return keys.POWER_END in self.index
        return keys.RESULT_VALIDITY in self.index

    @lazy_property
    def started(self) -> datetime | None:
        """power_begin, which is UTC (test_datetime is local time with a misleading Z)."""
        return self._time(keys.POWER_BEGIN)

    @lazy_property
    def ended(self) -> datetime | None:
        return self._time(keys.POWER_END)

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
    """Raise ValueError for an invalid time. Reading digits at fixed positions takes a fifth of strptime's time."""
    if (found := _DIGITS_OF_TIME.fullmatch(text)) is not None:
        month, day, year, hour, minute, second, fraction = found.groups()
        microsecond = int(fraction.ljust(6, "0"))
        return datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), microsecond, UTC)
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def parse_detail(data: bytes, file: str = DETAIL) -> DetailLog:
    """Parse the bytes of a detail log. Raise LogError (file:line) for a missing marker, broken JSON, or an entry
    without a key."""
    if not data or data.isspace():
        problem = f"{file}:1: it is empty: LoadGen wrote nothing"
        raise LogError(problem, fix="check the program's output: its run did not start")
    if data.startswith(TEXT_MARKER):
        problem = f"{file}:1: a text log from before v1.0, without results"
        raise LogError(problem, fix="`verify-tree` and `check` support such trees; their runs cannot be recorded")
    if not data.startswith(MARKER):
        fix = "this is not a LoadGen detail log, or it was edited; import the log that LoadGen wrote"
        raise LogError(f"{file}:1: the first line does not start with {MARKER.decode()}", fix=fix)
    if b"\r" in data and (hidden := data.find(_HIDDEN)) >= 0:
        number = data.count(b"\n", 0, hidden) + 1
        fix = "import the log again: LoadGen never writes a lone carriage return"
        raise LogError(f"{file}:{number}: a lone carriage return precedes an entry", fix=fix)
    return _Reader(data, file).read()


class _Reader(Struct):
    """Reader of a log. ``writers``: the processes named by its lines, with None if a closer look is needed. ``listed``:
    a list was read. ``looked``: batches were searched for, once a list made them possible."""

    data: bytes
    file: str
    rows: list[Row] = field(default_factory=list)
    flagged: list[int] = field(default_factory=list)
    writers: set[bytes | None] = field(default_factory=set)
    listed: bool = False
    looked: bool = False
    batches: SampleBatches | None = None

    @property
    def _length(self) -> int:
        return len(self.rows) + (self.batches.length if self.batches else 0)

    def read(self) -> DetailLog:
        at, exactly = 0, False
        while at < len(self.data):
            plain, exactly = match_lines(self.data, at, exactly=exactly)
            if plain:
                self._take_plain(plain)
                at = plain[-1].end()
            at = self._take_batches(at) or self._take_other(at)
        one_process = _are_of_one_process(self.writers, self.data)
        index = LogIndex(self.rows, flagged=self.flagged, batches=self.batches, one_process=one_process)
        return DetailLog(self.file, index, self._length)

    def _take_plain(self, plain: list[re.Match[bytes]]) -> None:
        named = [line[WRITER] for line in plain]
        if None in named:  # an error or a warning
            marked = [number for number, name in enumerate(named) if name is None]
            self.flagged += [len(self.rows) + number for number in marked]
            self.writers.update([_read_writer(self.data, *plain[number].span()) for number in marked])
        self.writers.update(filter(None, named))
        self.rows += plain

    def _take_batches(self, at: int) -> int:
        """Read the batches and return where they end; 0 if none begin here. They begin once at most."""
        if self.looked or not self.listed or not (lines := list_batch_lines(self.data, at, self.rows)):
            return 0
        self.looked, self.batches = True, match_batches(self.data, at, len(self.rows), lines)
        if self.batches is None:
            return 0
        self.writers |= self.batches.writers
        return self.batches.places[-1]

    def _take_other(self, at: int) -> int:
        """Read another line and return where the next line begins."""
        if at >= len(self.data):
            return at
        found = self.data.find(b"\n", at)
        end = len(self.data) if found < 0 else found
        line = _parse_other(self.data, at, end, self.file, self._length + 1)
        self.listed |= isinstance(line, ListLine)
        if isinstance(line, LogLine) and (line.error or line.warning):
            self.flagged.append(len(self.rows))
        self.rows.append(line)
        self.writers.add(_read_writer(self.data, at, end))
        return end + 1


def _read_writer(data: bytes, begin: int, end: int) -> bytes | None:
    """Return the process named at the end of a line; None if there is none."""
    found = _ENDING.search(data, max(begin, end - _ENDING_LENGTH), end)
    return found[1] if found else None


def _are_of_one_process(writers: set[bytes | None], data: bytes) -> bool:
    if None not in writers:
        return len(writers) == 1
    # Within a text these quotes would be escaped.
    begin = data.find(_PROCESS)
    own = data[begin : data.find(b",", begin) + 1]
    return begin < 0 or data.count(_PROCESS) == data.count(own)


def _parse_other(data: bytes, begin: int, end: int, file: str, number: int) -> LogLine | ListLine | None:
    if not data.startswith(MARKER, begin, end):
        return None
    begin += len(MARKER)
    return find_list(data, begin, end) or parse_line(data[begin:end], file, number)
