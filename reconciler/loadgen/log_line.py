"""One line of ``mlperf_log_detail.txt``: a JSON object after ``:::MLLOG``."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import msgspec

from reconciler.errors import LogError

MARKER = b":::MLLOG"
STRING, _COUNT = rb'"[^"\\\n]*+"', rb"(?:0|[1-9][0-9]*+)"
_LARGEST_EXPONENT = 400  # beyond the range of LoadGen's doubles


def _parse_double(text: str) -> Decimal:
    """Raise ValueError for a number outside a double's range."""
    try:
        value = Decimal(text)
    except ArithmeticError as error:
        raise ValueError("a number is out of range") from error
    if abs(value.adjusted()) > _LARGEST_EXPONENT and value:
        raise ValueError("a number is out of range")
    return value


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One entry. ``line`` is 1-based. ``raw``: the JSON of a list of samples, whose ``value`` is then None, since such
    lists take megabytes and are rarely needed. ``process``: the process that wrote the line, empty if it names none.
    ``text``: the whole line, unless it contains a list."""

    key: str
    value: Any
    line: int
    error: bool = False
    warning: bool = False
    raw: bytes = b""
    process: str = ""
    text: bytes = b""

    def read(self) -> Any:
        """Return the value, decoded now if that was deferred, with decimals as Decimal; None if a number in a list is
        out of range."""
        if not self.raw:
            return self.value
        try:
            return _decode(self.raw)
        except (ValueError, RecursionError):
            return None

    def read_integers(self) -> list[int]:
        """Return the integers of a list and skip other items. A list of thousands takes a fraction of the time of
        ``read``."""
        if self.raw:
            try:
                return _INTEGERS.decode(self.raw)
            except (msgspec.MsgspecError, RecursionError):
                pass
        value = self.read()
        return [item for item in value if isinstance(item, int)] if isinstance(value, list) else []


class _Metadata(msgspec.Struct, gc=False):
    is_error: bool = False
    is_warning: bool = False
    pid: int | None = None


class _Entry(msgspec.Struct, gc=False):
    key: str
    value: Any
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _ListEntry(_Entry):
    value: msgspec.Raw


_ENTRY = msgspec.json.Decoder(_Entry, float_hook=_parse_double)
_LIST_ENTRY, _INTEGERS = msgspec.json.Decoder(_ListEntry), msgspec.json.Decoder(list[int])
_LIST, _LONGEST_KEY = b'"value": [', 100  # as LoadGen writes it
# strict=False: a git log message that LoadGen records may contain control characters.
_DECODER = json.JSONDecoder(parse_float=_parse_double, strict=False)


def _decode(raw: bytes) -> Any:
    return _DECODER.decode(raw.decode("utf-8", "replace"))


def compile_line(value: bytes) -> re.Pattern[bytes]:
    """Compile the pattern of a whole line in LoadGen's notation with such a value. Group 1 is its ``time_ms``."""
    line = (
        rb':::MLLOG[^\S\n]*+\{"key": %(string)b, "value": %(value)b, "time_ms": (%(count)b\.[0-9]++), '
        rb'"namespace": %(string)b, "event_type": %(string)b, "metadata": \{"is_error": (?:true|false), '
        rb'"is_warning": (?:true|false), "file": %(string)b, "line_no": %(count)b, "pid": %(count)b, '
        rb'"tid": %(count)b\}\}\s*+'
    )
    return re.compile(line % {b"string": STRING, b"count": _COUNT, b"value": value})


def read_line(text: bytes, file: str, number: int) -> LogLine:
    """Read a line that begins with the marker. Raises LogError if it contains no entry."""
    listed = text.find(_LIST, 0, _LONGEST_KEY) >= 0
    try:
        entry = (_LIST_ENTRY if listed else _ENTRY).decode(memoryview(text)[len(MARKER) :])
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return _read_other(text, file, number)
    stated = entry.metadata
    value, raw, text = (None, bytes(entry.value), b"") if listed else (entry.value, b"", text)
    process = "" if stated.pid is None else str(stated.pid)
    return LogLine(entry.key, value, number, stated.is_error, stated.is_warning, raw, process, text)


def _read_other(text: bytes, file: str, number: int) -> LogLine:
    """Read a line with control characters, undecodable bytes or unexpected types."""
    try:
        entry = _decode(text[len(MARKER) :].strip())
        metadata = entry.get("metadata", {})
        flags = bool(metadata.get("is_error")), bool(metadata.get("is_warning"))
        return LogLine(str(entry["key"]), entry["value"], number, *flags, b"", str(metadata.get("pid", "")), text)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        fix = "the file was cut or edited; import the original log, or repeat the run"
        raise LogError(f"{file}:{number}: broken log entry: {error}", fix=fix) from error
