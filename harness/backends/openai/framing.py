"""Framing of a server's answers, from bytes to events: the head of an answer in HTTP, its chunks, and the lines of a
stream.

Nearly all of a stream are chunks that hold one event each. They are cut apart and decoded together, each of them
checked against the size before it; anything that looks different is read chunk by chunk and line by line.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from harness.backends.openai.answers import DECODER, Event, read_events, refuse_second
from harness.errors import HarnessError

LAST_CHUNK = b"0\r\n\r\n"
_LINE = b"\r\n"
_END = b"\r\n\r\n"
_BEGINS, _ENDS = b"\r\ndata: ", b"\n\n\r\n"  # the bytes around the event of a chunk
_DONE = b"e\r\ndata: [DONE]"


@dataclass(frozen=True, slots=True)
class Head:
    """Head of an answer. ``size``: bytes of it. ``length``: of the body; -1 where its chunks or its end say so."""

    status: int
    size: int
    length: int
    chunked: bool
    kept: bool


def read_head(data: bytes) -> Head | None:
    """None while it is not there as a whole. Raises HarnessError where this is no HTTP."""
    end = data.find(_END)
    if end < 0:
        return None
    status, *lines = data[:end].split(_LINE)
    words = status.split(b" ", 2)
    if not words[0].startswith(b"HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        raise HarnessError(f"not an answer in HTTP: {status[:80].decode(errors='replace')}", "backend")
    split = (line.partition(b":") for line in lines)
    fields = {name.strip().lower(): value.strip().lower() for name, _, value in split}
    return Head(
        status=int(words[1]),
        size=end + len(_END),
        length=int(fields.get(b"content-length", b"-1")),
        chunked=b"chunked" in fields.get(b"transfer-encoding", b""),
        kept=words[0] == b"HTTP/1.1" and fields.get(b"connection") != b"close",
    )


class Body:
    """Body of an answer, as it comes. ``whole``: its end has arrived."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.whole = head.length == 0 and not head.chunked
        self._left = head.length
        self._rest = b""  # of a chunk that is not there as a whole
        self._line = b""  # of a line that is not
        self._closed = False

    def read_events(self, data: bytes) -> list[Event]:
        """Read the events that ``data`` completes. Raises HarnessError for anything else, or that follows the closing
        one."""
        found: list[Event] = []
        if self.head.chunked and not self._line:
            data, self._rest = self._rest + data, b""
            found, data = _read_regular(data)
        lines, _, self._line = (self._line + self.read(data)).rpartition(b"\n")
        others, closes = read_events(lines)
        found += others
        if found and self._closed:
            raise refuse_second()
        self._closed = self._closed or closes
        return found

    def read(self, data: bytes) -> bytes:
        """Read the content without its frames."""
        if self.head.chunked:
            return self._read_chunks(self._rest + data)
        if self._left >= 0:
            data = data[: self._left]
            self._left -= len(data)
            self.whole = not self._left
        return data

    def _read_chunks(self, data: bytes) -> bytes:
        found, place = [], 0
        while (end := data.find(_LINE, place)) >= 0:
            size = int(data[place:end].partition(b";")[0], 16)
            if not size:
                self.whole = data.find(_END, end) >= 0
                break
            start, stop = end + len(_LINE), end + len(_LINE) + size
            if len(data) < stop + len(_LINE):
                break
            if data[stop : stop + len(_LINE)] != _LINE:
                raise HarnessError(
                    "a chunk is not as long as it says", "backend", "check for a proxy in front of the server"
                )
            found.append(data[start:stop])
            place = stop + len(_LINE)
        self._rest = data[place:]
        return b"".join(found)


def _read_regular(data: bytes) -> tuple[list[Event], bytes]:
    """The events of whole chunks that hold one each, and what follows them; none where one of them does not."""
    *chunks, rest = data.split(_ENDS)
    if chunks[-1:] == [_DONE]:
        rest = b"".join((chunks.pop(), _ENDS, rest))
    begins = [*map(_BEGINNINGS.__getitem__, map(len, chunks))]
    if not all(map(bytes.startswith, chunks, begins)):
        return [], data
    try:
        return DECODER.decode_lines(b"\n".join(map(bytes.removeprefix, chunks, begins))), rest
    except msgspec.DecodeError:
        return [], data


class _Beginnings(dict[int, bytes]):
    """How a chunk with one event begins, by its length without ``_ENDS``."""

    def __missing__(self, length: int) -> bytes:
        digits = (b"%x" % (length - count) for count in range(1, 9) if length > count)
        found = next((size for size in digits if int(size, 16) + len(size) == length), b"")
        self[length] = found + _BEGINS
        return self[length]


_BEGINNINGS = _Beginnings()
