"""Text of strangers on the page, and other sites that would read it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from reconciler.page.repository_page import RepositoryPage
from reconciler.reconcile.planning import Options
from reconciler.storage.files import RepositoryPaths
from tests.browser.conftest import Seen
from tests.unit.cli.conftest import CELL

NASTY = (
    "</script><script>window.pwned=1;alert(1)</script><img src=x onerror='window.pwned=2'>"
    "\"' onmouseover='window.pwned=3' {{ 7 * 7 }} </pre></textarea></title><svg onload='window.pwned=4'>"
    "javascript:alert(5) \u202egnirts\u2066 \x1b[2J\x1b]0;x\x07 \x00 &lt;b&gt;"
)
_SHAPES = frozenset({"True", "False", "Unknown", "NoOp", "Done", "VALID", "INVALID", "error", "warning", "note"})
# What views look up or link to, and what is a number or a time: a stranger does not choose these.
_KEPT = frozenset(
    {"cell", "status", "type", "action", "severity", "value", "seconds", "started", "began", "ended", "looked", "time"}
    | {"report", "effect", "limit", "measured", "headroom", "what"}
)


class HostilePage(RepositoryPage):
    """The documents of a real repository, with every text of them made hostile."""

    def read_matrix(self) -> dict[str, Any]:
        document = spoil(super().read_matrix())
        for entry in document["cells"]:
            entry["marks"] = [NASTY]
        entry = {**document["cells"][0], "cell": f"open/{NASTY.replace('/', '')}/{NASTY.replace('/', '')}/Offline"}
        return {**document, "cells": [*document["cells"], entry]}

    def read_cell(self, cell: str) -> dict[str, Any]:
        return spoil(super().read_cell(CELL))

    def read_plan(self) -> dict[str, Any]:
        return spoil(super().read_plan())

    def read_history(self, cell: str) -> dict[str, Any]:
        return spoil(super().read_history(CELL))

    def read_recent(self) -> dict[str, Any]:
        return spoil(super().read_recent())

    def read_run(self, cell: str, record: str) -> dict[str, Any]:
        return spoil(super().read_cell(CELL)["performance"])

    def read_comparison(self, one: str, other: str) -> dict[str, Any]:
        return spoil(super().read_comparison("HEAD", "HEAD"))

    def read_impact(self, base: str, head: str) -> dict[str, Any]:
        document = spoil(super().read_impact("HEAD~1", "HEAD"))
        return {**document, "remarks": [dict.fromkeys(("level", "file", "line", "message", "fix"), NASTY)]}

    def read_findings(self, tree: str, command: str) -> dict[str, Any]:
        return spoil(super().read_findings(tree, command))

    def read_log(self, cell: str, name: str) -> dict[str, Any]:
        return {**super().read_log(CELL, "performance/mlperf_log_summary.txt"), "text": NASTY, "name": NASTY}

    def read_live(self) -> dict[str, Any]:
        attempt = {
            **dict.fromkeys(("address", "label", "stage"), NASTY),
            "cell": CELL,
            "timed": False,
            "done": 1,
            "expected": 2,
            "seconds": 1.0,
            "idle": 0.0,
            "minimum": 0.0,
            "rate": 1.0,
            "left": 1.0,
            "fraction": 0.5,
            "log": [NASTY],
            "readings": [{"seconds": 1.0, NASTY: 3.0}, {"seconds": 2.0, NASTY: 4.0}],
        }
        queue = [{**dict.fromkeys(("address", "label", "cell"), NASTY), "seconds": 1.0}]
        return {
            **spoil(super().read_live()),
            "running": True,
            "attempts": [attempt],
            "next": queue,
            "submission": NASTY,
        }

    def list_refs(self) -> tuple[str, ...]:
        return (NASTY,)

    def list_systems(self) -> tuple[str, ...]:
        return (NASTY,)


def spoil(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {
            key: item if key in _KEPT and isinstance(item, str) else spoil(item, key) for key, item in value.items()
        }
    if isinstance(value, (list, tuple)) and name != "percentiles":
        return [spoil(item, name) for item in value]
    return NASTY if isinstance(value, str) and value not in _SHAPES and value else value


def test_what_strangers_write_is_only_shown(
    recorded: Path, serve: Callable[..., str], open_tab: Callable[..., Seen]
) -> None:
    seen, origin = open_tab(), serve(HostilePage(RepositoryPaths(recorded), Options()))
    views = ("/", "/live", f"/cell/{CELL}", f"/cell/{CELL}?other=x", "/plan?base=x", "/history", "/findings")
    views += (f"/history?cell={quote(CELL)}&one=a&other=b",)
    for view in (*views, "/log?cell=x&name=y", f"/cell/{quote(NASTY, safe='')}"):
        answer = seen.tab.goto(origin + view)
        assert answer.status == 200, view
        if view == "/live":
            seen.tab.wait_for_function("document.querySelector('[data-stream]').dataset.state === 'open'")
            seen.tab.wait_for_timeout(1500)  # until an event has replaced what was there
        for element in seen.tab.locator("summary, .choices a, h1").all():
            element.hover(force=True, timeout=5000)
        assert seen.tab.evaluate("window.pwned") is None, view
        shown = seen.tab.evaluate("document.documentElement.textContent")
        assert "alert(1)" in shown, f"{view}: the text is not there to be tried"
        assert not [sign for sign in "\u202e\u2066\x1b\x07\x00" if sign in shown], view
        assert "\\u202e" in shown
        assert "49" not in seen.tab.title()
        active = "script:not([src], [type='application/json']), img[src=x], main svg[onload], iframe, object"
        assert seen.tab.locator(active).count() == 0
        attributes = (
            "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames()"
            ".filter(n => /^on/.test(n) || (n === 'style' && !e.closest('.drawing'))))"  # Vega sets styles by script
        )
        assert seen.tab.evaluate(attributes) == [], view
        links = seen.tab.evaluate("[...document.querySelectorAll('a')].map(a => a.protocol)")
        assert set(links) <= {"http:"}, view
    assert seen.is_quiet(origin)


@pytest.fixture
def other_site(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A page of somebody else, on another port of this machine; gives its address for what is in it."""
    folder = tmp_path / "other"
    folder.mkdir()

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def show(html: str) -> str:
            (folder / "index.html").write_text(f"<!doctype html><title>x</title>{html}")
            return f"http://localhost:{server.server_address[1]}/index.html"

        yield show
        server.shutdown()
        thread.join()


