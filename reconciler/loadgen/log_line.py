"""One line of ``mlperf_log_detail.txt``: a JSON object behind ``:::MLLOG``. Nearly all have a plain value and are
matched as text; the others are read as JSON, lists of samples (megabytes for some benchmarks) only when they are asked
for."""

from __future__ import annotations

import functools
import json
import re
from decimal import Decimal
from typing import Any

import msgspec

from reconciler.errors import LogError

MARKER = b":::MLLOG"
# A line as LoadGen itself writes it, with a plain value: it needs no JSON reader. Lists, escaped text and numbers of
# hundreds of digits do. The process is that of a line which is neither error nor warning.
_TEXT, _KEY, _COUNT = rb'"[^"\\\n]*+"', rb'"([^"\\\n]++)"', rb"(?:0|[1-9][0-9]*+)"
_STAMP = (
    rb', "time_ms": '
    + _COUNT
    + rb'\.[0-9]++, "namespace": '
    + _TEXT
    + rb', "event_type": '
    + _TEXT
    + rb', "metadata": \{'
)
_SOURCE = rb'"file": ' + _TEXT + rb', "line_no": ' + _COUNT + rb', "pid": '
_LINE = (
    rb':::MLLOG[^\S\n]*+\{"key": '
    + _KEY
    + rb', "value": (?:(true|false)|(-?+(?:0|[1-9][0-9]{0,99}+)(?![.eE0-9]))|'
    + rb'(-?+(?:0|[1-9][0-9]{0,99}+)(?:\.[0-9]{1,99}+)?+(?:[eE][+-]?+[0-9]{1,2}+)?+(?![0-9]))|"([^"\\\n]*+)")'
    + _STAMP
    + rb'(?:"is_error": false, "is_warning": false, '
    + _SOURCE
    + rb"("
    + _COUNT
    + rb")|"
    rb'"is_error": (?:false|(true)), "is_warning": (?:false|(true)), '
    + _SOURCE
    + _COUNT
    + rb'), "tid": '
    + _COUNT
    + rb"\}\}[^\S\n]*+(?:\n|\Z)"
)
_PLAIN = re.compile(_LINE)
# The same but that keys, and texts which are never read, may have a backslash or a line end, which is looked for
# afterwards: matched in two thirds of the time.
_NEARLY = re.compile(_LINE.replace(_TEXT, b'"[^"]*+"').replace(_KEY, b'"([^"]++)"'))
VALUES = FLAG, INTEGER, DECIMAL, TEXT = 2, 3, 4, 5  # the groups of a value
WRITER = 6  # and of the process; those behind match in an error or a warning
# Shape of a list of loaded samples: there is one for each set, each of many kilobytes.
_LIST = re.compile(rb'\s*+(\{"key": "([^"\\]++)", "value": \[)')
_ANY, _BEFORE_STAMP = re.compile(rb'\{"key": "([^"\\]++)", "value": '), b', "time_ms": '
_LIST_END = re.compile(
    _STAMP + rb'"is_error": false, "is_warning": false, ' + _SOURCE + _COUNT + rb', "tid": ' + _COUNT + rb"\}\}"
)
# Behind a list of samples, and a line of a key: as LoadGen writes them, neither error nor warning. The first has what
# the others repeat, which is compared faster than it is matched; the process in no more digits than a system has. The
# source file of a line is filled in: a group of its own, or one before it.
_REPEATED = rb', "namespace": %b, "event_type": %b, "metadata": \{"is_error": false, "is_warning": false, "file": ' % (
    _TEXT,
    _TEXT,
)
_BEHIND = rb', "time_ms": %b\.[0-9]++%%b, "line_no": %b, "pid": %%b, "tid": (?:0|[1-9][0-9]{0,19}+)\}\}\n' % (
    _COUNT,
    _COUNT,
)
FILE_OF_LINE, ANY_FILE = re.compile(rb'"file": (%b)' % _TEXT), rb"(%b)" % _TEXT
BEHIND_LIST = _BEHIND % (b"(" + _REPEATED + b")" + ANY_FILE, b"(0|[1-9][0-9]{0,9}+)")
FILE_OF_BATCH, WRITER_OF_BATCH = 2, 3
LINE_OF_KEY = (
    rb':::MLLOG \{"key": "%%b", "value": (?:true|false|%b|'
    rb"-?+(?:0|[1-9][0-9]{0,99}+)(?:\.[0-9]{1,99}+)?+(?:[eE][+-]?+[0-9]{1,2}+)?+)%b"
    % (_TEXT, _BEHIND % (rb"\1%b", rb"\3"))
)
_LARGEST_EXPONENT = 400  # beyond what LoadGen's doubles hold; an integer of a million digits would take minutes


def _parse_double(text: str) -> Decimal:
    """ValueError for what no double comes near to."""
    try:
        value = Decimal(text)
    except ArithmeticError as error:
        raise ValueError("a number is out of range") from error
    if abs(value.adjusted()) > _LARGEST_EXPONENT and value:
        raise ValueError("a number is out of range")
    return value


# strict=False: a git log message that LoadGen records may hold control characters.
_DECODER = json.JSONDecoder(parse_float=_parse_double, strict=False)


