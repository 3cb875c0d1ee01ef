"""Read ``mlperf_log_accuracy.json`` entry by entry, since some of these files are larger than memory."""

from __future__ import annotations

import json
import struct
from binascii import unhexlify
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from reconciler.errors import LogError
from reconciler.loadgen.log_files import ACCURACY_LOG

# LoadGen writes responses as raw memory; all machines it runs on are little-endian.
FORMATS = {"byte": "b", "int16": "h", "int32": "i", "int64": "q", "float32": "f"}
_SIZES = {dtype: struct.calcsize(f"<{code}") for dtype, code in FORMATS.items()}


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One logged answer. ``token_count`` and ``token_data`` (the first token) are None except in token benchmarks."""

    index: int
    data: bytes
    token_count: int | None = None
    token_data: bytes | None = None

    def read_values(self, dtype: str) -> tuple[Any, ...]:
        """Return the data as numbers. Raises ValueError if its length is not a multiple of the number size."""
        return unpack_entries(self.data, dtype)

    def count(self, dtype: str) -> int:
        """Return how many numbers the data contains. Raises ValueError like ``read_values``."""
        return _count_numbers(self.data, dtype)

    def read_first(self, dtype: str, count: int = 1) -> tuple[Any, ...]:
        """Return the first of these numbers; fewer or none if there are not enough."""
        _count_numbers(self.data, dtype)
        return unpack_entries(self.data[: count * _SIZES[dtype]], dtype)

    def read_last(self, dtype: str, count: int) -> tuple[Any, ...]:
        """Return the last of these numbers; there must be at least as many."""
        return unpack_entries(self.data[len(self.data) - count * _SIZES[dtype] :], dtype)


class _Logged(msgspec.Struct):
    """Answer as written by LoadGen; other fields are ignored."""

    qsl_idx: int
    data: str
    token_count: int | None = None
    token_data: str | None = None


_LOGGED, _ALL_LOGGED = msgspec.json.Decoder(_Logged), msgspec.json.Decoder(list[_Logged])
_LONGEST = 60  # characters of a quoted entry
# Text before the number of the first and of each further answer, and at the end, as LoadGen writes it.
_FIRST, _NEXT, _END = b'[\n{ "seq_id" : ', b',\n{ "seq_id" : ', b"\n]\n"


def locate_entry(number: int) -> str:
    """Return the file and line of an answer, starting at 1: LoadGen writes one per line, after a line with a
    bracket."""
    return f"{ACCURACY_LOG}:{number + 1}"


def measure(dtype: str) -> int:
    """Return the size of one number in bytes."""
    return _SIZES[dtype]


def unpack_entries(data: bytes, dtype: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{_count_numbers(data, dtype)}{FORMATS[dtype]}", data)


def _count_numbers(data: bytes, dtype: str) -> int:
    count, rest = divmod(len(data), _SIZES[dtype])
    if rest:
        raise ValueError(f"{len(data)} bytes are not a whole number of {dtype}")
    return count


def read_cached_entries(data: bytes) -> Iterable[Entry]:
    """Read like ``read_entries``, from a complete log in memory: at once if it has LoadGen's lines."""
    is_plain = data.startswith(_FIRST) and data.endswith(_END) and b"\r" not in data  # a lone \r ends a line, too
    if is_plain and data.count(_NEXT) + 3 == data.count(b"\n"):
        with suppress(msgspec.MsgspecError, ValueError, RecursionError):
            return [_make_entry(found) for found in _ALL_LOGGED.decode(data)]
    return read_entries(data.splitlines())


def read_entries(lines: Iterable[bytes], file: str = ACCURACY_LOG) -> Iterator[Entry]:
    """Read the entries of a complete accuracy log, in order; LoadGen writes one per line.

    Raises LogError (file:line) if the log is cut off or truncated for submission, or if an entry is not LoadGen's.
    """
    opened = closed = False
    number = 0
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        if closed:
            raise _make_log_error(file, number, "there is more after the end of the list")
        if not opened:
            if not text.startswith(b"["):
                raise _make_log_error(file, number, "the list of answers does not begin here")
            opened, text = True, text[1:].strip()
        if text.endswith(b"]"):
            closed, text = True, text[:-1].strip()
        if text:
            yield from _parse_line(text.rstrip(b", "), file, number)
    if not closed:
        raise _make_log_error(file, number, "the log ends before its list does")


def _parse_line(text: bytes, file: str, number: int) -> Iterable[Entry]:
    """Parse a line, which has one entry in LoadGen's logs and may have several in those of other programs."""
    try:
        return (_make_entry(_LOGGED.decode(text)),)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _parse_any(text, file, number)


def _make_entry(found: _Logged) -> Entry:
    first = None if found.token_data is None else unhexlify(found.token_data)
    return Entry(found.qsl_idx, unhexlify(found.data), found.token_count, first)


def _parse_any(text: bytes, file: str, number: int) -> Iterator[Entry]:
    try:
        for item in json.loads(f"[{text.decode()}]"):
            if not isinstance(item, dict) or item.get("qsl_idx") is None or not isinstance(item.get("data"), str):
                raise ValueError(f"expected qsl_idx and data, found {json.dumps(item)[:_LONGEST]}")
            count = item.get("token_count")
            first = item.get("token_data")
            yield Entry(
                int(item["qsl_idx"]),
                bytes.fromhex(item["data"]),
                None if count is None else int(count),
                None if first is None else bytes.fromhex(first),
            )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise _make_log_error(file, number, f"no answer of LoadGen: {error}") from error


def _make_log_error(file: str, number: int, why: str) -> LogError:
    return LogError(
        f"{file}:{number}: {why}",
        fix="verification needs the whole accuracy log as LoadGen wrote it, not the one truncated for submission",
    )
