"""Outputs of a watch: lines for people, JSON lines for programs, a hook, the state of the health page."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from reconciler.errors import ReconcilerError
from reconciler.execute.outcome import Event, StepProgress
from reconciler.render.colour import Paint, show_plain
from reconciler.render.documents import convert_plain_value
from reconciler.render.events import render_event_part
from reconciler.render.lines import EVERY, Failures, Lines
from reconciler.resource.embargo import HOOK
from reconciler.storage.process import call

HOOK_LIMIT = 10.0  # seconds
# Events whose texts hold nothing measured, whatever happens; all others lose theirs under an embargo.
_OPEN = frozenset(
    {
        *("started", "stopped", "valid", "broken", "recovered", "superseded", "head", "committed", "pushed"),
        *("refused", "fetched", "rewritten", "remote"),
    }
)

_TROUBLES = frozenset({"broken", "refused", "trouble", "unwatched"})  # said by a quiet watch, too


class WatchOutput:
    """``stream`` takes one JSON object a line. ``hook`` is started with one on its standard input for everything but
    the events of single steps; ``hook_refused`` says why no measured value may leave by it, and until the first look
    has read the embargo none does. ``quiet``: only what is wrong is written."""

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        stream: TextIO | None = None,
        hook: Sequence[str] = (),
        folder: Path = Path(),
        paint: Paint = show_plain,
        quiet: bool = False,
    ) -> None:
        self._write, self._stream, self._hook, self._folder = write, stream, tuple(hook), folder
        self._quiet = quiet
        self._lines = (Failures if quiet else Lines)(self.line, paint=paint)
        self.hook_refused = "no spec has been read"
        self._moved = 0.0
        self._lock = threading.Lock()
        self._state: dict[str, Any] = {"state": "starting"}

    def line(self, text: str) -> None:
        first, *rest = text.split("\n")
        with suppress(OSError):  # neither a full disk nor a terminal that went away may end the watch
            self._write("\n".join([f"{datetime.now():%H:%M:%S}  {first}", *(f"          {line}" for line in rest)]))

    def say(self, event: str, text: str, **facts: Any) -> None:
        """One line, one event."""
        if not self._quiet or event in _TROUBLES:
            self.line(text)
        self._emit({"event": event, "text": text, **facts})
        if self._hook:
            kept = text if event in _OPEN or not self.hook_refused else f"withheld: {self.hook_refused}"
            self._call({"event": event, "text": kept, **facts})

    @property
    def hook_address(self) -> str:
        return HOOK + shlex.join(self._hook)

    def step(self, event: Event) -> None:
        """An event of a pass; progress at most each few seconds."""
        self._lines.report(event)
        if isinstance(event, StepProgress):
            if time.monotonic() - self._moved < EVERY:
                return
            self._moved = time.monotonic()
        self._emit(render_event_part(event))

    def now(self, **facts: Any) -> None:
        """Set parts of the state that the health page shows."""
        with self._lock:
            self._state.update(convert_plain_value(facts))

    def state(self) -> dict[str, Any]:
        with self._lock:
            return dict(self._state)

    def _emit(self, facts: dict[str, Any]) -> None:
        if self._stream is not None:
            with suppress(OSError):
                self._stream.write(_document(facts) + "\n")
                self._stream.flush()

    def _call(self, facts: dict[str, Any]) -> None:
        try:
            call(self._hook, folder=self._folder, stdin=_document(facts).encode(), limit=HOOK_LIMIT)
        except ReconcilerError as error:
            self.line(f"hook: {error}")


def _document(facts: dict[str, Any]) -> str:
    document = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **convert_plain_value(facts)}
    return json.dumps(document, ensure_ascii=False)
