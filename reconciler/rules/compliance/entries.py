"""Reads ``mlperf_log_accuracy.json`` entry by entry: some of them are larger than memory."""

from __future__ import annotations

import json
import re
import struct
from binascii import unhexlify
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from reconciler.errors import LogError
from reconciler.loadgen.log_files import ACCURACY_LOG

# LoadGen writes the responses as they are in memory; all machines it runs on are little-endian.
FORMATS = {"byte": "b", "int16": "h", "int32": "i", "int64": "q", "float32": "f"}
_SIZES = {dtype: struct.calcsize(f"<{code}") for dtype, code in FORMATS.items()}


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One logged answer. ``token_count`` and ``token_data`` (the first token) only of token benchmarks, else None."""

    index: int
    data: bytes
    token_count: int | None = None
    token_data: bytes | None = None

    def read_values(self, dtype: str) -> tuple[Any, ...]:
        """The data as numbers. ValueError when its bytes are not a whole number of them."""
        return unpack_entries(self.data, dtype)

    def count(self, dtype: str) -> int:
        """How many numbers the data is. ValueError as ``values``."""
        return _count(self.data, dtype)

    def read_first(self, dtype: str, count: int = 1) -> tuple[Any, ...]:
        """The first of these numbers; fewer, or none, where there are no more."""
        _count(self.data, dtype)
        return unpack_entries(self.data[: count * _SIZES[dtype]], dtype)

    def read_last(self, dtype: str, count: int) -> tuple[Any, ...]:
        """The last of these numbers, of which there are at least as many."""
        return unpack_entries(self.data[len(self.data) - count * _SIZES[dtype] :], dtype)


class _Logged(msgspec.Struct):
    """An answer as LoadGen writes it; anything else in it is passed over."""

    qsl_idx: int
    data: str
    token_count: int | None = None
    token_data: str | None = None


_LOGGED = msgspec.json.Decoder(_Logged)
# Text before the data of each answer, and behind it, as LoadGen writes them.
_COUNT = rb"(0|[1-9][0-9]{0,17}+)"
_BEFORE = rb'\n\{ "seq_id" : %b, "qsl_idx" : %b, "data" : "' % (_COUNT.replace(b"(", b"(?:"), _COUNT)
_FIRST = re.compile(rb"\[" + _BEFORE)
_BEHIND = re.compile(
    rb'"(?:, "token_data" : "([0-9A-Fa-f]*+)")?+(?:, "token_count" : %b)?+ \}(?:,%b|\n\]\n?\Z)' % (_COUNT, _BEFORE)
)


def locate_entry(number: int) -> str:
    """File and line of an answer, the first of which is 1: LoadGen writes one a line, behind a bracket."""
    return f"{ACCURACY_LOG}:{number + 1}"


def measure(dtype: str) -> int:
    """Bytes of one number."""
    return _SIZES[dtype]


def unpack_entries(data: bytes, dtype: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{_count(data, dtype)}{FORMATS[dtype]}", data)


def _count(data: bytes, dtype: str) -> int:
    count, rest = divmod(len(data), _SIZES[dtype])
    if rest:
        raise ValueError(f"{len(data)} bytes are not a whole number of {dtype}")
    return count


def read_cached_entries(data: bytes, file: str = ACCURACY_LOG) -> Iterable[Entry]:
    """As ``read_entries``, of a whole log in memory: at once where it is as LoadGen writes it."""
    try:
        found = _read_plain(data)
    except ValueError:  # digits that are none
        found = []
    return found or read_entries(data.splitlines(), file)


def _read_plain(data: bytes) -> list[Entry]:
    """The answers have megabytes, of which none is copied before it is decoded. [] where a byte is not as LoadGen
    writes it."""
    entries, whole = list[Entry](), memoryview(data)
    found = _FIRST.match(data)
    index = found[1] if found else b""
    while found:
        begin, end = found.end(), data.find(b'"', found.end())
        found = _BEHIND.match(data, end) if end >= 0 else None
        if found is None:
            return []
        first, count, following = found.groups()
        entries.append(
            Entry(
                int(index),
                unhexlify(whole[begin:end]),
                None if count is None else int(count),
                None if first is None else unhexlify(first),
            )
        )
        if following is None:
            break
        index = following
    return entries


def read_entries(lines: Iterable[bytes], file: str = ACCURACY_LOG) -> Iterator[Entry]:
    """The entries of a whole accuracy log, in its order; LoadGen writes one to a line.

    LogError (file:line) when the log is cut off or truncated for submission, or an entry is not LoadGen's.
    """
    opened = closed = False
    number = 0
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        if closed:
            raise _broken(file, number, "there is more after the end of the list")
        if not opened:
            if not text.startswith(b"["):
                raise _broken(file, number, "the list of answers does not begin here")
            opened, text = True, text[1:].strip()
        if text.endswith(b"]"):
            closed, text = True, text[:-1].strip()
        if text:
            yield from _parse(text.rstrip(b", "), file, number)
    if not closed:
        raise _broken(file, number, "the log ends before its list does")


def _parse(text: bytes, file: str, number: int) -> Iterable[Entry]:
    """Mostly one entry; a log that another program wrote may hold several in a line."""
    try:
        return (_make_entry(_LOGGED.decode(text)),)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _parse_any(text, file, number)


def _make_entry(found: _Logged) -> Entry:
    first = None if found.token_data is None else bytes.fromhex(found.token_data)
    return Entry(found.qsl_idx, bytes.fromhex(found.data), found.token_count, first)


def _parse_any(text: bytes, file: str, number: int) -> Iterator[Entry]:
    try:
        for item in json.loads(f"[{text.decode()}]"):
            count = item.get("token_count")
            first = item.get("token_data")
            yield Entry(
                int(item["qsl_idx"]),
                bytes.fromhex(item["data"]),
                None if count is None else int(count),
                None if first is None else bytes.fromhex(first),
            )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise _broken(file, number, f"no answer of LoadGen: {error}") from error


def _broken(file: str, number: int, why: str) -> LogError:
    return LogError(
        f"{file}:{number}: {why}",
        fix="verification needs the whole accuracy log as LoadGen wrote it, not the one truncated for submission",
    )
