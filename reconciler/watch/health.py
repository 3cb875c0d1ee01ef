"""A page on the loopback interface with the status of the watch: for supervisors and dashboards."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from reconciler.errors import ReconcilerError

HOST = "127.0.0.1"


class Health:
    """Serves ``state()`` as JSON at any path, while entered. 503 while the watch is in trouble."""

    def __init__(self, port: int, state: Callable[[], dict[str, Any]]) -> None:
        try:
            self._server = ThreadingHTTPServer((HOST, port), _handler(state))
        except OSError as error:
            raise ReconcilerError(f"--health {port}: {error.strerror}", fix="choose another port") from error
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(state: Callable[[], dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            document = state()
            body = json.dumps(document, indent=2).encode() + b"\n"
            self.send_response(503 if document.get("state") == "in trouble" else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return Handler
