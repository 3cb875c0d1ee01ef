"""Streams as bytes: however they are cut, framed and ended, the answer is the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from harness.backends.openai.wire import Answer, Limits, SilentError, Stream, Wires, read_events
from harness.errors import HarnessError

LIMITS = Limits(most=4, total=20.0, idle=20.0, connect=20.0)
Replies = Sequence[tuple[bytes, ...]]


def event(*tokens: int, reason: str | None = None) -> bytes:
    choice = {"index": 0, "text": "", "token_ids": list(tokens), "finish_reason": reason}
    return b"data: " + json.dumps({"model": "tiny", "choices": [choice]}).encode() + b"\n\n"


EVENTS = (event(1), event(2, 3), event(4, reason="length"), b"data: [DONE]\n\n")


def chunked(*events: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(item), item) for item in events) + b"0\r\n\r\n"


def sized(*events: bytes) -> bytes:
    body = b"".join(events)
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def closing(*events: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"".join(events)


class Scripted:
    """Answers each request with the next reply, part by part, then closes where the reply says so."""

    def __init__(self, replies: Replies) -> None:
        self.asked: list[bytes] = []
        self.connections: list[asyncio.StreamWriter] = []
        self._replies = list(replies)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        while self._replies:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            self.asked.append(head + await reader.readexactly(length))
            reply = self._replies.pop(0)
            for part in reply:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            if b"Transfer-Encoding" not in b"".join(reply) and b"content-length" not in b"".join(reply):
                break
        writer.close()


def asking(
    replies: Replies, use: Callable[[Wires, Scripted], Coroutine[Any, Any, Any]], limits: Limits = LIMITS
) -> Any:
    async def run() -> Any:
        script = Scripted(replies)
        server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            wires = Wires(f"http://127.0.0.1:{port}/prefix", "/v1/completions", {"Authorization": "Bearer x"}, limits)
            try:
                return await use(wires, script)
            finally:
                wires.close()
                for writer in script.connections:
                    writer.close()
                    with suppress(OSError):
                        await writer.wait_closed()

    return asyncio.run(run())


def ask_once(*parts: bytes, limits: Limits = LIMITS) -> tuple[Answer, list[list[int]]]:
    """The answer, and what was reported first."""
    firsts: list[list[int]] = []

    async def use(wires: Wires, _script: Scripted) -> Answer:
        return await wires.ask(b"{}", lambda answer: firsts.append(list(answer.tokens)))

    return asking([parts], use, limits), firsts


@pytest.mark.parametrize("frame", [chunked, sized, closing])
@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_answer_is_whole_however_it_is_cut(size: int, frame: Callable[..., bytes]) -> None:
    data = frame(*EVENTS)
    answer, firsts = ask_once(*(data[at : at + size] for at in range(0, len(data), size)))
    assert answer.tokens == [1, 2, 3, 4]
    assert [tokens[:1] for tokens in firsts] == [[1]]


def test_connection_is_kept_for_the_next_prompt_and_says_who_asks() -> None:
    async def use(wires: Wires, script: Scripted) -> tuple[int, list[bytes]]:
        for _ in range(3):
            await wires.ask(b'{"prompt": [1]}', lambda _: None)
        return len(script.connections), script.asked

    connections, asked = asking([(chunked(*EVENTS),), (sized(*EVENTS),), (closing(*EVENTS),)], use)
    assert connections == 1
    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /prefix/v1/completions HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Authorization: Bearer x" in head.split(b"\r\n")
    assert body == b'{"prompt": [1]}'


def test_no_connection_is_used_twice_where_the_server_drops_them_without_a_word() -> None:
    """As llama.cpp's does after a stream: the next prompt could meet the closing one."""

    async def use(wires: Wires, script: Scripted) -> int:
        await wires.ask(b"{}", lambda _: None)
        script.connections[0].close()
        await asyncio.sleep(0.05)
        for _ in range(3):
            await wires.ask(b"{}", lambda _: None)
        return len(script.connections)

    assert asking([(chunked(*EVENTS),)] * 4, use) == 4


def test_stream_that_goes_on_is_ended() -> None:
    endless = (chunked(*EVENTS[:2])[: -len(b"0\r\n\r\n")], *(b"%x\r\n%s\r\n" % (len(event(9)), event(9)),) * 200)
    with pytest.raises(HarnessError, match="the stream exceeds 4 tokens"):
        ask_once(*endless)


