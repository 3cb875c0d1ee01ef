"""Combine rows that loops request from one engine into batches, and return the outputs to the loops."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.backends import Outputs, Session
from harness.errors import HarnessError
from harness.run.qsl import Arrays

# A sample in progress that needs several engine calls: the rows it waits for, and the outputs it has received.

Asked = Arrays | tuple[str, Arrays]
"""The engine's inputs, name -> rows; preceded by the name of the part if the model has several."""
Steps = Generator[Asked, Outputs, np.ndarray]
Outcome = np.ndarray | BaseException
Finish = Callable[[Outcome], None]
"""Called once, when a sample has ended, with its answer or with an error."""


@dataclass(frozen=True, slots=True)
class LoopEnd:
    outcome: Outcome


class OutputMemory:
    """Memory for the outputs of a session's samples. ``reused``: loops read outputs only until their next request, so
    that the memory can be used again. Providing new memory for hundreds of megabytes takes longer than copying them."""

    def __init__(self, *, reused: bool = False) -> None:
        self._reused = reused
        self._spare: dict[tuple[Any, ...], list[np.ndarray]] = {}

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        try:
            return self._spare[shape, dtype].pop()
        except (KeyError, IndexError):
            return np.empty(shape, dtype)

    def give_back(self, outputs: Sequence[np.ndarray]) -> None:
        if self._reused:
            for output in outputs:
                self._spare.setdefault((output.shape, output.dtype), []).append(output)


@dataclass(slots=True, eq=False)
class RunningSample:
    """``given``: how many requested rows are in a batch; ``left``: how many rows wait for their outputs."""

    steps: Steps
    finish: Finish
    memory: OutputMemory
    asked: Arrays = field(default_factory=dict)
    rows: int = 0
    given: int = 0
    left: int = 0
    outputs: list[np.ndarray] = field(default_factory=list)

    def advance(self) -> Asked | LoopEnd:
        """Advance to its next request, or to its end, by the loop's own computation, on any thread."""
        try:
            try:
                return self.steps.send(self.outputs) if self.outputs else next(self.steps)
            except StopIteration as end:
                return LoopEnd(np.ascontiguousarray(end.value))
            finally:
                self.memory.give_back(self.outputs)
        except BaseException as error:  # an exit would end its thread, unnoticed
            return LoopEnd(error)

    def ask(self, asked: Arrays, rows: int) -> None:
        self.asked, self.rows, self.given, self.left, self.outputs = asked, rows, 0, rows, []


Share = tuple[RunningSample, int, int]  # the first requested row, and how many rows


class RowBatches:
    """One engine, and the rows that wait for it. ``pools``: how many batches are assembled in parallel, each in its own
    pool.

    ``write`` and ``take_back`` may run at the same time for different batches; the other methods are for one thread at
    a time.
    """

    def __init__(self, engine: Session, pools: int) -> None:
        self.engine, self.size = engine, engine.batch_size
        # If a session copies its inputs, rows can be changed only while nothing is in flight.
        self.in_place = engine.reads_in_place
        self.pools = pools if self.in_place else 1
        self.waiting = 0  # number of rows that wait for a batch
        self._new_outputs = engine.makes_new_outputs
        self._slots: dict[str, np.ndarray] = {}
        self._asking: deque[RunningSample] = deque()  # samples with rows that are not yet in a batch
        self._sharing = threading.Lock()

    def add(self, running: RunningSample) -> None:
        self._asking.append(running)
        self.waiting += running.rows

    def cut(self) -> list[Share]:
        """Take the rows of the next batch, starting with those that have waited longest."""
        shares: list[Share] = []
        room = self.size
        while room and self._asking:
            running = self._asking[0]
            count = min(room, running.rows - running.given)
            shares.append((running, running.given, count))
            running.given += count
            room -= count
            if running.given == running.rows:
                self._asking.popleft()
        self.waiting -= self.size - room
        return shares

    def make_room(self, shares: Sequence[Share]) -> bool:
        """Allocate all pools on the first batch; return True if this call did so. Afterwards ``in_place`` is False if
        the engine cannot read in place; such an engine receives the rows from ``write``, once they are written."""
        if self._slots:
            return False
        rows = self.pools * self.size
        asked = shares[0][0].asked
        self._slots = {name: np.zeros((rows, *array.shape[1:]), array.dtype) for name, array in asked.items()}
        if self.in_place:
            self.engine.place(self._slots)
            self.in_place = self.engine.reads_in_place
        return True

    def write(self, shares: Sequence[Share], pool: int) -> slice:
        """Write a batch's rows into its pool; return where the engine finds them."""
        first = at = pool * self.size
        for running, start, count in shares:
            for name, array in running.asked.items():
                self._slots[name][at : at + count] = array[start : start + count]
            at += count
        if not self.in_place:
            self.engine.place(self._slots)
        return slice(first, at)

    def take_back(self, shares: Sequence[Share], outputs: Outputs) -> None:
        """Distribute the engine's outputs of a batch. They need to be valid only until this returns."""
        at = 0
        for running, start, count in shares:
            parts = [output[at : at + count] for output in outputs]
            at += count
            if self._new_outputs and count == running.rows:
                running.outputs = parts
                continue
            with self._sharing:
                if not running.outputs:
                    take, rows = running.memory.take, running.rows
                    running.outputs = [take((rows, *part.shape[1:]), part.dtype) for part in parts]
            for whole, part in zip(running.outputs, parts, strict=True):
                whole[start : start + count] = part

    def list_answered(self, shares: Sequence[Share]) -> list[RunningSample]:
        """List the samples of a distributed batch that have all of their rows."""
        answered = []
        for running, _, count in shares:
            running.left -= count
            if not running.left:
                answered.append(running)
        return answered

    def give_up(self, shares: Sequence[Share]) -> list[RunningSample]:
        """Give up the samples of a failed batch, except those given up with an earlier batch."""
        lost = []
        for running, _, _ in shares:
            if running.left > 0:
                running.left = 0
                if running in self._asking:
                    self._asking.remove(running)
                    self.waiting -= running.rows - running.given
                lost.append(running)
        return lost


Engines = Mapping[str, RowBatches]
"""The engine of each part with its rows, by part name; "" if the model has no parts."""


def ask_next(engines: Engines, running: RunningSample) -> RowBatches | LoopEnd:
    """Advance a sample to its next request; return the engine for it, or the loop's end."""
    asked = running.advance()
    if isinstance(asked, LoopEnd):
        return asked
    try:
        engine, inputs = _find_engine(engines, asked)
        rows = {len(array) for array in inputs.values()}
        if len(rows) != 1 or 0 in rows:
            raise HarnessError(f"a loop requested inputs of {sorted(rows)} rows", "input", "correct loop()")
    except Exception as error:
        return LoopEnd(error)
    running.ask(inputs, rows.pop())
    return engine


def _find_engine(engines: Engines, asked: Asked) -> tuple[RowBatches, Arrays]:
    part, inputs = asked if isinstance(asked, tuple) else ("", asked)
    if part not in engines:
        known = ", ".join(name for name in engines if name) or "its only part, which is unnamed"
        raise HarnessError(f"a loop requested the part {part!r} of its model", "input", f"ask for {known}")
    return engines[part], inputs
