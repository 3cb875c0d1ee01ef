"""Open an address for reading from a given byte: http and https with redirects, and files of a mirror on this machine.

The only module that uses HTTP, through the standard library, which knows the machine's proxies and certificates and
needs no further package.
"""

from __future__ import annotations

import email.utils
import http.client
import io
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from reconciler import __version__
from reconciler.errors import StoreError
from reconciler.storage.untrusted_files import open_regular

# Connections to servers that must make progress: one that answers a byte at a time, or endlessly, is abandoned.
#
# A socket's timeout restarts with each byte. The standard library reads the head of an answer, the length of a chunk
# and the trailer to their ends, however long, before it returns.


class Patience(Struct):
    """A time limit for slow servers. ``seconds``: limit of each step of an exchange, which is one operation of the
    standard library."""

    seconds: float
    _until: float = 0.0

    def begin_step(self) -> None:
        self._until = time.monotonic() + self.seconds

    def check(self) -> None:
        """Check the time limit. Raises TimeoutError."""
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


CHUNK = 1 << 20
_COUNT = r"[0-9]{1,18}"
_CONTENT_RANGE = re.compile(rf"bytes ({_COUNT})-({_COUNT})/({_COUNT}|\*)$")
_WHOLE, _PART, _NOTHING_LEFT = 200, 206, 416
_GONE, _REFUSED = (404, 410), (401, 403, 407, 451)
_BUSY = (408, 425, 429, 500, 502, 503, 504)


class AddressError(StoreError):
    """This address will never give the file, but another one may."""


class RefusedError(AddressError):
    """The server requires authentication or an accepted licence."""


class TransientError(StoreError):
    """A later attempt may succeed. ``after``: seconds that the server requests, 0 if it does not say."""

    def __init__(self, message: str, *, after: float = 0.0) -> None:
        super().__init__(message, fix="run the same command again to continue, once the server answers")
        self.after = after


class _Stream(Protocol):
    def read1(self, size: int = -1, /) -> bytes: ...

    def close(self) -> None: ...


class Opened(Struct, frozen=True):
    """An opened source. ``start``: offset of the first byte that follows, 0 if the server sends the whole file.
    ``total``: bytes of the whole file, None if unknown. ``validator``: the value for resuming, "" for none.
    ``patience``: with the sender."""

    start: int
    total: int | None
    validator: str
    stream: _Stream
    patience: Patience

    def read(self) -> Iterator[bytes]:
        """Yield the bytes as they arrive. Raises TransientError if the connection ends or stalls."""
        while True:
            self.patience.begin_step()
            try:
                data = self.stream.read1(CHUNK)
            except (OSError, HTTPException) as error:
                raise TransientError(f"the connection was lost: {_say(error)}") from error
            if not data:
                return
            yield data


def open_source(address: str, start: int, validator: str, *, timeout: float, patience: float) -> Opened:
    """Open an address for reading. ``validator``: the partial file's; the server sends the whole file if it has changed
    since. ``timeout``: seconds without an answer or without any byte of it; ``patience``: limit until the answer
    begins, and for each piece of it, regardless of arriving bytes. Raises AddressError, TransientError."""
    scheme = urlsplit(address).scheme.lower()
    if scheme == "file":
        return _open_file(address, start, Patience(patience))
    if scheme not in ("http", "https"):
        raise AddressError(f"{address}: only http, https and file are supported", fix="name another mirror")
    headers = {"User-Agent": f"mlperf-reconciler/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", **({"If-Range": validator} if validator else {})}
    return _open_http(address, start, headers, timeout, Patience(patience))


def _open_file(address: str, start: int, patience: Patience) -> Opened:
    path = Path(unquote(urlsplit(address).path))
    try:
        stream = open_regular(path)
        size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise AddressError(f"{path}: {error.strerror}", fix="add it, or use another mirror") from error
    begin = start if start <= size else 0
    stream.seek(begin)
    return Opened(begin, size, "", stream, patience)


