"""A persistent connection to a server; the caller waits for each answer."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_DIGITS = 18
_END = b"\r\n\r\n"
_PIECE = 1 << 16
_LONGEST_MESSAGE = 64 << 20  # bytes of a server's description
_MOST_ANSWERED = 1 << 32  # bytes of an answer: a batch of images has some hundred million


@dataclass(frozen=True, slots=True)
class InferenceAnswer:
    """``document``: the JSON part, or all of it; ``data``: the bytes after it, valid until the next request."""

    status: int
    document: bytes
    data: memoryview


class Connection:
    """Not thread-safe."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._address, self._timeout = (host, port), timeout
        self._socket: socket.socket | None = None
        self._memory = bytearray(_PIECE)

    def ask(self, head: bytes, arrays: Sequence[np.ndarray]) -> InferenceAnswer:
        """Send a request. Raises OSError (also if the server closes the connection), or ValueError for invalid HTTP."""
        reused = self._socket is not None
        try:
            return self._exchange(head, arrays)
        except ConnectionError:
            self.close()
            if not reused:
                raise
        # An idle connection may have been closed; repeating the request has no side effects.
        return self._exchange(head, arrays)

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def _exchange(self, head: bytes, arrays: Sequence[np.ndarray]) -> InferenceAnswer:
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, self._timeout)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _send(self._socket, [memoryview(head), *(array.data.cast("B") for array in arrays if array.nbytes)])
            return self._receive(self._socket)
        except BaseException:
            self.close()
            raise

    def _receive(self, source: socket.socket) -> InferenceAnswer:
        filled, end = 0, -1
        while end < 0:
            if filled == len(self._memory):
                raise ValueError("not an HTTP response: incomplete header")
            filled += self._read(source, filled, len(self._memory))
            end = self._memory.find(_END, 0, filled)
        end += len(_END)
        status, fields = read_head(bytes(self._memory[:end]))
        whole = end + read_size(fields, "content-length", 0, _MOST_ANSWERED)
        if len(self._memory) < whole:  # a reference to the last answer keeps its memory alive
            self._memory = self._memory[:filled] + bytearray(whole - filled)
        while filled < whole:
            filled += self._read(source, filled, whole)
        if fields.get("connection", "").lower() == "close":
            self.close()
        split = end + read_size(fields, "inference-header-content-length", whole - end, whole - end)
        view = memoryview(self._memory)
        return InferenceAnswer(status, bytes(view[end:split]), view[split:whole])

    def _read(self, source: socket.socket, start: int, end: int) -> int:
        count = source.recv_into(memoryview(self._memory)[start:end])
        if not count:
            raise ConnectionResetError("the server closed the connection")
        return count


def read_head(data: bytes) -> tuple[int, dict[str, str]]:
    """Return the status and header fields of an answer. Raises ValueError for invalid HTTP."""
    first, *lines = data.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        raise ValueError(f"not an HTTP response: {first[:80]}")
    pairs = (line.partition(":") for line in lines if line)
    return int(words[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


def read_size(fields: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Read the size in a header field. Raises ValueError for an impossible size, which could not be allocated."""
    text = fields.get(name, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) <= most):
        raise ValueError(f"the server says {name}: {text[:40]}")
    return int(text) if text else default


def _send(target: socket.socket, parts: list[memoryview]) -> None:
    while parts:
        sent = target.sendmsg(parts)
        while parts and sent >= parts[0].nbytes:
            sent -= parts.pop(0).nbytes
        if sent:
            parts[0] = parts[0][sent:]


def get(host: str, port: int, path: str, timeout: float) -> tuple[int, str]:
    """Return the status and text. Raises OSError."""
    return _ask(host, port, "GET", path, None, timeout)


def _ask(host: str, port: int, method: str, path: str, body: str | None, timeout: float) -> tuple[int, str]:
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read(_LONGEST_MESSAGE + 1)
        if len(content) > _LONGEST_MESSAGE:
            raise ConnectionError(f"an answer of more than {_LONGEST_MESSAGE:,} bytes")
        return answer.status, content.decode(errors="replace")
    except http.client.HTTPException as error:
        raise ConnectionError(f"not an HTTP response: {error}") from error
    finally:
        connection.close()


def post(host: str, port: int, path: str, document: object, timeout: float) -> tuple[int, str]:
    """Return the status and text. Raises OSError."""
    return _ask(host, port, "POST", path, json.dumps(document), timeout)


def read_problem(document: bytes) -> str:
    """Read the error message in a server's answer."""
    try:
        found: Any = json.loads(document)
        return str(found["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return document[:300].decode(errors="replace").strip()
