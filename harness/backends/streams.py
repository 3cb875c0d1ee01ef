"""Threads that compute, one batch at a time each, for libraries that compute on the thread that calls them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from harness.backends import LoadPlan, Outputs, Token
from harness.qsl import Rows


class StreamThreads:
    """One thread for each stream of the plan; ``compute(stream, rows)`` runs on it, after one ``begin()``. Started with
    the first batch."""

    def __init__(
        self,
        plan: LoadPlan,
        compute: Callable[[int, Rows], Outputs],
        name: str,
        begin: Callable[[], None] | None = None,
    ) -> None:
        self._plan, self._compute, self._name, self._begin = plan, compute, name, begin
        self._work: SimpleQueue[tuple[Rows, Token] | None] = SimpleQueue()
        self._free: SimpleQueue[None] = SimpleQueue()  # one entry per batch that may still be submitted
        for _ in range(plan.depth):
            self._free.put(None)
        self._threads: list[threading.Thread] = []

    def submit(self, rows: Rows, token: Token) -> None:
        if not self._threads:
            self._start_threads()
        self._free.get()
        self._work.put((rows, token))

    def ready(self) -> None:
        self._free.put(self._free.get())

    def drain(self) -> None:
        for _ in range(self._plan.depth):
            self._free.get()
        for _ in range(self._plan.depth):
            self._free.put(None)

    def close(self) -> None:
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _start_threads(self) -> None:
        for stream in range(self._plan.streams):
            thread = threading.Thread(target=self._serve, args=(stream,), name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, stream: int) -> None:
        if self._begin is not None:
            self._begin()
        while (item := self._work.get()) is not None:
            rows, token = item
            try:
                outputs = self._compute(stream, rows)
            except Exception as error:  # whatever the library raises belongs to this batch
                self._plan.failed(token, error)
            else:
                self._plan.completed(token, outputs)
            self._free.put(None)
