"""Opens an address for reading from some byte on: http and https with redirects, and files of a local mirror."""

from __future__ import annotations

import asyncio
import email.utils
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import httpx2
from msgspec import Struct

from reconciler import __version__
from reconciler.errors import StoreError
from reconciler.storage.untrusted_files import open_regular

T = TypeVar("T")
CHUNK = 1 << 20
REDIRECTS = 10
_COUNT = r"[0-9]{1,18}"
_CONTENT_RANGE = re.compile(rf"bytes ({_COUNT})-({_COUNT})/({_COUNT}|\*)$")
_WHOLE, _PART, _NOTHING_LEFT = 200, 206, 416
_GONE, _REFUSED = (404, 410), (401, 403, 407, 451)
_BUSY = (408, 425, 429, 500, 502, 503, 504)


class AddressError(StoreError):
    """This address will not give the file, however often it is asked: another one may."""


class RefusedError(AddressError):
    """The server wants to know who asks, or what was agreed to."""


class TransientError(StoreError):
    """It may work later. ``after``: seconds that the server asks for, 0 where it does not say."""

    def __init__(self, message: str, *, after: float = 0.0) -> None:
        super().__init__(message, fix="the same command goes on from there, once the server answers")
        self.after = after


class Opened(Struct, frozen=True):
    """``start``: of the first byte that follows, 0 where the server gives all of it. ``total``: bytes of the whole
    file, None where that is not said. ``validator``: what must still be true when more of it is asked for, "" for none.
    ``read_next``: the next bytes as they arrive, none at the end; raises TransientError.
    """

    start: int
    total: int | None
    validator: str
    read_next: Callable[[], bytes]
    close: Callable[[], None]

    def read(self) -> Iterator[bytes]:
        while data := self.read_next():
            yield data


@cache
def _load_certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


class _Exchange:
    """A request and its answer. Each step of it ends within ``patience`` seconds, whatever bytes come: a timeout of a
    connection begins anew with each byte."""

    def __init__(self, timeout: float, patience: float) -> None:
        self._runner, self._patience = asyncio.Runner(), patience
        headers = {"User-Agent": f"mlperf-reconciler/{__version__}", "Accept-Encoding": "identity"}
        self._client = httpx2.AsyncClient(headers=headers, timeout=timeout, verify=_load_certificates())
        self._pieces: AsyncIterator[bytes]

    def send(self, address: str, headers: Mapping[str, str]) -> httpx2.Response:
        """Follow a few redirects, to http and https alone, and never from https to http."""
        request = self._client.build_request("GET", address, headers=headers)
        for _ in range(REDIRECTS + 1):
            answer = self._step(self._client.send(request, stream=True))
            if (following := answer.next_request) is None:
                self._pieces = answer.aiter_raw()
                return answer
            self._step(answer.aclose())  # anything more that it says would be read to its end
            was, then = request.url.scheme, following.url.scheme
            if then not in ("http", "https") or (was == "https" and then == "http"):
                raise AddressError(
                    f"{address}: it leads from {was} to {then}, which is not followed", fix="name a mirror"
                )
            request = following
        raise AddressError(f"{address}: the server answers {answer.status_code} again and again", fix="name a mirror")

    def read_next(self) -> bytes:
        try:
            return self._step(anext(self._pieces, b""))
        except (httpx2.HTTPError, OSError) as error:
            raise TransientError(f"the connection broke: {_say(error)}") from error

    def close(self) -> None:
        with suppress(httpx2.HTTPError, OSError):
            self._step(self._client.aclose())
        self._runner.close()

    def _step(self, work: Awaitable[T]) -> T:
        async def finish() -> T:
            async with asyncio.timeout(self._patience):
                return await work

        return self._runner.run(finish())


def open_source(address: str, start: int, validator: str, *, timeout: float, patience: float) -> Opened:
    """``validator``: of the part that is here; the whole is sent where the file has changed since. ``timeout``: seconds
    without an answer, or without any byte of it; ``patience``: until the answer begins, and with each piece of it,
    whatever bytes come. Raises AddressError, TransientError."""
    scheme = urlsplit(address).scheme.lower()
    if scheme == "file":
        return _open_file(address, start)
    if scheme not in ("http", "https"):
        raise AddressError(f"{address}: only http, https and file are read", fix="name another mirror")
    headers = {"Range": f"bytes={start}-", **({"If-Range": validator} if validator else {})} if start else {}
    exchange = _Exchange(timeout, patience)
    try:
        return _read_head(address, exchange, exchange.send(address, headers), start)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        exchange.close()
        raise _judge_failure(address, error) from error
    except BaseException:
        exchange.close()
        raise


def _open_file(address: str, start: int) -> Opened:
    path = Path(unquote(urlsplit(address).path))
    try:
        stream = open_regular(path)
        size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise AddressError(f"{path}: {error.strerror}", fix="put it there, or name another mirror") from error
    begin = start if start <= size else 0
    stream.seek(begin)
    return Opened(begin, size, "", partial(stream.read, CHUNK), stream.close)


def _read_head(address: str, exchange: _Exchange, answer: httpx2.Response, start: int) -> Opened:
    if answer.status_code not in (_WHOLE, _PART):
        raise _judge_refusal(address, answer, start)
    length, validator = answer.headers.get("Content-Length", ""), find_validator(answer.headers)
    total = int(length) if re.fullmatch(_COUNT, length) else None
    if answer.status_code == _PART:
        found = _CONTENT_RANGE.match(answer.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != start:
            raise AddressError(f"{address}: the server sent another part than was asked for", fix="name a mirror")
        total = None if found[3] == "*" else int(found[3])
    begin = start if answer.status_code == _PART else 0
    return Opened(begin, total, validator, exchange.read_next, exchange.close)


def find_validator(headers: Mapping[str, str]) -> str:
    """For If-Range, which takes a strong entity tag or a date."""
    tag = headers.get("ETag") or ""
    return tag if tag.startswith('"') else headers.get("Last-Modified") or ""


def _judge_refusal(address: str, answer: httpx2.Response, start: int) -> StoreError:
    code, said = answer.status_code, f"{address}: the server answers {answer.status_code} {answer.reason_phrase}"
    if code == _NOTHING_LEFT and start:
        return NothingLeftError(said)
    if code in _BUSY:
        return TransientError(said, after=parse_retry_after(answer.headers.get("Retry-After", ""), time.time()))
    if code in _REFUSED:
        return RefusedError(said, fix="accept its licence there, or name a mirror that you may read: --mirror URL|DIR")
    if code in _GONE:
        return AddressError(said, fix="name a mirror that has it: --mirror URL|DIR")
    return AddressError(said, fix="name a mirror: --mirror URL|DIR")


class NothingLeftError(StoreError):
    """The part here is as long as the file there, or longer."""


def _judge_failure(address: str, error: BaseException) -> StoreError:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is not None:
        fix = "correct the clock or the certificates of this machine, or name a mirror: --mirror URL|DIR"
        return AddressError(f"{address}: its certificate is not trusted: {cause.verify_message}", fix=fix)
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL | ValueError):
        return AddressError(f"{address}: {error}", fix="name a mirror: --mirror URL|DIR")
    return TransientError(f"{address} does not answer: {_say(error)}")


def _say(error: BaseException) -> str:
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return "nothing came for too long"
    return f"{type(error).__name__}: {error}".removesuffix(": ")


def parse_retry_after(text: str, now: float) -> float:
    """Seconds to wait, from seconds or a date; 0 for none. ``now``: seconds since the epoch."""
    text = text.strip()
    if re.fullmatch("[0-9]+", text):
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return 0.0
