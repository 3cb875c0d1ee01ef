"""One line of ``mlperf_log_detail.txt``: a JSON object after ``:::MLLOG``. Nearly all have a plain value and are
matched as text. The others are read as JSON; lists of samples (megabytes for some benchmarks) are parsed on request."""

from __future__ import annotations

import functools
import json
import re
from decimal import Decimal
from typing import Any

import msgspec

from reconciler.errors import LogError

MARKER = b":::MLLOG"
# A line with a plain value in LoadGen's own notation, which needs no JSON reader. Lists, escaped text and numbers of
# hundreds of digits do need one. Only a line that is neither error nor warning has the process matched.
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
# The same, except that keys and texts that are never read may contain a backslash or a line end. These are searched for
# afterwards. This takes two thirds of the time.
_NEARLY = re.compile(_LINE.replace(_TEXT, b'"[^"]*+"').replace(_KEY, b'"([^"]++)"'))
VALUES = FLAG, INTEGER, DECIMAL, TEXT = 2, 3, 4, 5  # the groups of a value
WRITER = 6  # and of the process; the groups after it match in an error or a warning
# Pattern of a list of loaded samples: each set has one, of many kilobytes.
_LIST = re.compile(rb'\s*+(\{"key": "([^"\\]++)", "value": \[)')
_ANY, _BEFORE_STAMP = re.compile(rb'\{"key": "([^"\\]++)", "value": '), b', "time_ms": '
_LIST_END = re.compile(
    _STAMP + rb'"is_error": false, "is_warning": false, ' + _SOURCE + _COUNT + rb', "tid": ' + _COUNT + rb"\}\}"
)
# The text after a list of samples, and a line of a key, in LoadGen's notation, neither error nor warning. The first
# contains the text that the others repeat, since comparing is faster than matching. The process has no more digits than
# a system allows. A line's source file is filled in: as a new group, or as a reference to an earlier one.
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
_LARGEST_EXPONENT = 400  # beyond the range of LoadGen's doubles; an integer of a million digits would take minutes


def _parse_double(text: str) -> Decimal:
    """Raise ValueError for a number outside a double's range."""
    try:
        value = Decimal(text)
    except ArithmeticError as error:
        raise ValueError("a number is out of range") from error
    if abs(value.adjusted()) > _LARGEST_EXPONENT and value:
        raise ValueError("a number is out of range")
    return value


# strict=False: a git log message that LoadGen records may contain control characters.
_DECODER = json.JSONDecoder(parse_float=_parse_double, strict=False)


class LogLine(msgspec.Struct, frozen=True):
    """One entry. ``line`` is 1-based. ``raw`` contains the JSON of a list, whose ``value`` is then None."""

    key: str
    value: Any
    line: int
    error: bool = False
    warning: bool = False
    raw: bytes = b""

    def read(self) -> Any:
        """Return the value, decoded now if that was deferred, with decimals as Decimal; None if a long line contains no
        JSON."""
        if not self.raw:
            return self.value
        try:
            return _decode(self.raw)["value"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def read_integers(self) -> list[int]:
        """Return the integers of a list and skip other items. A list of thousands takes a fraction of the time of
        ``read``."""
        if self.raw:
            try:
                return _INTEGERS.decode(self.raw).value
            except (msgspec.MsgspecError, RecursionError):
                pass
        value = self.read()
        return [item for item in value if isinstance(item, int)] if isinstance(value, list) else []


class ListLine(msgspec.Struct, frozen=True):
    """A line with a list in LoadGen's notation, matched to its end, because JSON readers use the last of two equal
    keys. ``begin``, ``end``: of its object in ``data``; ``place``: position of the list, which alone determines its
    value.
    """

    key: str
    data: bytes
    begin: int
    end: int
    place: tuple[int, int]

    def make_line(self, number: int) -> LogLine:
        return LogLine(self.key, None, number, raw=self.data[self.begin : self.end])


def find_list(data: bytes, begin: int, end: int) -> ListLine | None:
    """Find a list that fills the text between ``begin`` and ``end``, except for blanks."""
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
    """Match as many plain lines as possible from ``begin`` on, and return whether later ones must be matched
    ``exactly``. That is so once a text of the log is not in LoadGen's notation; so lines are matched twice at most."""
    found = _match_each(_PLAIN if exactly else _NEARLY, data, begin)
    if exactly or not found:
        return found, exactly
    end = found[-1].end()
    ends = data.count(b"\n", begin, end) + (end == len(data) and not data.endswith(b"\n"))
    if ends == len(found) and data.find(b"\\", begin, end) < 0:
        return found, False
    return _match_each(_PLAIN, data, begin), True


def _match_each(shape: re.Pattern[bytes], data: bytes, begin: int) -> list[re.Match[bytes]]:
    """Match lines with a scanner, which copies none and takes two thirds of the time of splitting them first."""
    return list(iter(shape.scanner(data, begin).match, None))  # type: ignore[attr-defined]


def parse_line(raw: bytes, file: str, number: int) -> LogLine:
    """Parse the rest of a line after the marker. The line is not a list in LoadGen's notation."""
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
        fix = "the file was cut or edited; import the original log, or repeat the run"
        raise LogError(f"{file}:{number}: broken log entry: {error}", fix=fix) from error


def read_line(text: bytes, number: int) -> LogLine:
    """Read a complete line that is known to be LoadGen's: a plain one, or one with a list."""
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
    """Return the key and value of a line in LoadGen's notation, cached across logs; None for another line."""
    found, end = _ANY.match(raw), raw.rfind(_BEFORE_STAMP)
    if found is None or end < found.end() or _LIST_END.fullmatch(raw, end) is None:
        return None
    try:
        return found[1].decode("utf-8", "replace"), _decode_recent(raw[found.end() : end])
    except ValueError:
        return None


@functools.lru_cache(maxsize=32)
def _decode_recent(text: bytes) -> Any:
    """LoadGen's line about its own sources takes kilobytes and is the same in all logs of a release."""
    return _decode(text)


def _decode(raw: bytes) -> Any:
    return _DECODER.decode(raw.decode("utf-8", "replace"))