class LogLine(msgspec.Struct, frozen=True):
    """One entry: ``line`` is 1-based. ``raw`` holds the JSON of a list, whose ``value`` is then None."""

    key: str
    value: Any
    line: int
    error: bool = False
    warning: bool = False
    raw: bytes = b""

    def read(self) -> Any:
        """The value, decoded now if it was put off; decimals as Decimal. None where a long line holds no JSON."""
        if not self.raw:
            return self.value
        try:
            return _decode(self.raw)["value"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def read_integers(self) -> list[int]:
        """The integers of a list, whatever else it has; of a list of thousands in a fraction of the time."""
        if self.raw:
            try:
                return _INTEGERS.decode(self.raw).value
            except (msgspec.MsgspecError, RecursionError):
                pass
        value = self.read()
        return [item for item in value if isinstance(item, int)] if isinstance(value, list) else []


class ListLine(msgspec.Struct, frozen=True):
    """A line of a list as LoadGen writes it, to the end: of an object that names its key twice, readers of JSON take
    the last. ``begin``, ``end``: of its object in ``data``; ``place``: of the list, on which alone its value depends.
    """

    key: str
    data: bytes
    begin: int
    end: int
    place: tuple[int, int]

    def make_line(self, number: int) -> LogLine:
        return LogLine(self.key, None, number, raw=self.data[self.begin : self.end])


def find_list(data: bytes, begin: int, end: int) -> ListLine | None:
    """Find a list that is all between ``begin`` and ``end``, but for blanks."""
    found = _LIST.match(data, begin, end)
    if found is None:
        return None
    close = data.find(b"]", found.end(), end) + 1
    behind = _LIST_END.match(data, close, end) if close else None
    if behind is None or data[behind.end() : end].strip():
        return None
    name = found[2].decode("utf-8", "replace")
    return ListLine(name, data, found.start(1), behind.end(), (found.end() - 1, close))


class _IntegerList(msgspec.Struct):
    value: list[int]


_INTEGERS = msgspec.json.Decoder(_IntegerList)


class _Names(dict[bytes, str]):
    """Keys as text: a round's logs have the same few hundred."""

    def __missing__(self, key: bytes) -> str:
        if len(self) >= _MOST_NAMES:
            self.clear()
        name = self[key] = key.decode("utf-8", "replace")
        return name


_MOST_NAMES = 4096
NAMES = _Names()


def match_lines(data: bytes, begin: int, *, exactly: bool) -> tuple[list[re.Match[bytes]], bool]:
    """As many lines from ``begin`` on as are plain ones, and whether those behind them must be matched ``exactly``: a
    log with one text that is not as LoadGen's is, so that it is matched twice at most."""
    found = _match_each(_PLAIN if exactly else _NEARLY, data, begin)
    if exactly or not found:
        return found, exactly
    end = found[-1].end()
    ends = data.count(b"\n", begin, end) + (end == len(data) and not data.endswith(b"\n"))
    if ends == len(found) and data.find(b"\\", begin, end) < 0:
        return found, False
    return _match_each(_PLAIN, data, begin), True


def _match_each(shape: re.Pattern[bytes], data: bytes, begin: int) -> list[re.Match[bytes]]:
    """A scanner matches line after line without a copy of any, in two thirds of the time of splitting them first."""
    return list(iter(shape.scanner(data, begin).match, None))  # type: ignore[attr-defined]


def parse_line(raw: bytes, file: str, number: int) -> LogLine:
    """Parse the rest of a line behind the marker, other than a list as LoadGen writes it."""
    raw = raw.strip()
    try:
        if (known := _read_recent(raw)) is not None:
            return LogLine(*known, number)
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
        fix = "the file was cut or edited; import the log again from where LoadGen wrote it, or repeat the run"
        raise LogError(f"{file}:{number}: broken log entry: {error}", fix=fix) from error


def read_line(text: bytes, number: int) -> LogLine:
    """Read a whole line that is known to be LoadGen's: a plain one, or of a list."""
    listed = find_list(text, len(MARKER), len(text))
    if listed is not None:
        return listed.make_line(number)
    plain = _PLAIN.match(text)
    assert plain is not None
    return read_plain(plain, number)


def read_plain(plain: re.Match[bytes], number: int) -> LogLine:
    key, flag, integer, decimal, text, _, error, warning = plain.groups()
    value: Any = text.decode("utf-8", "replace") if text is not None else None
    if integer is not None:
        value = int(integer)
    elif decimal is not None:
        value = Decimal(decimal.decode())
    elif flag is not None:
        value = flag == b"true"
    return LogLine(NAMES[key], value, number, error is not None, warning is not None)


def _read_recent(raw: bytes) -> tuple[str, Any] | None:
    """Key and value of a line as LoadGen writes it, read once of many logs; None of another."""
    found, end = _ANY.match(raw), raw.rfind(_BEFORE_STAMP)
    if found is None or end < found.end() or _LIST_END.fullmatch(raw, end) is None:
        return None
    try:
        return found[1].decode("utf-8", "replace"), _decode_recent(raw[found.end() : end])
    except ValueError:
        return None


@functools.lru_cache(maxsize=32)
def _decode_recent(text: bytes) -> Any:
    """LoadGen's line of its own sources has kilobytes, and is the same in all logs of a release."""
    return _decode(text)


def _decode(raw: bytes) -> Any:
    return _DECODER.decode(raw.decode("utf-8", "replace"))
