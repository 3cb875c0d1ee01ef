"""Rows that loops ask of one engine, put together into its batches, and its outputs back to who asked."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

import numpy as np

from harness.backends import LoadPlan, Outputs, Session, Token
from harness.qsl import Arrays

Asked = Arrays | tuple[str, Arrays]
"""Inputs of the engine, name -> rows; with the part's name before them where a model has several."""
Steps = Generator[Asked, Outputs, np.ndarray]
Finish = Callable[[np.ndarray | None, BaseException | None], None]


@dataclass(slots=True, eq=False)
class RunningSample:
    """A sample under way, and the rows that it waits for. ``given``: rows submitted; ``left``: rows not back yet."""

    steps: Steps
    finish: Finish
    asked: Arrays = field(default_factory=dict)
    rows: int = 0
    given: int = 0
    left: int = 0
    outputs: list[np.ndarray] = field(default_factory=list)

    def ask(self, asked: Arrays, rows: int) -> None:
        self.asked, self.rows, self.given, self.left, self.outputs = asked, rows, 0, rows, []


Share = tuple[RunningSample, int, int]  # first row of those that it asked for, and how many


class RowBatches:
    """One engine, and what waits for it. Everything runs on the thread that takes ``events``, but what the engine
    calls; those calls become events.

    ``returned``: a sample has its rows back. ``failed``: a batch of it did not succeed.
    """

    def __init__(
        self,
        load: Callable[[LoadPlan], Session],
        plan: LoadPlan,
        events: SimpleQueue[Callable[[], None] | None],
        returned: Callable[[RunningSample], None],
        failed: Callable[[RunningSample, BaseException], None],
    ) -> None:
        self._events, self._returned, self._failed = events, returned, failed
        self.engine = load(replace(plan, completed=self._arrived, failed=self._lost))
        self.size = self.engine.batch_size
        # Where a session copies what it is given, its rows can be changed only while nothing is in flight.
        self._in_place = bool(getattr(self.engine, "reads_in_place", False))
        self._new_outputs = bool(getattr(self.engine, "makes_new_outputs", False))
        self.pools = plan.depth if self._in_place else 1
        self._free = list(range(self.pools))
        self._slots: dict[str, np.ndarray] = {}
        self._waiting: list[RunningSample] = []  # with rows that are not submitted yet
        self._batches: dict[int, tuple[int, list[Share]]] = {}
        self._number = 0

    def add(self, running: RunningSample) -> None:
        self._waiting.append(running)

    def fill(self) -> None:
        """Submit batches while there are rows, and room for them."""
        while self._free and self._waiting:
            shares = self._cut()
            pool = self._free.pop()
            first = pool * self.size
            try:
                count = self._write(shares, first)
                self._number += 1
                self._batches[self._number] = (pool, shares)
                self.engine.submit(slice(first, first + count), [self._number])
            except Exception as error:
                self._batches.pop(self._number, None)
                self._give_up(pool, shares, error)

    def _cut(self) -> list[Share]:
        """The rows of the next batch, from those that wait longest."""
        shares: list[Share] = []
        room = self.size
        while room and self._waiting:
            running = self._waiting[0]
            count = min(room, running.rows - running.given)
            shares.append((running, running.given, count))
            running.given += count
            room -= count
            if running.given == running.rows:
                self._waiting.pop(0)
        return shares

    def _write(self, shares: Sequence[Share], first: int) -> int:
        fresh = not self._slots
        if fresh:
            asked = shares[0][0].asked
            rows = self.pools * self.size
            self._slots = {name: np.zeros((rows, *array.shape[1:]), array.dtype) for name, array in asked.items()}
        at = first
        for running, start, count in shares:
            for name, array in running.asked.items():
                self._slots[name][at : at + count] = array[start : start + count]
            at += count
        if fresh or not self._in_place:
            self.engine.place(self._slots)
        if fresh and self._in_place and not getattr(self.engine, "reads_in_place", False):
            self._in_place, self._free = False, []  # it could not: from here on this batch's rows are the only ones
        return at - first

    def _arrived(self, token: Token, outputs: Outputs) -> None:
        """On any thread. Outputs are valid until this returns, unless the engine never writes to them again."""
        _, shares = self._batches[token[0]]
        taken, at = [], 0
        for _, _, count in shares:
            parts = [output[at : at + count] for output in outputs]
            taken.append(parts if self._new_outputs else [np.array(part) for part in parts])
            at += count
        self._events.put(lambda: self._take(token[0], taken))

    def _lost(self, token: Token, error: BaseException) -> None:
        pool, shares = self._batches[token[0]]
        self._events.put(lambda: self._give_up(pool, shares, error))

    def _take(self, number: int, taken: Sequence[Sequence[np.ndarray]]) -> None:
        pool, shares = self._batches.pop(number)
        self._free.append(pool)
        for (running, start, count), outputs in zip(shares, taken, strict=True):
            if count == running.rows:
                running.outputs = list(outputs)
            else:
                if not running.outputs:
                    running.outputs = [np.empty((running.rows, *output.shape[1:]), output.dtype) for output in outputs]
                for whole, output in zip(running.outputs, outputs, strict=True):
                    whole[start : start + count] = output
            running.left -= count
            if not running.left:
                self._returned(running)

    def _give_up(self, pool: int, shares: Sequence[Share], error: BaseException) -> None:
        self._free.append(pool)
        for running, _, _ in shares:
            if running.left > 0:  # else another batch of it has failed before
                running.left = -1
                if running in self._waiting:
                    self._waiting.remove(running)
                self._failed(running, error)
