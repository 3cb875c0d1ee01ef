"""A web server on the loopback interface that behaves as a test asks: files, and what goes wrong with them."""

from __future__ import annotations

import hashlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class Behaviour:
    """``ranges``: whether parts are sent; ``tagged``: whether files have an entity tag. ``cut``: request number → bytes
    after which the connection ends; ``stall``: bytes after which nothing more comes. ``answers``: path → statuses with
    their headers to give first, one a request. ``redirects``: path → where to. ``drip``: seconds between two bytes.
    ``shift``: how far behind the byte that was asked for a part begins; ``total``: the size that parts report all."""

    files: dict[str, bytes]
    ranges: bool = True
    tagged: bool = True
    sized: bool = True
    cut: dict[int, int] = field(default_factory=dict)
    stall: dict[int, int] = field(default_factory=dict)
    drip: dict[int, float] = field(default_factory=dict)
    shift: int = 0
    total: int | None = None
    answers: dict[str, list[tuple[int, dict[str, str]]]] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)  # path, Range, If-Range
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tag(self, path: str) -> str:
        return f'"{hashlib.sha256(self.files[path]).hexdigest()[:12]}"'


class _Handler(BaseHTTPRequestHandler):
    behaviour: Behaviour

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Tests print nothing."""

    def do_GET(self) -> None:
        behaviour = self.behaviour
        asked_range, condition = self.headers.get("Range", ""), self.headers.get("If-Range", "")
        with behaviour.lock:
            number = len(behaviour.asked)
            behaviour.asked.append((self.path, asked_range, condition))
            waiting = behaviour.answers.get(self.path, [])
            answer = waiting.pop(0) if waiting else None
        if answer is not None:
            self._send(answer[0], answer[1], b"")
        elif self.path in behaviour.redirects:
            self._send(302, {"Location": behaviour.redirects[self.path]}, b"")
        elif self.path not in behaviour.files:
            self._send(404, {}, b"")
        else:
            self._give(behaviour.files[self.path], asked_range, condition, number)

    def _give(self, data: bytes, asked_range: str, condition: str, number: int) -> None:
        behaviour, headers, status = self.behaviour, dict[str, str](), 200
        if behaviour.tagged:
            headers["ETag"] = behaviour.tag(self.path)
        found = re.fullmatch(r"bytes=(\d+)-", asked_range)
        if behaviour.ranges and found and condition in ("", headers.get("ETag", "")):
            start = int(found[1])
            if start >= len(data):
                self._send(416, {"Content-Range": f"bytes */{len(data)}"}, b"")
                return
            start, total = start + behaviour.shift, len(data) if behaviour.total is None else behaviour.total
            status, headers["Content-Range"] = 206, f"bytes {start}-{len(data) - 1}/{total}"
            data = data[start:]
        if number in behaviour.drip:
            self._drip(status, headers, data, behaviour.drip[number])
        else:
            self._send(status, headers, data, behaviour.cut.get(number), behaviour.stall.get(number))

    def _drip(self, status: int, headers: dict[str, str], data: bytes, pause: float) -> None:
        self._send(status, {**headers, "Content-Length": str(len(data))}, b"")
        with suppress(OSError):  # who asked has given up
            for byte in data:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                self.behaviour.released.wait(pause)

    def _send(
        self, status: int, headers: dict[str, str], data: bytes, cut: int | None = None, stall: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.behaviour.sized and "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        short = cut if cut is not None else stall
        self.wfile.write(data if short is None else data[:short])
        self.wfile.flush()
        if stall is not None:
            self.behaviour.released.wait(30)


@contextmanager
def serve(behaviour: Behaviour) -> Iterator[str]:
    """Gives its address."""
    handler = type("Handler", (_Handler,), {"behaviour": behaviour})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        behaviour.released.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def serve_endlessly(head: bytes, again: bytes) -> Iterator[str]:
    """Anyone who asks is sent ``head``, and then ``again`` until they go away. ``{port}`` in it is this server's."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]

    def talk(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(head.replace(b"{port}", str(port).encode()))
            while again:
                connection.sendall(again)
                if len(again) == 1:
                    time.sleep(0.02)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listening.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)
