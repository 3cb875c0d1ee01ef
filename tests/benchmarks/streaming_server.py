"""A server of the OpenAI protocol that computes nothing: ``python -m tests.benchmarks.streaming_server TOKENS RATE``.

Each answer has TOKENS tokens, an event each, as vLLM writes them. RATE: tokens/s over all streams; every stream is
written to in turn. It prints its port. ``GET /times`` gives, for each prompt by its first token, when its request came
and when its first token left (CLOCK_MONOTONIC, ns).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque

MODEL = "stand-in"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n"
_TICK = 0.001  # seconds
_TOKEN = 128_000  # any


def cut(data: bytes) -> bytes:
    """One chunk of a body whose length nobody knows."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def write_event(**part: object) -> bytes:
    said = {"id": "cmpl-0123456789abcdef", "object": "text_completion", "created": 1_750_000_000, "model": MODEL}
    return cut(b"data: " + json.dumps({**said, **part}, separators=(",", ":")).encode() + b"\n\n")


def write_choice(reason: str | None) -> bytes:
    choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": reason, "stop_reason": None}
    return write_event(choices=[{**choice, "prompt_token_ids": None, "token_ids": [_TOKEN]}])


class Streams:
    """Those under way. ``due``: each with what is left of its answer."""

    def __init__(self, tokens: int, rate: float) -> None:
        self.tokens, self.rate = tokens, rate
        self.times: dict[int, list[int]] = {}
        self.due: deque[tuple[asyncio.WriteTransport, int, int]] = deque()
        self._piece = write_choice(None)
        usage = write_event(choices=[], usage={"completion_tokens": tokens})
        self._end = write_choice("length") + usage + cut(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        self._start = _HEAD % (b"text/event-stream", b"Transfer-Encoding: chunked\r\n")

    async def run(self) -> None:
        """What a tick allows; what it could not do is not made up for."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            for _ in range(min(len(self.due), round(self.rate * min(now - last, 0.1)))):
                self._write_next()
            last = now

    def _write_next(self) -> None:
        transport, prompt, sent = self.due.popleft()
        if transport.is_closing():
            return
        data = self._end if sent == self.tokens - 1 else self._piece
        if sent == 0:
            self.times[prompt].append(time.monotonic_ns())
            data = self._start + data
        transport.write(data)
        if sent < self.tokens - 1:
            self.due.append((transport, prompt, sent + 1))


class Connection(asyncio.Protocol):
    """One client connection; requests come one after the other."""

    def __init__(self, streams: Streams) -> None:
        self._streams, self._data = streams, b""
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.lower().split(b"\r\n")
        length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
        if len(body) < length:
            return
        self._data = body[length:]
        if head.startswith(b"POST"):
            prompt = json.loads(body[:length])["prompt"][0]
            self._streams.times[prompt] = [time.monotonic_ns()]
            self._streams.due.append((self._transport, prompt, 0))
        else:
            times = head.startswith(b"GET /times")
            self._send(self._streams.times if times else {"data": [{"id": MODEL}], "version": "0"})

    def _send(self, document: object) -> None:
        data = json.dumps(document).encode()
        self._transport.write(_HEAD % (b"application/json", b"Content-Length: %d\r\n" % len(data)) + data)


async def serve(tokens: int, rate: float) -> None:
    streams = Streams(tokens, rate)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(streams), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await streams.run()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
