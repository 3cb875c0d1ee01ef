"""Connections whose server must get on: what answers a byte at a time, or talks without end, is given up.

A timeout of a socket begins anew with each byte. The standard library reads the head of an answer, the length of a
chunk and what follows the last one to their ends, whatever they hold, before it gives anything back.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.request
from functools import partial
from typing import Any

from msgspec import Struct


class Patience(Struct):
    """``seconds`` for each step of an exchange; a step is what the standard library does on its own."""

    seconds: float
    _until: float = 0.0

    def begin_step(self) -> None:
        self._until = time.monotonic() + self.seconds

    def check(self) -> None:
        """Raises TimeoutError."""
        if time.monotonic() > self._until:
            raise TimeoutError


class _PatientBytes(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, patience: Patience) -> None:
        self._raw, self._patience = raw, patience

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._patience.check()
        return self._raw.readinto(buffer)

    def fileno(self) -> int:
        return self._raw.fileno()

    def close(self) -> None:
        self._raw.close()
        super().close()


class _PatientAnswer(http.client.HTTPResponse):
    def __init__(self, patience: Patience, connected: socket.socket, *arguments: Any, **more: Any) -> None:
        super().__init__(connected, *arguments, **more)
        self.fp = io.BufferedReader(_PatientBytes(self.fp.detach(), patience))


class _PatientHandler(urllib.request.AbstractHTTPHandler):
    def __init__(self, patience: Patience) -> None:
        super().__init__()
        self._patience = patience

    def do_open(self, http_class: Any, req: urllib.request.Request, **given: Any) -> http.client.HTTPResponse:
        def connect(host: str, /, **more: Any) -> http.client.HTTPConnection:
            connection: http.client.HTTPConnection = http_class(host, **more)
            connection.response_class = partial(_PatientAnswer, self._patience)  # type: ignore[assignment]
            return connection

        return super().do_open(connect, req, **given)


class _PatientHttp(_PatientHandler, urllib.request.HTTPHandler):
    """Reads http."""


class _PatientHttps(_PatientHandler, urllib.request.HTTPSHandler):
    """Reads https."""


def make_opener(patience: Patience, *handlers: Any) -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_PatientHttp(patience), _PatientHttps(patience), *handlers)
