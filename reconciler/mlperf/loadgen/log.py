"""Reads ``mlperf_log_detail.txt``: lines of ``:::MLLOG`` and one JSON object each.

Exact where LoadGen and the official checkers are exact: the first line must begin with the marker, a broken object is
an error that names its line, and the first of several lines of one key counts. Tolerant elsewhere: other lines are
skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from reconciler.errors import LogError
from reconciler.mlperf.log_files import DETAIL

MARKER = b":::MLLOG"
AUDIT_TEXT = "Found Audit Config file"
_KEY = b'{"key": "'
# A longer line is a list of loaded samples (megabytes for some benchmarks); its JSON is read only when asked for.
_LONG = 1 << 16
_TIME = "%m-%d-%Y %H:%M:%S.%f"

# A line as LoadGen itself writes it, with a plain value: it needs no JSON reader. Lists and escaped text do.
_PLAIN = re.compile(
    rb'\{"key": "([^"\\]++)", "value": (?:(true|false)|(-?(?:0|[1-9]\d*+)(?![.eE]))|'
    rb'(-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?)|"([^"\\]*+)")'
    rb', "time_ms": \d++\.\d++, "namespace": "[^"\\]*+", "event_type": "[^"\\]*+", "metadata": '
    rb'\{"is_error": (true|false), "is_warning": (true|false), "file": "[^"\\]*+", "line_no": \d++, '
    rb'"pid": \d++, "tid": \d++\}\}'
)
# What a list of loaded samples looks like: there is one for each set, each of many kilobytes.
_LIST = re.compile(rb'\{"key": "([^"\\]++)", "value": \[')
_NO_FLAGS, _TAIL = b'"metadata": {"is_error": false, "is_warning": false, ', 256

# strict=False: a git log message that LoadGen records may hold control characters.
_LARGEST_EXPONENT = 400  # beyond what LoadGen's doubles hold; an integer of a million digits would take minutes


def _decimal(text: str) -> Decimal:
    """ValueError for what no double comes near to."""
    try:
        value = Decimal(text)
    except ArithmeticError as error:
        raise ValueError("a number is out of range") from error
    if abs(value.adjusted()) > _LARGEST_EXPONENT and value:
        raise ValueError("a number is out of range")
    return value


_DECODER = json.JSONDecoder(parse_float=_decimal, strict=False)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One entry: ``line`` is 1-based. ``raw`` holds the JSON of a long line, whose ``value`` is then None."""

    key: str
    value: Any
    line: int
    error: bool = False
    warning: bool = False
    raw: bytes = b""

    def read(self) -> Any:
        """The value, decoded now if it was put off; decimals as Decimal."""
        return _decode(self.raw)["value"] if self.raw else self.value


@dataclass(frozen=True, slots=True)
class DetailLog:
    """A detail log. ``file`` is used in messages only; ``length`` is the number of lines."""

    file: str
    lines: tuple[LogLine, ...]
    index: Mapping[str, LogLine]
    length: int

    def line(self, key: str) -> LogLine | None:
        """The first line of a key."""
        return self.index.get(key)

    def get(self, key: str, default: Any = None) -> Any:
        found = self.index.get(key)
        return default if found is None else found.read()

    def number(self, key: str) -> int:
        """The 1-based line of a key, 0 when it is absent."""
        found = self.index.get(key)
        return 0 if found is None else found.line

    def effective(self, name: str, default: Any = None) -> Any:
        """A setting that LoadGen used, after its own adjustments."""
        return self.get(f"effective_{name}", default)

    def requested(self, name: str, default: Any = None) -> Any:
        """A setting as given to LoadGen, audit overrides included."""
        return self.get(f"requested_{name}", default)

    @property
    def errors(self) -> tuple[LogLine, ...]:
        return tuple(entry for entry in self.lines if entry.error)

    @property
    def warnings(self) -> tuple[LogLine, ...]:
        return tuple(entry for entry in self.lines if entry.warning)

    @property
    def version(self) -> str:
        """LoadGen's release and revision, as in "6.0.17 @ d6147c7eb7"; empty when not logged."""
        return str(self.get("loadgen_version", ""))

    @property
    def scenario(self) -> str:
        """LoadGen's scenario: Server for Interactive."""
        return str(self.effective("scenario", ""))

    @property
    def mode(self) -> str:
        """PerformanceOnly, AccuracyOnly, SubmissionRun or FindPeakPerformance."""
        return str(self.effective("test_mode", ""))

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

    @property
    def complete(self) -> bool:
        """Whether the run came to its end: LoadGen logs power_end last, and results after it in performance runs."""
        if self.mode == "AccuracyOnly":
            return "power_end" in self.index
        return "result_validity" in self.index

    @property
    def started(self) -> datetime | None:
        """power_begin, which is UTC (test_datetime is local time with a misleading Z)."""
        return self._time("power_begin")

    @property
    def ended(self) -> datetime | None:
        return self._time("power_end")

    def _time(self, key: str) -> datetime | None:
        found = self.index.get(key)
        if found is None:
            return None
        try:
            return datetime.strptime(str(found.value), _TIME).replace(tzinfo=UTC)
        except ValueError as error:
            raise LogError(f"{self.file}:{found.line}: {key} is not a time: {found.value!r}") from error