@pytest.mark.parametrize("extra", [event(5), event(5, reason="stop")])
@pytest.mark.parametrize("place", [3, 4])
def test_anything_after_the_end_is_a_second_answer(extra: bytes, place: int) -> None:
    events = [*EVENTS[:place], extra, *EVENTS[place:]]
    with pytest.raises(HarnessError, match="the server sent two answers"):
        ask_once(chunked(*events))


def test_events_that_are_none_are_shown() -> None:
    with pytest.raises(HarnessError, match=r"not an answer of the OpenAI protocol .*: \{oops"):
        ask_once(chunked(event(1), b"data: {oops\n\n"))
    with pytest.raises(HarnessError, match="the server says: device lost"):
        ask_once(chunked(event(1), b'data: {"error": "device lost"}\n\n'))
    with pytest.raises(HarnessError, match=r"not an HTTP response: SSH-2\.0"):
        ask_once(b"SSH-2.0\r\n\r\n")


@pytest.mark.parametrize("parts", [(), (b"HTTP/1.1 200 OK\r\nTransfer-",)])
def test_connection_that_breaks_before_an_answer_is_an_error(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(ConnectionError):
        ask_once(*parts)


@pytest.mark.parametrize(("limits", "between"), [(Limits(4, 20, 0.0, 20), True), (Limits(4, 0.0, 20, 20), False)])
def test_silence_is_ended_by_who_watches(limits: Limits, between: bool) -> None:
    async def use(wires: Wires, _script: Scripted) -> None:
        asked = asyncio.create_task(wires.ask(b"{}", lambda _: None))
        while not asked.done():
            await asyncio.sleep(0.01)
            wires.check(asyncio.get_running_loop().time())
        await asked

    with pytest.raises(SilentError) as caught:
        asking([(chunked(*EVENTS)[:-5],), ()], use, limits)  # waits for another prompt, and keeps the connection
    assert caught.value.between is between


def test_first_token_is_reported_before_the_others_come() -> None:
    async def use(wires: Wires, script: Scripted) -> None:
        reported = asyncio.Event()
        asked = asyncio.create_task(wires.ask(b"{}", lambda _: reported.set()))
        await reported.wait()
        assert not asked.done()
        asked.cancel()

    asking([(chunked(EVENTS[0])[:-5],), ()], use)


@pytest.mark.parametrize("turns", range(5))
def test_prompt_that_is_given_up_while_its_connection_is_made_ends(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``turns`` of the event loop after it is made."""
    make = Stream.connection_made

    async def use(wires: Wires, _script: Scripted) -> None:
        def cancel_after(left: int) -> None:
            if left:
                asyncio.get_running_loop().call_soon(cancel_after, left - 1)
            else:
                asked.cancel()

        def see(stream: Stream, transport: asyncio.BaseTransport) -> None:
            make(stream, transport)
            cancel_after(turns)

        monkeypatch.setattr(Stream, "connection_made", see)
        asked = asyncio.create_task(wires.ask(b"{}", lambda _: None))
        with pytest.raises(asyncio.CancelledError):
            await asked

    asking([(chunked(*EVENTS),)], use)


ODD = {
    "a comment": (b": still here\n\n", event(7)),
    "a pair in a chunk": (event(7) + event(8),),
    "an event in two chunks": (event(7)[:30], event(7)[30:]),
    "an end of its own": (event(7)[:-1], b"\n"),
    "no space": (event(7).replace(b"data: ", b"data:"),),
    "a field without a meaning": (b"id: 3\n" + event(7),),
}


@pytest.mark.parametrize("size", [0, 1, 300])
@pytest.mark.parametrize("odd", ODD)
def test_no_token_is_lost_where_a_stream_is_not_regular(odd: str, size: int) -> None:
    """``size``: bytes of a read; 0 for a chunk each."""
    pieces = [*(event(number) for number in range(20)), *ODD[odd], *(event(number) for number in range(20, 40))]
    pieces += [event(40, reason="length"), b"data: [DONE]\n\n"]
    data = chunked(*pieces)
    reads = [data[at : at + size] for at in range(0, len(data), size)] if size else _cut_chunks(data)
    answer, firsts = ask_once(*reads, limits=replace(LIMITS, most=50))
    between = [7, 8] if "pair" in odd else [7]
    assert answer.tokens == [*range(20), *between, *range(20, 41)]
    assert answer.pieces == len(answer.tokens)
    assert firsts == [[0]] if size < 2 else len(firsts) == 1


def _cut_chunks(data: bytes) -> list[bytes]:
    return [piece + b"\n\r\n" for piece in data.split(b"\n\r\n")[:-1]] + [b"0\r\n\r\n"]


def test_chunk_of_another_size_than_it_says_is_no_answer() -> None:
    wrong = b"%x\r\n%s\r\n" % (len(event(2)) - 1, event(2))
    with pytest.raises(HarnessError, match="a chunk has the wrong length"):
        ask_once(chunked(event(1))[: -len(b"0\r\n\r\n")] + wrong + chunked(*EVENTS[2:]).partition(b"\r\n\r\n")[2])


USAGE = {"prompt_tokens": 3, "total_tokens": 6, "completion_tokens": 3}


def sglang(text: str, tokens: list[int], reason: str | None = None, **more: Any) -> dict[str, Any]:
    """CompletionStreamResponse of python/sglang/srt/entrypoints/openai/protocol.py."""
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason, "matched_stop": None}
    head = {"id": "5f", "object": "text_completion", "created": 1, "model": "tiny", "usage": None}
    return {**head, "choices": [{**choice, "token_ids": tokens, **more}]}


def trtllm(tokens: list[int], reason: str | None = None) -> dict[str, Any]:
    """CompletionStreamResponse of tensorrt_llm/serve/openai_protocol.py, for ``detokenize: false``."""
    choice = {"index": 0, "text": "", "token_ids": tokens, "logprobs": None, "finish_reason": reason}
    more = {"stop_reason": None, "avg_decoded_tokens_per_iter": 1.0}
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "tiny", "usage": None}
    return {**head, "choices": [{**choice, **more}]}


def llama_cpp(text: str, reason: str | None = None, **more: Any) -> dict[str, Any]:
    """Of tools/server: the last event has the times of the answer next to its usage."""
    choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
    return {"choices": [choice], "created": 1, "model": "tiny", "object": "text_completion", "id": "c", **more}


def read(*events: dict[str, Any]) -> Answer:
    lines = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    found, closed = read_events(lines + b"data: [DONE]\n\n")
    assert closed
    return Answer().add_all(found)


def usage_event(**usage: Any) -> dict[str, Any]:
    return {"id": "1", "object": "text_completion", "created": 1, "model": "tiny", "choices": [], "usage": usage}


STREAMS = {
    "sglang": (
        sglang(" a", [5], prompt_token_ids=[1, 2, 3]),
        sglang("", []),
        sglang(" b c", [6, 7]),
        sglang("", [], "stop", matched_stop=2),
        usage_event(**USAGE, prompt_tokens_details=None, reasoning_tokens=0),
    ),
    "trtllm-serve": (
        trtllm([5]),
        trtllm([6, 7]),
        trtllm([], "length"),
        usage_event(**USAGE, prompt_tokens_details={"cached_tokens": 0}),
    ),
    "llama.cpp": (
        llama_cpp(" a"),
        llama_cpp(" b c"),
        llama_cpp("", "length", usage=USAGE, timings={"predicted_n": 3, "predicted_ms": 0.5}),
    ),
}


@pytest.mark.parametrize("server", STREAMS)
def test_stream_of_a_server_is_read_whole(server: str) -> None:
    answer = read(*STREAMS[server])
    assert answer.ended
    assert answer.reason in ("stop", "length")
    assert answer.counted == 3
    assert answer.tokens == ([] if server == "llama.cpp" else [5, 6, 7])
    assert answer.text == ("" if server == "trtllm-serve" else " a b c")


def test_error_within_a_stream_is_reported() -> None:
    """How SGLang ends a stream whose request it aborts with a status."""
    error = {"error": {"object": "error", "message": "KV cache is full", "type": "SERVICE_UNAVAILABLE", "code": 503}}
    with pytest.raises(HarnessError, match="KV cache is full"):
        read(sglang(" a", [5]), error)
