"""Who gets an answer of the page, and what a browser may do with it."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from reconciler.page.guard import COOKIE, LOOPBACK, Message, Receive, RequestGuard, Scope, Send

TOKEN = "a-long-secret"


async def _inside(scope: Scope, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", b"text/html"), (b"cache-control", b"public")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"inside"})


def ask(
    path: str = "/", *, token: str = "", names: tuple[str, ...] = LOOPBACK, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer; ``headers``: sec_fetch_site="cross-site"."""
    sent: list[MutableMapping[str, Any]] = []
    path, _, query = path.partition("?")
    named = {"host": "localhost:8765", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope: Scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(RequestGuard(_inside, token, names)(scope, receive, send))
    return sent[0]["status"], {n.decode(): v.decode() for n, v in sent[0]["headers"]}, sent[1]["body"]


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:9000", "LocalHost", "[::1]:8765"])
def test_a_name_of_the_loopback_interface_is_answered(host: str) -> None:
    assert ask(host=host)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1.evil.example",
        "[::1]evil.example",
        "localhost:1@evil.example",
        "",
    ],
)
def test_another_name_that_leads_here_is_refused(host: str) -> None:
    status, _, body = ask(host=host)
    assert status == 421
    assert body != b"inside"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_that_another_site_makes_is_refused(site: str) -> None:
    assert ask(sec_fetch_site=site)[0] == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1"])
def test_a_foreign_origin_is_refused(origin: str) -> None:
    assert ask(origin=origin)[0] == 403
    assert ask(origin="http://localhost:8765")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_nothing_is_written(method: str) -> None:
    status, headers, _ = ask(method=method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_nothing_is_shown_without_the_token() -> None:
    for path in ("/", "/?token=wrong", "/?token=", "/live/events", "/static/page.js"):
        assert ask(path, token=TOKEN)[0] == 401
    assert ask(token=TOKEN, cookie=f"{COOKIE}=wrong")[0] == 401
    assert ask(token=TOKEN, cookie="\x00;;;=")[0] == 401


def test_the_token_moves_from_the_address_into_a_cookie() -> None:
    status, headers, body = ask(f"/cell/a/b?token={TOKEN}&q=x", token=TOKEN)
    assert (status, headers["location"]) == (303, "./b?q=x")
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=Strict" in headers["set-cookie"]
    assert TOKEN.encode() not in body
    assert ask("/cell/a/b", token=TOKEN, cookie=headers["set-cookie"].partition(";")[0])[0] == 200


def test_the_address_without_the_token_never_leads_elsewhere() -> None:
    for path in ("//evil.example", "//evil.example/x", "/\\evil.example"):
        location = ask(f"{path}?token={TOKEN}", token=TOKEN)[1]["location"]
        assert location.startswith("./")


def test_a_path_writes_no_header_of_its_own() -> None:
    location = ask(f"/a\r\nSet-Cookie: b=c?token={TOKEN}", token=TOKEN)[1]["location"]
    assert location == "./a%0D%0ASet-Cookie%3A%20b%3Dc"


def test_every_answer_says_what_a_browser_may_load() -> None:
    for asked in ({}, {"host": "evil.example"}, {"method": "POST"}):
        headers = ask(**asked)[1]
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_web_socket_is_closed() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    asyncio.run(RequestGuard(_inside)({"type": "websocket", "headers": []}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]
