"""Streams of a timed run, read with minimal work: pieces are stored on arrival, and many are parsed together.

Up to an answer's first token they are parsed one by one, since its time is reported to LoadGen. Connections are reused.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from harness.errors import HarnessError

# Parse a server's answers, which are the events of a stream or one document, as far as a run needs them.

_DATA, _CLOSING = b"data:", b"[DONE]"


class Piece(msgspec.Struct, gc=False):
    """A message of the chat protocol, or the next part of one."""

    content: str | None = None


class Choice(msgspec.Struct, gc=False):
    """The next part of an answer. ``token_ids``: returned by vLLM and SGLang for ``return_token_ids``, and by
    trtllm-serve instead of text for ``detokenize: false``."""

    index: int = 0
    text: str | None = None
    delta: Piece | None = None
    message: Piece | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None

    @property
    def said(self) -> str:
        piece = self.delta or self.message
        return self.text or (piece.content if piece else None) or ""


class PromptDetails(msgspec.Struct, gc=False):
    """``cached_tokens``: how many tokens of the prompt reuse the computation of another prompt."""

    cached_tokens: int | None = 0


class Usage(msgspec.Struct, gc=False):
    completion_tokens: int | None = 0
    prompt_tokens_details: PromptDetails | None = None


class Event(msgspec.Struct, gc=False):
    """One event of a stream, or a complete answer."""

    choices: list[Choice] = []
    usage: Usage | None = None
    model: str = ""
    error: Any = None


DECODER = msgspec.json.Decoder(Event)


def decode_event(data: bytes) -> Event:
    """Decode an event. Raises HarnessError if it is not an answer."""
    try:
        event = DECODER.decode(data)
    except msgspec.DecodeError as error:
        shown = data[:80].decode(errors="replace")
        raise HarnessError(f"not an answer of the OpenAI protocol ({error}): {shown}", "backend") from error
    return event


def read_events(lines: bytes) -> tuple[list[Event], bool]:
    """Return the server-sent events of complete lines, and whether the last one closes the stream. Raises HarnessError
    for an event after the closing one, or an invalid one."""
    # Comments keep connections alive; other fields are irrelevant here.
    found = [line[len(_DATA) :] for line in lines.split(b"\n") if line.startswith(_DATA)]
    closed = bool(found) and found[-1].strip() == _CLOSING
    if closed:
        found.pop()
    try:
        return DECODER.decode_lines(b"\n".join(found)), closed
    except msgspec.DecodeError:
        if any(data.strip() == _CLOSING for data in found):
            raise refuse_second() from None
        return [decode_event(data.strip()) for data in found], closed  # decoding one of the events raises the error


def refuse_second() -> HarnessError:
    return HarnessError(
        "the server sent two answers", "backend", "see the server's log; the request was for one answer"
    )


@dataclass(slots=True)
class Answer:
    """One answer as it arrives. ``ended``: a finish reason has arrived, after which only the number of tokens may
    follow."""

    tokens: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    pieces: int = 0
    counted: int = 0
    cached: int = 0
    ended: bool = False
    reason: str = ""
    model: str = ""

    def add(self, event: Event) -> None:
        """Add an event. Raises HarnessError if the server answers twice or reports an error."""
        if event.error is not None:
            raise HarnessError(f"the server says: {str(event.error)[:300]}", "backend")
        self.model = self.model or event.model
        if event.usage is not None:
            self.counted = event.usage.completion_tokens or 0
            if event.usage.prompt_tokens_details is not None:
                self.cached = event.usage.prompt_tokens_details.cached_tokens or 0
        for choice in event.choices:
            more = bool(choice.token_ids or choice.said)
            if choice.index or (self.ended and (more or choice.finish_reason)):
                raise refuse_second()
            if more:
                self.tokens += choice.token_ids or ()
                self.texts.append(choice.said)
                self.pieces += 1
            if choice.finish_reason is not None:
                self.ended, self.reason = True, choice.finish_reason

    def add_all(self, events: Iterable[Event]) -> Answer:
        """Add events; most contain only the next token ids."""
        for event in events:
            if len(event.choices) == 1 and self.model and not (self.ended or event.usage or event.error):
                (choice,) = event.choices
                if choice.token_ids and choice.text is not None and not (choice.finish_reason or choice.index):
                    self.tokens += choice.token_ids
                    self.texts.append(choice.text)
                    self.pieces += 1
                    continue
            self.add(event)
        return self

    @property
    def text(self) -> str:
        return "".join(self.texts)


_REUSED = 2.0  # seconds after which the server may be closing an idle connection
_MANY = 16  # pieces stored before parsing, so that a long answer does not fill memory, or delay others at its end


class SilentError(Exception):
    """A stream that stalled or lasted for too long. ``between``: whether it stalled between two pieces."""

    def __init__(self, *, between: bool) -> None:
        super().__init__()
        self.between = between


class UnreachableError(Exception):
    """The address accepts no connection."""


class StatusError(Exception):
    """The server answered only with a status."""

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
    """A connection with one request at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._now = asyncio.get_running_loop().time
        self._transport: asyncio.Transport
        self._asked: asyncio.Future[Answer] | None = None
        self._on_first: Callable[[Answer], None] | None = None
        self._answer = Answer()
        self._parts: list[bytes] = []
        self._body: Body | None = None
        self._said = b""
        self._waits = False
        self._reads = 0
        self._seen = (0, 0)
        self.began = self.moved = 0.0
        self.open = True
        self.dropped = False  # the server closed it without notice, soon after an answer

    def ask(self, request: bytes, first: Callable[[Answer], None]) -> asyncio.Future[Answer]:
        """Send a request. ``first``: called with the answer once its first token has arrived."""
        self._asked = asyncio.get_running_loop().create_future()
        self._on_first, self._answer, self._body, self._said = first, Answer(), None, b""
        self._parts.clear()
        self.began = self.moved = self._now()
        self._transport.write(request)
        return self._asked

    def check(self, now: float) -> None:
        """End an answer that takes too long. Data since the last check counts as received now, which saves reading the
        clock for each piece."""
        seen = (self._reads, len(self._parts))
        if seen != self._seen:
            self._seen, self.moved = seen, now
        if now - self.moved > self._limits.idle:
            self._fail(SilentError(between=True))
        elif now - self.began > self._limits.total:
            self._fail(SilentError(between=False))

    def end(self) -> None:
        self.open = False
        self._transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is one, but not a subclass

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        # Most pieces contain the next token of a stream, and can wait. A shorter piece may be part of the end.
        if self._waits and len(self._parts) < _MANY and len(data) >= len(LAST_CHUNK) and not data.endswith(LAST_CHUNK):
            return
        if self._asked is None:
            self.end()  # not requested
            return
        try:
            self._read()
        except Exception as error:  # any error ends the answer
            self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        idle = self.open and self._asked is None
        self.dropped = idle and self.moved > 0 and self._now() - self.moved < _REUSED
        self.open = False
        if self._asked is None or self._asked.done():
            return
        try:
            self._read()
            if error is not None or self._body is None:
                raise ConnectionResetError(str(error or "without an answer"))
            if not self._body.whole:
                self._finish(self._body)
        except Exception as problem:
            self._fail(problem)

    def _read(self) -> None:
        """Read the data since the last call, and the end of the answer if it has arrived."""
        data = b"".join(self._parts)
        if self._body is None:
            head = read_head(data)
            if head is None:
                return
            self._body, data = Body(head), data[head.size :]
        self._parts.clear()
        self._reads += 1
        if self._body.head.status != 200:
            self._said += self._body.read(data)
        else:
            self._answer.add_all(self._body.read_events(data))
            self._report_first(self._body)
            self._refuse_excess()
        if self._body.whole:
            self._finish(self._body)

    def _report_first(self, body: Body) -> None:
        if self._on_first is not None and self._answer.pieces:
            on_first, self._on_first = self._on_first, None
            on_first(self._answer)
            self._waits = body.head.chunked

    def _refuse_excess(self) -> None:
        if max(self._answer.pieces, len(self._answer.tokens)) > self._limits.most:
            problem = f"the stream exceeds {self._limits.most} tokens, the requested maximum"
            raise HarnessError(problem, "backend", "check that the server obeys max_tokens")

    def _finish(self, body: Body) -> None:
        if body.head.status != 200:
            raise StatusError(body.head.status, self._said.decode(errors="replace"))
        assert self._asked is not None
        done, self._asked, self._waits = self._asked, None, False
        self.moved = self._now()
        if not body.head.kept:
            self.end()
        if not done.done():
            done.set_result(self._answer)

    def _fail(self, error: Exception) -> None:
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(error)
        self.end()


