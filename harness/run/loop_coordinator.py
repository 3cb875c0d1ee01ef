"""Loops over engines that compute elsewhere: one thread sees to all samples, and batches come back as events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from harness.backends import Outputs, Token
from harness.run.row_batches import Engines, RowBatches, Share, ask_next
from harness.run.running_sample import LoopEnd, RunningSample


class InFlight:
    """Batches of one engine in flight, by their numbers. Only ``arrived`` and ``lost`` are called elsewhere: by the
    engine, on any thread."""

    def __init__(
        self,
        events: SimpleQueue[Callable[[], None] | None],
        answered: Callable[[RunningSample], None],
    ) -> None:
        self._events, self._answered = events, answered
        self._batches: dict[int, tuple[int, list[Share]]] = {}
        self._number = 0
        self.rows: RowBatches  # once the engine is loaded, which takes this object's methods
        self._free: list[int] = []

    def open(self, rows: RowBatches) -> None:
        self.rows, self._free = rows, list(range(rows.pools))

    def fill(self) -> None:
        """Submit batches while there are rows, and room for them."""
        while self._free and self.rows.waiting:
            shares, pool = self.rows.cut(), self._free.pop()
            self._number += 1
            try:
                self.rows.make_room(shares)
                if not self.rows.in_place:
                    self._free = []  # this batch's rows are the only ones
                rows = self.rows.write(shares, pool)
                self._batches[self._number] = (pool, shares)
                self.rows.engine.submit(rows, [self._number])
            except Exception as error:
                self._batches.pop(self._number, None)
                self._give_up(pool, shares, error)

    def arrived(self, token: Token, outputs: Outputs) -> None:
        pool, shares = self._batches[token[0]]
        self.rows.take_back(shares, outputs)
        self._events.put(lambda: self._settle(token[0], pool, shares))

    def lost(self, token: Token, error: BaseException) -> None:
        pool, shares = self._batches[token[0]]
        self._events.put(lambda: self._give_up(pool, shares, error))

    def _settle(self, number: int, pool: int, shares: Sequence[Share]) -> None:
        del self._batches[number]
        self._free.append(pool)
        for running in self.rows.list_answered(shares):
            self._answered(running)

    def _give_up(self, pool: int, shares: Sequence[Share], error: BaseException) -> None:
        self._free.append(pool)
        for running in self.rows.give_up(shares):
            running.end(LoopEnd(error=error))


class LoopCoordinator:
    """The computation of a loop between two questions is done on its thread too, or by ``step_threads`` threads."""

    def __init__(self, step_threads: int) -> None:
        self._events: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._steps = ThreadPoolExecutor(step_threads, "steps") if step_threads else None
        self._engines: Engines = {}
        self._in_flight: dict[str, InFlight] = {}
        self._thread: threading.Thread | None = None

    def expect(self, part: str) -> InFlight:
        """Take the callbacks for the engine of a part when batches are done."""
        self._in_flight[part] = InFlight(self._events, self._advance)
        return self._in_flight[part]

    def open(self, engines: Engines) -> None:
        self._engines = engines
        for part, rows in engines.items():
            self._in_flight[part].open(rows)

    def begin(self, running: RunningSample) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="loops", daemon=True)
            thread.start()
            self._thread = thread
        self._events.put(lambda: self._advance(running))

    def close(self) -> None:
        if self._thread is not None:
            self._events.put(None)
            self._thread.join()
        if self._steps is not None:
            self._steps.shutdown()

    # From here on everything runs on its own thread.

    def _serve(self) -> None:
        while (event := self._events.get()) is not None:
            event()
            for engine in self._in_flight.values():
                engine.fill()

    def _advance(self, running: RunningSample) -> None:
        """To the next rows that it asks for, or to its end."""
        if self._steps is None:
            self._go_on(running, ask_next(self._engines, running))
        else:
            stepping = self._steps.submit(ask_next, self._engines, running)
            stepping.add_done_callback(lambda done: self._events.put(lambda: self._go_on(running, done.result())))

    def _go_on(self, running: RunningSample, asked: RowBatches | LoopEnd) -> None:
        if isinstance(asked, LoopEnd):
            running.end(asked)
        else:
            asked.add(running)
