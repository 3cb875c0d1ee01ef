"""What watch mode tells: lines for people, JSON lines for programs, a hook, and its own state for the health page."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from reconciler.errors import ReconcilerError
from reconciler.execute.outcome import Event, Moved
from reconciler.process import call
from reconciler.render.documents import event_part, plain_value
from reconciler.render.lines import EVERY, Lines
from reconciler.render.paint import Paint, plain

HOOK_LIMIT = 10.0  # seconds


class Teller:
    """``stream`` takes one JSON object a line. ``hook`` is started with one on its standard input for everything but
    the events of single steps, so that no measured value leaves by it."""

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        stream: TextIO | None = None,
        hook: Sequence[str] = (),
        folder: Path = Path(),
        paint: Paint = plain,
    ) -> None:
        self._write, self._stream, self._hook, self._folder = write, stream, tuple(hook), folder
        self._lines = Lines(self.line, paint=paint)
        self._moved = 0.0
        self._lock = threading.Lock()
        self._state: dict[str, Any] = {"state": "starting"}

    def line(self, text: str) -> None:
        first, *rest = text.split("\n")
        self._write("\n".join([f"{datetime.now():%H:%M:%S}  {first}", *(f"          {line}" for line in rest)]))

    def say(self, event: str, text: str, **facts: Any) -> None:
        """One line, one event."""
        self.line(text)
        self._emit({"event": event, "text": text, **facts}, hook=True)

    def step(self, event: Event) -> None:
        """An event of a pass; progress at most each few seconds."""
        self._lines.tell(event)
        if isinstance(event, Moved):
            if time.monotonic() - self._moved < EVERY:
                return
            self._moved = time.monotonic()
        self._emit(event_part(event), hook=False)

    def now(self, **facts: Any) -> None:
        """Set parts of the state that the health page shows."""
        with self._lock:
            self._state.update(plain_value(facts))

    def state(self) -> dict[str, Any]:
        with self._lock:
            return dict(self._state)

    def _emit(self, facts: dict[str, Any], *, hook: bool) -> None:
        document = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **plain_value(facts)}
        text = json.dumps(document, ensure_ascii=False)
        if self._stream is not None:
            with suppress(OSError):  # a full disk must not end the watch
                self._stream.write(text + "\n")
                self._stream.flush()
        if hook and self._hook:
            try:
                call(self._hook, folder=self._folder, stdin=text.encode(), limit=HOOK_LIMIT)
            except ReconcilerError as error:
                self.line(f"hook: {error}")
