"""Samples that take several calls of the engine each: a sliding window, a decoder that goes on until it is done.

A benchmark writes such a sample as a generator, ``loop(sample)``: it yields inputs of the engine, any number of rows at
once, is sent the outputs of those rows, and returns the response. Rows of all samples under way share batches, so that
a loop knows nothing of batching, and a batch is as full as there is work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

import numpy as np

from harness.backends import LoadPlan, Outputs, Session, Token
from harness.errors import HarnessError
from harness.qsl import Arrays, Rows, take_rows

Loop = Callable[[Arrays], Generator[Arrays, Outputs, np.ndarray]]
_Finish = Callable[[np.ndarray | None, BaseException | None], None]


@dataclass(slots=True, eq=False)
class _RunningSample:
    """A sample under way, and the rows that it waits for. ``given``: rows submitted; ``left``: rows not back yet."""

    steps: Generator[Arrays, Outputs, np.ndarray]
    finish: _Finish
    asked: Arrays = field(default_factory=dict)
    rows: int = 0
    given: int = 0
    left: int = 0
    outputs: list[np.ndarray] = field(default_factory=list)


_Part = tuple[_RunningSample, int, int]  # first row of those that it asked for, and how many


class LoopSession:
    """A session whose batches are single samples. One thread advances them; completions come from there as well."""

    batch_size = 1
    sizes: Sequence[int] = ()

    def __init__(self, load: Callable[[LoadPlan], Session], plan: LoadPlan, loop: Loop, *, at_once: int = 0) -> None:
        """``at_once``: samples under way at most; 0 for as many as could fill every batch in flight."""
        self._plan, self._loop = plan, loop
        self._inner = load(replace(plan, completed=self._arrived, failed=self._lost))
        self._size = self._inner.batch_size
        # Where a session copies what it is given, its rows can be changed only while nothing is in flight.
        self._in_place = bool(getattr(self._inner, "reads_in_place", False))
        self._free = list(range(plan.depth if self._in_place else 1))
        self._pools = len(self._free)
        self._room = threading.Semaphore(limit := at_once or self._size * self._pools)
        self._limit = limit
        self._slots: dict[str, np.ndarray] = {}
        self._samples: Mapping[str, Any] = {}
        self._waiting: list[_RunningSample] = []  # with rows that are not submitted yet
        self._chunks: dict[int, tuple[int, list[_Part]]] = {}
        self._number = 0
        self._events: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.notes: Mapping[str, Any] = {**self._inner.notes, "samples_at_once": limit}

    def place(self, samples: Arrays) -> None:
        self._samples = samples

    def compute(self, rows: Rows) -> Outputs:
        done: SimpleQueue[tuple[np.ndarray | None, BaseException | None]] = SimpleQueue()
        positions = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        for row in positions:
            self._room.acquire()
            self._begin(row, lambda answer, error: done.put((answer, error)))
        answers = []
        for _ in positions:  # of one sample at a time: ``batch_size`` is 1
            answer, error = done.get()
            if error is not None or answer is None:
                raise error or RuntimeError("a loop ended without an answer")
            answers.append(answer)
        return answers

    def submit(self, rows: Rows, token: Token) -> None:
        self._room.acquire()

        def finish(answer: np.ndarray | None, error: BaseException | None) -> None:
            if error is not None or answer is None:
                self._plan.failed(token, error or RuntimeError("a loop ended without an answer"))
            else:
                self._plan.completed(token, [answer])

        self._begin(rows.start if isinstance(rows, slice) else int(rows[0]), finish)

    def ready(self) -> None:
        self._room.acquire()
        self._room.release()

    def drain(self) -> None:
        for _ in range(self._limit):
            self._room.acquire()
        for _ in range(self._limit):
            self._room.release()
        self._inner.drain()

    def close(self) -> None:
        if self._thread is not None:
            self._events.put(None)
            self._thread.join()
        self._inner.close()

    # From here on everything runs on the session's own thread, but ``_arrived`` and ``_lost``.

    def _begin(self, row: int, finish: _Finish) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="loops", daemon=True)
            self._thread.start()
        sample = {name: array[row] for name, array in self._samples.items()}
        self._events.put(lambda: self._advance(_RunningSample(self._loop(sample), finish), None))

    def _serve(self) -> None:
        while (event := self._events.get()) is not None:
            event()
            self._fill()

    def _advance(self, running: _RunningSample, outputs: Outputs | None) -> None:
        """To the next rows that it asks for, or to its end."""
        try:
            asked = running.steps.send(outputs) if outputs is not None else next(running.steps)
            rows = {len(array) for array in asked.values()}
            if len(rows) != 1 or 0 in rows:
                raise HarnessError(f"a loop asked for inputs of {sorted(rows)} rows", "input", "correct loop()")
        except StopIteration as end:
            self._end(running, np.ascontiguousarray(end.value), None)
        except Exception as error:
            self._end(running, None, error)
        else:
            running.asked, running.rows, running.given, running.outputs = asked, rows.pop(), 0, []
            running.left = running.rows
            self._waiting.append(running)

    def _end(self, running: _RunningSample, answer: np.ndarray | None, error: BaseException | None) -> None:
        running.finish(answer, error)
        self._room.release()

    def _fill(self) -> None:
        """Submit batches while there are rows, and room for them."""
        while self._free and self._waiting:
            parts = self._cut()
            pool = self._free.pop()
            first = pool * self._size
            try:
                count = self._write(parts, first)
                self._number += 1
                self._chunks[self._number] = (pool, parts)
                self._inner.submit(slice(first, first + count), [self._number])
            except Exception as error:
                self._chunks.pop(self._number, None)
                self._give_up(pool, parts, error)

    def _cut(self) -> list[_Part]:
        """The rows of the next batch, from those that wait longest."""
        parts: list[_Part] = []
        room = self._size
        while room and self._waiting:
            running = self._waiting[0]
            count = min(room, running.rows - running.given)
            parts.append((running, running.given, count))
            running.given += count
            room -= count
            if running.given == running.rows:
                self._waiting.pop(0)
        return parts

    def _write(self, parts: Sequence[_Part], first: int) -> int:
        fresh = not self._slots
        if fresh:
            asked = parts[0][0].asked
            rows = self._pools * self._size
            self._slots = {name: np.zeros((rows, *array.shape[1:]), array.dtype) for name, array in asked.items()}
        at = first
        for running, start, count in parts:
            for name, array in running.asked.items():
                self._slots[name][at : at + count] = array[start : start + count]
            at += count
        if fresh or not self._in_place:
            self._inner.place(self._slots)
        return at - first

    def _arrived(self, token: Token, outputs: Outputs) -> None:
        """On any thread. Outputs are valid until this returns."""
        _, parts = self._chunks[token[0]]
        taken, at = [], 0
        for _, _, count in parts:
            taken.append([np.array(output[at : at + count]) for output in outputs])
            at += count
        self._events.put(lambda: self._take(token[0], taken))

    def _lost(self, token: Token, error: BaseException) -> None:
        pool, parts = self._chunks[token[0]]
        self._events.put(lambda: self._give_up(pool, parts, error))

    def _take(self, number: int, taken: Sequence[Sequence[np.ndarray]]) -> None:
        pool, parts = self._chunks.pop(number)
        self._free.append(pool)
        for (running, start, count), outputs in zip(parts, taken, strict=True):
            if count == running.rows:
                running.outputs = list(outputs)
            else:
                if not running.outputs:
                    running.outputs = [np.empty((running.rows, *output.shape[1:]), output.dtype) for output in outputs]
                for whole, output in zip(running.outputs, outputs, strict=True):
                    whole[start : start + count] = output
            running.left -= count
            if not running.left:
                self._advance(running, running.outputs)

    def _give_up(self, pool: int, parts: Sequence[_Part], error: BaseException) -> None:
        self._free.append(pool)
        for running, _, _ in parts:
            if running.left > 0:  # else another batch of it has failed before
                running.left = -1
                if running in self._waiting:
                    self._waiting.remove(running)
                self._end(running, None, error)


def load_loops(load: Callable[[LoadPlan], Session], plan: LoadPlan, loop: Loop | None, at_once: int) -> Session:
    """The backend's own session where a benchmark has no loop."""
    return LoopSession(load, plan, loop, at_once=at_once) if loop else load(plan)


def warm_rows(samples: Arrays, count: int) -> dict[str, Any]:
    """The first samples, in memory that may be written."""
    return {name: take_rows(array, np.arange(count)) for name, array in samples.items()}
