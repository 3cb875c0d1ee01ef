"""A browser, a server of the page, and what a view of it did: messages, requests, dialogs."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from reconciler.page.guard import LOOPBACK
from reconciler.page.plots import describe_theme
from reconciler.page.repository_page import RepositoryPage
from reconciler.page.server import make_application, open_socket
from reconciler.page.site import Site
from tests.shared import need
from tests.unit.cli.conftest import recorded, recorded_once

__all__ = ["recorded", "recorded_once"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}


def find_browser() -> str:
    """RECONCILE_BROWSER names another."""
    found = os.environ.get("RECONCILE_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip(f"no browser is installed: none of {', '.join(_NAMES)}")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Not for the whole session: as long as the driver runs, this process cannot begin another event loop."""
    need("playwright", "axe_playwright_python", "starlette", "uvicorn", "vl_convert")
    path = find_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Without a sandbox of its own it also starts as root, as in a container; it sees nothing but this server.
        launched = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


@dataclass
class Seen:
    """What went on in a tab."""

    tab: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.tab.on("console", lambda message: self._note(message.type, message.text))
        self.tab.on("pageerror", lambda error: self.messages.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("dialog", self._dismiss)

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.messages.append(f"{kind}: {text}")

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def is_quiet(self, origin: str) -> bool:
        """No message, no dialog, and no request to anybody else."""
        foreign = [url for url in self.requests if not url.startswith((f"{origin}/", "data:"))]
        assert not self.messages, self.messages
        assert not foreign, foreign
        assert not self.dialogs, self.dialogs
        return True


def draw_plots(tab: Any) -> list[Any]:
    """Every plot of a view, scrolled to and drawn."""
    tab.wait_for_load_state()
    places = tab.locator("[data-plot]").all()
    for place in places:
        place.scroll_into_view_if_needed()
        tab.wait_for_function("place => 'drawn' in place.dataset", arg=place.element_handle())
    return places


SEVERE = ("serious", "critical")


def check_view(seen: Seen, origin: str, view: str, scheme: str) -> None:
    """A view is quiet, accessible also where it is unfolded, as wide as the screen at most, and draws its plots."""
    from axe_playwright_python.sync_playwright import Axe

    answer = seen.tab.goto(origin + view, wait_until="load")
    assert answer.status == (404 if view.endswith("nothing") else 200), view
    for hidden in seen.tab.locator("details").all():
        hidden.evaluate("element => { element.open = true }")
    found = Axe().run(seen.tab).response["violations"]
    severe = [(v["id"], [n["html"][:200] for n in v["nodes"]][:3]) for v in found if v["impact"] in SEVERE]
    assert not severe, f"{view}: {severe}"
    width = seen.tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0, f"{view} is {width} pixels wider than the screen"
    for drawing in draw_plots(seen.tab):
        ink = drawing.evaluate("place => place.querySelector('svg text').getAttribute('fill')")
        assert ink == describe_theme(scheme)["axis"]["labelColor"]
    seen.messages = [said for said in seen.messages if "404" not in said or not view.endswith("nothing")]
    assert seen.is_quiet(origin), view


@pytest.fixture
def open_tab(browser: Any) -> Iterator[Callable[..., Seen]]:
    """A tab of its own; ``screen``: of SCREENS, ``scheme``: "light" or "dark"."""
    with contextlib.ExitStack() as stack:

        def open_one(screen: str = "desktop", scheme: str = "light") -> Seen:
            width, height = SCREENS[screen]
            context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
            stack.callback(context.close)
            seen = Seen(context.new_page())
            seen.watch()
            return seen

        yield open_one


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serves a source in this process; gives its origin."""
    need("starlette", "uvicorn")
    import uvicorn

    from reconciler.page.guard import RequestGuard

    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(source: RepositoryPage, token: str = "") -> str:
        listening = open_socket("127.0.0.1", 0)
        guarded = RequestGuard(make_application(Site(source)), token, LOOPBACK)
        config = uvicorn.Config(guarded, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        running.append((server, thread))
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(10)
