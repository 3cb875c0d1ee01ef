"""Parse a server's answers, the events of a stream or one document, as far as a run needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harness.errors import HarnessError

_DATA, _DONE = b"data:", b"[DONE]"


class Piece(msgspec.Struct, gc=False):
    """A message of the chat protocol, or the next part of one."""

    content: str | None = None


class Choice(msgspec.Struct, gc=False):
    """The next part of an answer. ``token_ids``: returned by vLLM and SGLang for ``return_token_ids``, and by
    trtllm-serve in place of text for ``detokenize: false``."""

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
    """``cached_tokens``: the prompt's tokens whose computation was reused from another prompt."""

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
    closed = bool(found) and found[-1].strip() == _DONE
    if closed:
        found.pop()
    try:
        return DECODER.decode_lines(b"\n".join(found)), closed
    except msgspec.DecodeError:
        if any(data.strip() == _DONE for data in found):
            raise refuse_second() from None
        return [decode_event(data.strip()) for data in found], closed  # one of them raises the error


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

    def add(self, event: Event) -> bool:
        """Add an event; return True if it contained tokens. Raises HarnessError if the server answers twice or reports
        an error."""
        if event.error is not None:
            raise HarnessError(f"the server says: {str(event.error)[:300]}", "backend")
        self.model = self.model or event.model
        if event.usage is not None:
            self.counted = event.usage.completion_tokens or 0
            if event.usage.prompt_tokens_details is not None:
                self.cached = event.usage.prompt_tokens_details.cached_tokens or 0
        brought = False
        for choice in event.choices:
            more = bool(choice.token_ids or choice.said)
            if choice.index or (self.ended and (more or choice.finish_reason)):
                raise refuse_second()
            if more:
                self.tokens += choice.token_ids or ()
                self.texts.append(choice.said)
                self.pieces += 1
                brought = True
            if choice.finish_reason is not None:
                self.ended, self.reason = True, choice.finish_reason
        return brought

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