def test_another_site_reads_nothing(
    recorded: Path, serve: Callable[..., str], open_tab: Callable[..., Seen], other_site: Callable[[str], str]
) -> None:
    origin = serve(RepositoryPage(RepositoryPaths(recorded), Options()))
    seen = open_tab()
    address = other_site(
        f"<img id=i src='{origin}/static/icon.svg'><iframe id=f src='{origin}/'></iframe>"
        f"<script src='{origin}/static/page.js'></script><a href='{origin}/'>go</a>"
    )
    seen.tab.goto(address, wait_until="load")
    assert seen.tab.evaluate("document.getElementById('i').naturalWidth") == 0
    assert seen.tab.evaluate("typeof filterRows") == "undefined"
    assert "of 1 cell" not in "".join(frame.content() for frame in seen.tab.frames)
    asked = "url => fetch(url, {mode: 'no-cors', credentials: 'include'}).then(a => a.type + a.status, () => 'failed')"
    assert seen.tab.evaluate(asked, f"{origin}/") in ("failed", "opaque0")
    streamed = (
        "url => new Promise(done => { const stream = new EventSource(url);"
        " stream.onmessage = () => done('read'); stream.onerror = () => done('refused') })"
    )
    assert seen.tab.evaluate(streamed, f"{origin}/live/events") == "refused"
    seen.tab.get_by_role("link").click()
    seen.tab.wait_for_url(f"{origin}/")
    assert "Another site asked" in seen.tab.locator("body").inner_text()


def test_the_token_opens_the_page_once_and_a_cookie_keeps_it(
    recorded: Path, serve: Callable[..., str], open_tab: Callable[..., Seen]
) -> None:
    origin = serve(RepositoryPage(RepositoryPaths(recorded), Options()), token="a-long-secret")
    seen, stranger = open_tab(), open_tab()
    seen.tab.goto(f"{origin}/?token=a-long-secret")
    assert seen.tab.url == f"{origin}/"
    seen.tab.get_by_role("link", name="Offline").click()
    seen.tab.wait_for_url(f"**/cell/{CELL}")
    assert seen.tab.evaluate("document.cookie") == "", "no script reads it"
    assert seen.is_quiet(origin)
    assert stranger.tab.goto(f"{origin}/?token=wrong").status == 401
