"""The views over HTTP, by Starlette and uvicorn, which the extra `page` installs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from msgspec import Struct, field

from reconciler.errors import ReconcilerError
from reconciler.page.guard import Application, RequestGuard
from reconciler.page.links import Links, find_root
from reconciler.page.plots import bundle_script
from reconciler.page.site import VIEWS, Site, View
from reconciler.render.html import read_static

# Live updates: read once for all viewers, only while there are any, and sent to each of them.

_AGAIN = 2000  # milliseconds after which a browser reconnects to a lost stream
_QUIET = 15.0  # seconds between two keep-alive lines


class LiveFeed(Struct, dict=True):
    """``read`` returns the current view, and for how many seconds it is valid; it is called in a thread."""

    read: Callable[[], tuple[str, float]]
    viewers: int = 0
    _shown: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _reader: asyncio.Task[None] | None = None

    async def follow(self) -> AsyncIterator[bytes]:
        """Yield server-sent events, each with the complete view."""
        self.viewers += 1
        try:
            if self._reader is None or self._reader.done():
                self._reader = asyncio.create_task(self._keep_reading())
            yield f"retry: {_AGAIN}\n\n".encode()
            sent = ""
            while True:
                changed = self._changed
                if self._shown != sent:
                    sent = self._shown
                    yield encode_event(sent)
                try:
                    await asyncio.wait_for(changed.wait(), _QUIET)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.viewers -= 1

    async def _keep_reading(self) -> None:
        """Read until the last viewer leaves; then forget the view, so that the next viewer sees nothing old."""
        try:
            while self.viewers:
                shown, pause = await asyncio.to_thread(self.read)
                if shown != self._shown:
                    self._shown = shown
                    changed, self._changed = self._changed, asyncio.Event()
                    changed.set()
                await asyncio.sleep(pause)
        finally:
            self._shown, self._reader = "", None


def encode_event(text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"{lines}\n".encode()


STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
VEGA = "vega.js"


def make_application(site: Site) -> Application:
    """Make the application. Raises ReconcilerError without Starlette."""
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request
        from starlette.responses import HTMLResponse, Response, StreamingResponse
        from starlette.routing import Route
    except ImportError as error:
        fix = "pip install 'mlperf-reconciler[page]', or write files: reconcile page --export FOLDER"
        raise ReconcilerError("the page is served by Starlette, which is not installed", fix=fix) from error
    feed = LiveFeed(site.read_live_part)

    def make_endpoint(show: Callable[[Request, Links], str]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            links = Links(find_root(request.url.path[1:]))
            try:
                return HTMLResponse(await run_in_threadpool(show, request, links))
            except ReconcilerError as error:
                page = site.show_problem("This cannot be shown", error.message, error.fix, links)
                return HTMLResponse(page, 404)

        return answer

    async def send_vega(_: Request) -> Response:
        if site.source.is_timed() and not bundle_script.cache_info().currsize:
            return Response("a run is being timed: plots are drawn when it has ended", 503, media_type="text/plain")
        return Response(await run_in_threadpool(bundle_script), media_type="text/javascript")

    async def send_static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            return Response("not found", 404)
        return Response(read_static(name, __package__), media_type=STATIC[name])

    async def send_live(_: Request) -> Response:
        return StreamingResponse(feed.follow(), media_type="text/event-stream")

    async def answer_missing(request: Request, _: Exception) -> Response:
        links = Links(find_root(request.url.path[1:]))
        return HTMLResponse(site.show_problem("There is no such view", "This address does not exist.", "", links), 404)

    routes = [Route(path, make_endpoint(show)) for path, show in _list_views(site).items()]
    routes += [
        Route("/live/events", send_live),
        Route(f"/static/{VEGA}", send_vega),
        Route("/static/{name}", send_static),
    ]
    application: Application = Starlette(routes=routes, exception_handlers={404: answer_missing})
    return application


def _list_views(site: Site) -> dict[str, Callable[[Any, Links], str]]:
    """Map each path to the function that renders it from a request's parameters."""
    views: dict[str, Callable[[Any, Links], str]] = {f"/{view.name}": partial(_show, view, site) for view in VIEWS}
    return {
        **views,
        "/cell/{cell:path}": lambda request, links: site.show_cell(
            request.path_params["cell"], links, request.query_params.get("other", "")
        ),
        "/curve/{curve:path}": lambda request, links: site.show_curve(request.path_params["curve"], links),
    }


def _show(view: View, site: Site, request: Any, links: Links) -> str:
    asked = (str(request.query_params.get(name, "")).strip() for name in view.asked)
    return view.show(site, links, *asked)


def open_socket(host: str, port: int) -> socket.socket:
    """Open the socket. ``port``: 0 for any free port. Raises ReconcilerError."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        fix = "name another port: --port 0 takes any that is free"
        raise ReconcilerError(f"cannot serve on {host}, port {port}: {error.strerror or error}", fix=fix) from error


def serve(application: Application, listening: socket.socket, token: str, names: tuple[str, ...]) -> None:
    """Serve until SIGINT or SIGTERM."""
    import uvicorn

    guarded = RequestGuard(application, token, names)
    quiet = {"log_level": "warning", "access_log": False, "server_header": False}
    config = uvicorn.Config(guarded, **quiet, lifespan="off", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])
