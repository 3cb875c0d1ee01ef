"""What a server sends: the events of a stream, or one document; read no further than a run must."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from harness.errors import HarnessError

_DATA, _DONE = b"data:", b"[DONE]"


class Piece(msgspec.Struct):
    """A message of the chat protocol, or the next part of one."""

    content: str | None = None


class Choice(msgspec.Struct):
    """The next part of an answer. ``token_ids``: vLLM's ``return_token_ids``, and trtllm-serve's without text."""

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


class Usage(msgspec.Struct):
    completion_tokens: int = 0


class Event(msgspec.Struct):
    """One event of a stream, or a whole answer."""

    choices: list[Choice] = []
    usage: Usage | None = None
    model: str = ""
    error: Any = None


_DECODER = msgspec.json.Decoder(Event)


def decode_event(data: bytes) -> Event:
    """Raises HarnessError for what is no answer."""
    try:
        event = _DECODER.decode(data)
    except msgspec.DecodeError as error:
        shown = data[:80].decode(errors="replace")
        raise HarnessError(f"not an answer of the OpenAI protocol ({error}): {shown}", "backend") from error
    if event.error is not None:
        raise HarnessError(f"the server says: {str(event.error)[:300]}", "backend")
    return event


@dataclass(slots=True)
class Answer:
    """One answer as it comes. ``ended``: a reason was given, after which nothing may follow but how many tokens it
    were."""

    tokens: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    pieces: int = 0
    counted: int = 0
    ended: bool = False
    model: str = ""

    def add(self, event: Event) -> bool:
        """Whether the event brought tokens. Raises HarnessError where the server answers twice."""
        self.model = self.model or event.model
        if event.usage is not None:
            self.counted = event.usage.completion_tokens
        brought = False
        for choice in event.choices:
            more = bool(choice.token_ids or choice.said)
            if choice.index or (self.ended and (more or choice.finish_reason)):
                raise HarnessError("the server answered twice", "backend", "see its log; it was asked for one answer")
            if more:
                self.tokens += choice.token_ids or ()
                self.texts.append(choice.said)
                self.pieces += 1
                brought = True
            self.ended = self.ended or choice.finish_reason is not None
        return brought

    @property
    def text(self) -> str:
        return "".join(self.texts)


@dataclass(slots=True)
class EventReader:
    """Cuts a stream of server-sent events into what follows ``data:``. ``done``: the closing event came."""

    done: bool = False
    _rest: bytes = b""

    def read(self, chunk: bytes) -> list[bytes]:
        """The events that are complete now. Raises HarnessError for one after the closing one."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        found = []
        for line in lines:
            if not line.startswith(_DATA):
                continue  # comments keep connections alive; other fields mean nothing here
            data = line[len(_DATA) :].strip()
            if self.done:
                raise HarnessError("the server answered twice", "backend", "see its log; it was asked for one answer")
            if data == _DONE:
                self.done = True
            else:
                found.append(data)
        return found
