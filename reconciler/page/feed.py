"""Changes while people watch: read once for all viewers, only while there are any, and sent to each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from msgspec import Struct, field

_AGAIN = 2000  # milliseconds after which a browser that lost the stream asks again
_QUIET = 15.0  # seconds after which a line says that the stream is still alive


class LiveFeed(Struct, dict=True):
    """``read`` gives the current view, and for how many seconds it is valid; it is called in a thread."""

    read: Callable[[], tuple[str, float]]
    viewers: int = 0
    _shown: str = ""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _reader: asyncio.Task[None] | None = None

    async def follow(self) -> AsyncIterator[bytes]:
        """Server-sent events: each is the whole of what is shown."""
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
        """Ends with its last viewer; what was shown is forgotten, so that the next sees nothing old."""
        try:
            while self.viewers:
                shown, pause = await asyncio.to_thread(self.read)
                if shown != self._shown:
                    self._shown = shown
                    self._wake()
                await asyncio.sleep(pause)
        finally:
            self._shown, self._reader = "", None

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def encode_event(text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"{lines}\n".encode()
