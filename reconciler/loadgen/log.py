"""Parse ``mlperf_log_detail.txt``: lines of ``:::MLLOG`` with one JSON object each.

As strict as LoadGen and the official checkers: the first line must begin with the marker, a broken object is an error
with its line number, and the first of several lines with one key counts. Other lines are skipped.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec import Struct

from reconciler.errors import LogError
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import DETAIL
from reconciler.loadgen.log_index import LogIndex
from reconciler.loadgen.log_line import MARKER, LogLine, read_line
from reconciler.resource.lazy_property import lazy_property

_HIDDEN = b"\r" + MARKER
TEXT_MARKER = b'"pid": '  # beginning of logs before v1.0
AUDIT_TEXT = "Found Audit Config file"
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
        return self.index.get(key)

    def get(self, key: str, default: Any = None) -> Any:
        found = self.find_line(key)
        return default if found is None else found.read()

    def get_plain(self, key: str) -> Any:
        """Return the value of a key; None for a list of samples, which is not decoded."""
        found = self.find_line(key)
        return None if found is None or found.raw else found.value

    def find_line_number(self, key: str) -> int:
        """Return the 1-based line number of a key, 0 if absent."""
        found = self.find_line(key)
        return 0 if found is None else found.line

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

    @property
    def lines(self) -> tuple[LogLine, ...]:
        """Return every entry in log order."""
        return self.index.lines

    def list_entries(self, key: str) -> tuple[LogLine, ...]:
        """Return every line of a key."""
        return tuple(line for line in self.index.lines if line.key == key)

    @lazy_property
    def errors(self) -> tuple[LogLine, ...]:
        return tuple(line for line in self.index.lines if line.error)

    @lazy_property
    def warnings(self) -> tuple[LogLine, ...]:
        return tuple(line for line in self.index.lines if line.warning)

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
        return self._find_time(keys.POWER_BEGIN)

    @lazy_property
    def ended(self) -> datetime | None:
        return self._find_time(keys.POWER_END)

    def _find_time(self, key: str) -> datetime | None:
        found = self.find_line(key)
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
    texts = data.removesuffix(b"\n").split(b"\n")
    lines = (read_line(text, file, at) for at, text in enumerate(texts, start=1) if text.startswith(MARKER))
    return DetailLog(file, LogIndex(lines), len(texts))


# Two runs never share latencies in nanoseconds or the logger's clock, and a copied log with changed dates keeps them.
# Among 6,471 logs of two published rounds, no two different logs shared a fingerprint.

_LATENCY = re.compile(r"result_\S*latency_ns")
_LEAST = 4  # different latencies: two short runs may share fewer by chance


def find_fingerprints(log: DetailLog) -> tuple[str, ...]:
    """Return fingerprints that each identify the run. The result is empty for a log without measurements and without
    the logger's end time."""
    found = []
    latencies = [(key, log.get(key)) for key in log.index if _LATENCY.fullmatch(key)]
    if len({str(value) for _, value in latencies}) >= _LEAST:
        text = " ".join(f"{key}={value}" for key, value in sorted(latencies))
        found.append(f"latencies {hashlib.sha256(text.encode()).hexdigest()}")
    if log.index.began_at is not None and log.index.ended_at is not None:
        found.append(f"clock {log.index.began_at} {log.index.ended_at}")
    return tuple(found)
