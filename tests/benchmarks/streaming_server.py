"""A server of the OpenAI protocol that computes nothing: ``python -m tests.benchmarks.streaming_server TOKENS RATE``.

An answer has from 2 to 2 * TOKENS tokens, TOKENS on average, with one event and packet per token, like vLLM's. Their
bytes are prepared in advance. RATE: tokens/s over all streams, which are written in turn. It prints its port. ``GET
/times`` returns its processor time and, for each prompt by its first token, when the request arrived and when its first
token left (CLOCK_MONOTONIC, ns).
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections import deque

MODEL = "stand-in"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n"
_TICK = 0.001  # seconds
_TOKEN = 128_000  # any


def cut(data: bytes) -> bytes:
    """Return one chunk of a body of unknown length."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def write_event(**part: object) -> bytes:
    said = {"id": "cmpl-0123456789abcdef", "object": "text_completion", "created": 1_750_000_000, "model": MODEL}
    return cut(b"data: " + json.dumps({**said, **part}, separators=(",", ":")).encode() + b"\n\n")


def write_choice(reason: str | None) -> bytes:
    choice = {"index": 0, "text": " the", "logprobs": None, "finish_reason": reason, "stop_reason": None}
    return write_event(choices=[{**choice, "prompt_token_ids": None, "token_ids": [_TOKEN]}], usage=None)


def choose_length(prompt: int, tokens: int) -> int:
    """Choose the length of an answer. All lengths are equally frequent, so that answers end one by one."""
    return 2 + prompt * 97 % (2 * tokens - 1)


class Stream:
    """One connection, with one request at a time; ``left``: tokens of the answer that are still to be sent."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a packet for each token
        self.send, self._receive = connection.sendall, connection.recv
        self._data = b""
        self.prompt = self.length = self.left = 0

    def read(self) -> tuple[bytes, bytes] | None:
        """Return head and body of a complete request. Raises ConnectionError if the client closed the connection."""
        came = self._receive(1 << 16)
        if not came:
            raise ConnectionResetError
        self._data += came
        head, found, body = self._data.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
        if not found or len(body) < length:
            return None
        self._data = body[length:]
        return head, body[:length]


class Server:
    """``due``: the active streams."""

    def __init__(self, tokens: int, rate: float) -> None:
        self._tokens, self._rate = tokens, rate
        self._times: dict[int, list[int]] = {}
        self._due: deque[Stream] = deque()
        self._piece = write_choice(None)
        usage = write_event(choices=[], usage={"completion_tokens": tokens})  # no one reads it where ids come
        self._end = write_choice("length") + usage + cut(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        self._start = _HEAD % (b"text/event-stream", b"Transfer-Encoding: chunked\r\n") + self._piece
        self._streams: dict[int, Stream] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._poller = select.epoll()
        self._poller.register(self._listener, select.EPOLLIN)
        self.port = self._listener.getsockname()[1]

    def run(self) -> None:
        """Send what time allows. Delays are not made up for."""
        last = time.monotonic()
        while True:
            for descriptor, _ in self._poller.poll(_TICK, 64):  # few, so that no stream waits long for the others
                self._receive_all(descriptor)
            now = time.monotonic()
            for _ in range(min(len(self._due), round(self._rate * min(now - last, 0.1)))):
                stream = self._due.popleft()
                try:
                    self._write(stream)
                except ConnectionError:
                    continue
            last = now

    def _receive_all(self, descriptor: int) -> None:
        if descriptor == self._listener.fileno():
            connection, _ = self._listener.accept()
            self._streams[connection.fileno()] = Stream(connection)
            self._poller.register(connection, select.EPOLLIN)
            return
        stream = self._streams[descriptor]
        try:
            request = stream.read()
        except ConnectionError:
            self._poller.unregister(descriptor)
            del self._streams[descriptor]
            return
        if request is not None:
            self._answer(stream, *request)

    def _answer(self, stream: Stream, head: bytes, body: bytes) -> None:
        if head.startswith(b"POST"):
            stream.prompt = json.loads(body)["prompt"][0]
            stream.length = stream.left = choose_length(stream.prompt, self._tokens)
            self._times[stream.prompt] = [time.monotonic_ns()]
            self._due.append(stream)
            return
        models = {"data": [{"id": MODEL}], "version": "0"}
        times = {"busy": time.process_time(), "times": self._times}
        data = json.dumps(times if head.startswith(b"GET /times") else models).encode()
        stream.send(_HEAD % (b"application/json", b"Content-Length: %d\r\n" % len(data)) + data)

    def _write(self, stream: Stream) -> None:
        if stream.left == stream.length:
            self._times[stream.prompt].append(time.monotonic_ns())
            stream.send(self._start)
        else:
            stream.send(self._piece if stream.left > 1 else self._end)
        stream.left -= 1
        if stream.left:
            self._due.append(stream)


if __name__ == "__main__":
    server = Server(int(sys.argv[1]), float(sys.argv[2]))
    print(server.port, flush=True)
    server.run()
