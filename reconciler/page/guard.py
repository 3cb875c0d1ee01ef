"""Restrict who may send requests, and what a browser may do with the answers: plain ASGI around the whole application.

Only GET and HEAD. On the loopback interface only under one of its names, so that no other site's name leads here;
elsewhere only with the token, which a cookie stores. Never for another site. A browser loads only resources of this
server, and runs no script in a page.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_OWN = ("same-origin", "none")  # values of Sec-Fetch-Site: one of our pages, or an address typed by the user
COOKIE = "reconcile-page"
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:@/]+))(?::[0-9]*)?")


class RequestGuard(Struct, frozen=True):
    """``token``: "" if none is required. ``names``: allowed hosts; none if the token decides."""

    application: Application
    token: str = ""
    names: tuple[str, ...] = LOOPBACK

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        status, why, more = self._judge(scope, headers)
        if status:
            await _answer(send, status, why, more)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                kept = [(name, value) for name, value in message["headers"] if name.decode().lower() not in HEADERS]
                message = {**message, "headers": [*kept, *own]}
            await send(message)

        await self.application(scope, receive, send_guarded)

    def _judge(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str, dict[str, str]]:
        """Return the status of a refusal or redirect, with its text and headers; status 0 lets the request pass."""
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "This page is read-only.", {"allow": "GET, HEAD"}
        host = headers.get("host", "")
        if self.names and _strip_port(host) not in self.names:
            return 421, "This server answers under names of the loopback interface only.", {}
        if headers.get("sec-fetch-site", "none") not in _OWN:
            return 403, "Another site asked for this page: type its address instead.", {}
        origin = headers.get("origin", "")
        if origin and origin.partition("://")[2] != host:
            return 403, "Another site asked for this page.", {}
        return self._ask_token(scope, headers) if self.token else (0, "", {})

    def _ask_token(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, str, dict[str, str]]:
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        given = next((value for name, value in query if name == "token"), None)
        if given is not None and self._is_token(given):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            # The address without the token, relative, so that the browser is never sent to another site.
            last = scope["path"].rpartition("/")[2]
            where = f"./{quote(last)}" + (f"?{rest}" if rest else "")
            cookie = f"{COOKIE}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            return 303, "", {"location": where, "set-cookie": cookie}
        if self._is_token(_read_cookie(headers.get("cookie", ""))):
            return 0, "", {}
        return 401, "Open the address that `reconcile page` printed: it contains the token.", {}

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


def _strip_port(host: str) -> str:
    """Return "" if there is no name followed by a port."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found is not None else ""


def _read_cookie(text: str) -> str:
    try:
        found = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


async def _answer(send: Send, status: int, text: str, headers: Mapping[str, str]) -> None:
    named = {**HEADERS, **headers, "content-type": "text/plain; charset=utf-8"}
    start = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": text.encode() + b"\n"})