def _open_http(address: str, start: int, headers: Mapping[str, str], timeout: float, patience: Patience) -> Opened:
    request = urllib.request.Request(address, headers=dict(headers))  # noqa: S310  only http and https come here
    opener = urllib.request.build_opener(_PatientHttp(patience), _PatientHttps(patience), Redirects)
    patience.begin_step()
    try:
        answer: http.client.HTTPResponse = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        with closing(error):  # which may already be closed
            return _judge_refusal(address, error, start)
    except urllib.error.URLError as error:
        raise _judge_failure(address, error.reason) from error
    except (OSError, HTTPException, ValueError) as error:
        raise _judge_failure(address, error) from error
    return _read_head(address, answer, start, patience)


def _read_head(address: str, answer: http.client.HTTPResponse, start: int, patience: Patience) -> Opened:
    length = answer.headers.get("Content-Length", "")
    # What If-Range takes: a strong entity tag, or else a date.
    tag = answer.headers.get("ETag") or ""
    validator = tag if tag.startswith('"') else answer.headers.get("Last-Modified") or ""
    if answer.status == _PART:
        found = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != start:
            answer.close()
            raise AddressError(f"{address}: the server sent the wrong byte range", fix="name a mirror")
        total = None if found[3] == "*" else int(found[3])
        return Opened(start, total, validator, answer, patience)
    if answer.status != _WHOLE:
        answer.close()
        raise AddressError(f"{address}: the server answered {answer.status}", fix="name a mirror")
    return Opened(0, int(length) if re.fullmatch(_COUNT, length) else None, validator, answer, patience)


def _judge_refusal(address: str, error: urllib.error.HTTPError, start: int) -> Opened:
    reason = " ".join(str(error.reason).split())  # the reason for a redirect loop has several lines
    code, said = error.code, f"{address}: the server answered {error.code} {reason}"
    if code == _NOTHING_LEFT and start:
        raise NothingLeftError(said)
    if code in _BUSY:
        raise TransientError(said, after=parse_retry_after(error.headers.get("Retry-After", ""), time.time()))
    if code in _REFUSED:
        raise RefusedError(said, fix="accept its licence there, or use a mirror: --mirror URL|DIR")
    if code in _GONE:
        raise AddressError(said, fix="use a mirror that has it: --mirror URL|DIR")
    raise AddressError(said, fix="use a mirror: --mirror URL|DIR")


class NothingLeftError(StoreError):
    """The partial file here is as long as the remote file, or longer."""


def _judge_failure(address: str, error: object) -> StoreError:
    if isinstance(error, ssl.SSLCertVerificationError):
        fix = "fix the clock or the certificates of this machine, or use a mirror: --mirror URL|DIR"
        return AddressError(f"{address}: its certificate is not trusted: {error.verify_message}", fix=fix)
    if isinstance(error, ssl.SSLError | OSError | HTTPException):
        return TransientError(f"{address} does not answer: {_say(error)}")
    return AddressError(f"{address}: {error}", fix="use a mirror: --mirror URL|DIR")


def _say(error: BaseException) -> str:
    if isinstance(error, socket.timeout | TimeoutError):
        return "timed out"
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def parse_retry_after(text: str, now: float) -> float:
    """Return the seconds to wait, from seconds or a date; 0 for none. ``now``: seconds since the epoch."""
    text = text.strip()
    if re.fullmatch("[0-9]+", text):
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return 0.0


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follow at most ten redirects, only to http and https, and never from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Any:
        was, then = urlsplit(req.full_url).scheme.lower(), urlsplit(newurl).scheme.lower()
        if then not in ("http", "https") or (was == "https" and then == "http"):
            why = f"redirect from {was} to {then} is not allowed"
            raise urllib.error.HTTPError(req.full_url, code, why, headers, fp)
        fp.close()  # any further text would be read to its end
        return super().redirect_request(req, fp, code, msg, headers, newurl)
