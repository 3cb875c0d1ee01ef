"""Readiness of a server: a GET, a connection, or a line that it has printed."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

from harness.child.output import RotatedOutput
from harness.contract import Ready

_LONGEST = 10.0  # seconds in which one probe must be answered
_OVERLAP = 8192  # bytes; a line that comes in pieces is looked for across them

# On this machine, whatever proxy the environment names.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class WatchedOutput(RotatedOutput):
    """A server's output in which a line is waited for. ``seen``: it came."""

    line = b""
    seen = False
    _end = b""

    def take(self, data: bytes, *, captured: bool = True) -> None:
        if self.line and not self.seen:
            self.seen = self.line in self._end + data
            self._end = (self._end + data)[-_OVERLAP:]
        super().take(data, captured=captured)


def find_unanswered(ready: Ready, output: WatchedOutput | None) -> str:
    """Why the server does not count as ready; "" when it does."""
    longest = min(_LONGEST, ready.patience or _LONGEST)
    if ready.url:
        return _get(ready.url, longest)
    if ready.tcp:
        return _connect(ready.tcp, longest)
    return "" if output and output.seen else f"it has printed no line with {ready.line!r}"


def _get(url: str, longest: float) -> str:
    try:
        with _DIRECT.open(url, timeout=longest) as answer:
            answer.read(1)
        return ""
    except urllib.error.HTTPError as error:
        return f"GET {url}: status {error.code}"
    except (OSError, ValueError) as error:
        return f"GET {url}: {getattr(error, 'reason', None) or error}"


def _connect(place: str, longest: float) -> str:
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), longest).close()
        return ""
    except (OSError, ValueError, OverflowError) as error:
        return f"{place}: {error}"
