"""Streams of a timed run, read with as little as can be: bytes are kept as they come, and parsed once all are there.

Until an answer's first token its events are parsed as they come, since LoadGen is told then; afterwards only its bytes
are counted. A connection is kept for the next prompt.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from harness.backends.openai.answers import Answer, read_events
from harness.errors import HarnessError

_REUSED = 2.0  # seconds after which an idle connection may be one that the server is closing
_EVENT = 1024  # bytes of an event that are believed before it is looked for more tokens than were asked for
_LAST_CHUNK = b"0\r\n\r\n"
_LINE = b"\r\n"
_END = b"\r\n\r\n"


class SilentError(Exception):
    """A stream stood still, or went on, for too long. ``between``: between two of its pieces."""

    def __init__(self, *, between: bool) -> None:
        super().__init__()
        self.between = between


class UnreachableError(Exception):
    """Nothing takes a connection at the address."""


class StatusError(Exception):
    """The server gave no answer but a status."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(status)
        self.status, self.said = status, said


@dataclass(frozen=True, slots=True)
class Limits:
    """``most``: tokens of an answer. ``total``, ``idle``, ``connect``: seconds."""

    most: int
    total: float
    idle: float
    connect: float


class Stream(asyncio.Protocol):
    """One connection, which asks for one answer at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._now = asyncio.get_running_loop().time
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[Answer] | None = None
        self._told: Callable[[Answer], None] | None = None
        self._parts: list[bytes] = []
        self._head: _Head | None = None
        self._size = self._allowed = 0
        self._plain = False
        self.began = self.moved = 0.0
        self.open = True

    def ask(self, request: bytes, first: Callable[[Answer], None]) -> asyncio.Future[Answer]:
        """``first`` is told of the answer as far as it is there, once, when it has its first tokens."""
        self._answer = asyncio.get_running_loop().create_future()
        self._told, self._parts, self._head = first, [], None
        self._size, self._allowed, self._plain = 0, self._limits.most * _EVENT, False
        self.began = self.moved = self._now()
        self._transport.write(request)
        return self._answer

    def check(self, now: float) -> None:
        """Ends an answer that takes too long."""
        if now - self.moved > self._limits.idle:
            self._fail(SilentError(between=True))
        elif now - self.began > self._limits.total:
            self._fail(SilentError(between=False))

    def end(self) -> None:
        self.open = False
        self._transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so

    def data_received(self, data: bytes) -> None:
        self.moved = self._now()
        self._parts.append(data)
        self._size += len(data)
        # Most of what comes is the next token of a stream: nothing else is done of it.
        if self._plain and self._size < self._allowed and data[-5:] != _LAST_CHUNK and len(data) >= len(_LAST_CHUNK):
            return
        self._look_closer()

    def _look_closer(self) -> None:
        if self._answer is None:
            self.end()  # nobody asked
            return
        try:
            if self._told is not None:
                self._look_for_first()
            elif self._size >= self._allowed:
                self._refuse_excess(self._read_answer())
                self._allowed = 2 * self._size
            if self._head is not None and self._head.may_end(self._parts, self._size):
                self._finish(closed=False)
        except Exception as error:  # whatever it is, the answer ends with it
            self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        if self._answer is None or self._answer.done():
            return
        try:
            if error is not None or self._head is None:
                raise ConnectionResetError(str(error or "without an answer"))
            self._finish(closed=True)
        except Exception as problem:
            self._fail(problem)

    def _look_for_first(self) -> None:
        if self._head is None:
            self._head = read_head(b"".join(self._parts))
        if self._head is None or self._head.status != 200:
            return
        answer = self._read_answer()
        if answer.pieces and self._told is not None:
            told, self._told = self._told, None
            told(answer)
            self._plain = self._head.chunked

    def _refuse_excess(self, answer: Answer) -> None:
        if max(answer.pieces, len(answer.tokens)) > self._limits.most:
            raise HarnessError(
                f"the stream goes on after {self._limits.most} tokens, the most that were asked for",
                "backend",
                "see whether the server obeys max_tokens",
            )

    def _read_answer(self) -> Answer:
        assert self._head is not None
        return Answer().add_all(read_events(self._head.read_body(b"".join(self._parts))[0]))

    def _finish(self, *, closed: bool) -> None:
        """The answer, if this is its end."""
        assert self._head is not None
        assert self._answer is not None
        body, whole = self._head.read_body(b"".join(self._parts))
        if not (whole or closed):
            return
        if self._head.status != 200:
            raise StatusError(self._head.status, body.decode(errors="replace"))
        answer = Answer().add_all(read_events(body))
        if self._told is not None and answer.pieces:
            self._told(answer)
        self._refuse_excess(answer)
        done, self._answer, self._plain = self._answer, None, False
        if not self._head.kept:
            self.end()
        if not done.done():
            done.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.end()


@dataclass(frozen=True, slots=True)
class _Head:
    """Of an answer. ``size``: bytes of it. ``length``: of the body; -1 where its chunks or its end say so."""

    status: int
    size: int
    length: int
    chunked: bool
    kept: bool

    def may_end(self, parts: list[bytes], size: int) -> bool:
        """Whether it is worth a closer look."""
        if self.chunked:
            return b"".join(parts[-len(_LAST_CHUNK) :]).endswith(_LAST_CHUNK)
        return 0 <= self.length <= size - self.size

    def read_body(self, data: bytes) -> tuple[bytes, bool]:
        """As far as it is there, and whether it is whole."""
        if self.chunked:
            return join_chunks(data, self.size)
        body = data[self.size :]
        return (body, False) if self.length < 0 else (body[: self.length], len(body) >= self.length)


def read_head(data: bytes) -> _Head | None:
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
    return _Head(
        status=int(words[1]),
        size=end + len(_END),
        length=int(fields.get(b"content-length", b"-1")),
        chunked=b"chunked" in fields.get(b"transfer-encoding", b""),
        kept=words[0] == b"HTTP/1.1" and fields.get(b"connection") != b"close",
    )


def join_chunks(data: bytes, place: int) -> tuple[bytes, bool]:
    """What the chunks from ``place`` on hold, and whether the last one is there."""
    if data.endswith(_LAST_CHUNK) and (joined := _join_plain_chunks(data[place:])) is not None:
        return joined, True
    found: list[bytes] = []
    while (end := data.find(_LINE, place)) >= 0:
        size = int(data[place:end].partition(b";")[0], 16)
        if not size:
            return b"".join(found), data.find(_LINE, end + len(_LINE)) >= 0
        found.append(data[end + len(_LINE) : end + len(_LINE) + size])
        place = end + size + 2 * len(_LINE)
    return b"".join(found), False


def _join_plain_chunks(data: bytes) -> bytes | None:
    """All chunks at once, where none holds what separates them; None where one may."""
    parts = data.split(_LINE)
    sizes, chunks = parts[0:-3:2], parts[1:-3:2]
    try:
        plain = [int(size, 16) for size in sizes] == [len(chunk) for chunk in chunks]
    except ValueError:
        return None
    return b"".join(chunks) if plain else None


@dataclass(slots=True)
class Wires:
    """The connections to one replica. ``busy``: those that wait for an answer."""

    url: str
    path: str
    headers: dict[str, str]
    limits: Limits
    busy: set[Stream] = field(default_factory=set)
    _idle: list[Stream] = field(default_factory=list)

    async def ask(self, body: bytes, first: Callable[[Answer], None]) -> Answer:
        """Raises what is wrong with the connection, StatusError, SilentError, or HarnessError."""
        stream = self._take(asyncio.get_running_loop().time()) or await self._connect()
        self.busy.add(stream)
        try:
            return await stream.ask(self._make_request(body), first)
        except BaseException:
            stream.end()
            raise
        finally:
            self.busy.discard(stream)
            if stream.open:
                self._idle.append(stream)

    def check(self, now: float) -> None:
        for stream in list(self.busy):
            stream.check(now)

    def close(self) -> None:
        for stream in (*self.busy, *self._idle):
            stream.end()
        self._idle.clear()

    def _take(self, now: float) -> Stream | None:
        while self._idle:
            stream = self._idle.pop()
            if stream.open and now - stream.moved < _REUSED:
                return stream
            stream.end()
        return None

    async def _connect(self) -> Stream:
        at = urlsplit(self.url)
        secure = at.scheme == "https"
        made = asyncio.get_running_loop().create_connection(
            lambda: Stream(self.limits),
            at.hostname or "",
            at.port or (443 if secure else 80),
            ssl=ssl.create_default_context() if secure else None,
        )
        try:
            _, stream = await asyncio.wait_for(made, self.limits.connect)
        except (OSError, TimeoutError) as error:
            raise UnreachableError(str(error) or f"no connection within {self.limits.connect:g} s") from error
        return stream

    def _make_request(self, body: bytes) -> bytes:
        at = urlsplit(self.url)
        said = {"Host": at.netloc.rpartition("@")[2], **self.headers, "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        return f"POST {at.path}{self.path} HTTP/1.1\r\n{lines}\r\n".encode() + body