def parse_detail(data: bytes, file: str = DETAIL) -> DetailLog:
    """Parse the bytes of a detail log. LogError (file:line) on a missing marker, broken JSON, an entry without key."""
    if not data.strip():
        raise LogError(
            f"{file}:1: it is empty: LoadGen wrote nothing", fix="see what the program printed: its run never began"
        )
    if not data.startswith(MARKER):
        raise LogError(
            f"{file}:1: the first line does not begin with {MARKER.decode()}",
            fix="this is not a LoadGen detail log, or it was edited; import the log that LoadGen wrote",
        )
    lines = tuple(_parse_lines(data, file))
    index: dict[str, LogLine] = {}
    for entry in lines:
        index.setdefault(entry.key, entry)
    return DetailLog(file, lines, index, data.count(b"\n") + (not data.endswith(b"\n")))


def _parse_lines(data: bytes, file: str) -> Iterator[LogLine]:
    start, number, size = 0, 0, len(data)
    while start < size:
        end = data.find(b"\n", start)
        end = size if end < 0 else end
        number += 1
        if data.startswith(MARKER, start):
            yield _parse_line(data[start + len(MARKER) : end], file, number)
        start = end + 1


def _parse_line(raw: bytes, file: str, number: int) -> LogLine:
    raw = raw.strip()
    if (plain := _PLAIN.fullmatch(raw)) is not None:
        return _read_plain(plain, number)
    try:
        if (found := _LIST.match(raw)) is not None and _NO_FLAGS in raw[-_TAIL:] and raw.endswith(b"}}"):
            return LogLine(found[1].decode("utf-8", "replace"), None, number, raw=raw)
        if len(raw) > _LONG and raw.startswith(_KEY) and raw.endswith(b"}}"):
            return LogLine(raw[len(_KEY) : raw.index(b'"', len(_KEY))].decode(), None, number, raw=raw)
        entry = _decode(raw)
        metadata = entry.get("metadata", {})
        return LogLine(
            str(entry["key"]),
            entry["value"],
            number,
            error=bool(metadata.get("is_error")),
            warning=bool(metadata.get("is_warning")),
        )
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise LogError(
            f"{file}:{number}: broken log entry: {error}",
            fix="the file was cut or edited; import the log again from where LoadGen wrote it, or repeat the run",
        ) from error


def _read_plain(plain: re.Match[bytes], number: int) -> LogLine:
    key, flag, integer, decimal, text, error, warning = plain.groups()
    value: Any = text.decode("utf-8", "replace") if text is not None else None
    if integer is not None:
        value = int(integer)
    elif decimal is not None:
        value = Decimal(decimal.decode())
    elif flag is not None:
        value = flag == b"true"
    return LogLine(key.decode("utf-8", "replace"), value, number, error == b"true", warning == b"true")


def _decode(raw: bytes) -> Any:
    return _DECODER.decode(raw.decode("utf-8", "replace"))