@dataclass(slots=True)
class Wires:
    """The connections to one replica. ``busy``: connections that wait for an answer; ``outstanding``: prompts in
    flight, also over other connections. If the server closes connections
    after an answer without notice, as llama.cpp's does, a new prompt may meet a closed connection; from then on no
    connection is reused."""

    url: str
    path: str
    headers: dict[str, str]
    limits: Limits
    outstanding: int = 0
    busy: set[Stream] = field(default_factory=set)
    _idle: list[Stream] = field(default_factory=list)
    _keeps: bool = True

    async def ask(self, body: bytes, first: Callable[[Answer], None]) -> Answer:
        """Send a request and return its answer. Raises connection errors, StatusError, SilentError, or HarnessError."""
        stream = self._take(asyncio.get_running_loop().time()) or await self._connect()
        self.busy.add(stream)
        try:
            return await stream.ask(self._make_request(body), first)
        except BaseException:
            stream.end()
            raise
        finally:
            self.busy.discard(stream)
            if stream.open and self._keeps:
                self._idle.append(stream)
            else:
                stream.end()

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
            self._keeps = self._keeps and not stream.dropped
            if self._keeps and stream.open and now - stream.moved < _REUSED:
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
            async with asyncio.timeout(self.limits.connect):  # Python 3.11's wait_for may swallow a cancellation
                _, stream = await made
        except (OSError, TimeoutError) as error:
            raise UnreachableError(str(error) or f"no connection within {self.limits.connect:g} s") from error
        return stream

    def _make_request(self, body: bytes) -> bytes:
        at = urlsplit(self.url)
        said = {"Host": at.netloc.rpartition("@")[2], **self.headers, "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        return f"POST {at.path}{self.path} HTTP/1.1\r\n{lines}\r\n".encode() + body


# Framing of a server's answers, from bytes to events: the HTTP head of an answer, its chunks, and the lines of a
# stream.
#
# Nearly all chunks of a stream contain one event each. They are split and decoded together, and each is checked against
# its declared size; anything else is read chunk by chunk and line by line.

LAST_CHUNK = b"0\r\n\r\n"
_LINE = b"\r\n"
_END = b"\r\n\r\n"
_BEGINS, _ENDS = b"\r\ndata: ", b"\n\n\r\n"  # the bytes around the event in a chunk
_DONE = b"e\r\ndata: [DONE]"


@dataclass(frozen=True, slots=True)
class Head:
    """Head of an answer. ``size``: bytes of the head. ``length``: bytes of the body; -1 if chunks or the end of the
    connection delimit it."""

    status: int
    size: int
    length: int
    chunked: bool
    kept: bool


def read_head(data: bytes) -> Head | None:
    """Parse the head; None while it is incomplete. Raises HarnessError if this is not HTTP."""
    end = data.find(_END)
    if end < 0:
        return None
    status, *lines = data[:end].split(_LINE)
    words = status.split(b" ", 2)
    if not words[0].startswith(b"HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        raise HarnessError(f"not an HTTP response: {status[:80].decode(errors='replace')}", "backend")
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
    """Body of an answer, as it arrives. ``whole``: its end has arrived."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.whole = head.length == 0 and not head.chunked
        self._left = head.length
        self._rest = b""  # start of an incomplete chunk
        self._line = b""  # start of an incomplete line
        self._closed = False

    def read_events(self, data: bytes) -> list[Event]:
        """Read the events that ``data`` completes. Raises HarnessError for anything else, or for data after the closing
        event."""
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
        """Read the content without its framing."""
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
                problem = "a chunk has the wrong length"
                raise HarnessError(problem, "backend", "check for a proxy in front of the server")
            found.append(data[start:stop])
            place = stop + len(_LINE)
        self._rest = data[place:]
        return b"".join(found)


def _read_regular(data: bytes) -> tuple[list[Event], bytes]:
    """Return the events of complete chunks with one each, and the rest; no events if any chunk differs."""
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
    """The beginning of a chunk with one event, by its length without ``_ENDS``."""

    def __missing__(self, length: int) -> bytes:
        digits = (b"%x" % (length - count) for count in range(1, 9) if length > count)
        found = next((size for size in digits if int(size, 16) + len(size) == length), b"")
        self[length] = found + _BEGINS
        return self[length]


_BEGINNINGS = _Beginnings()
