"""Rows that loops ask of one engine, put together into its batches, and its outputs back to who asked."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.backends import Outputs, Session
from harness.errors import HarnessError
from harness.run.qsl import Arrays

# A sample that takes several calls of the engine, under way: what it waits for, and what came back of it.

Asked = Arrays | tuple[str, Arrays]
"""Inputs of the engine, name -> rows; with the part's name before them where a model has several."""
Steps = Generator[Asked, Outputs, np.ndarray]
Finish = Callable[[np.ndarray | None, BaseException | None], None]
"""Told once how a sample ended: with its answer, or with an error."""


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """With one of both."""

    answer: np.ndarray | None = None
    error: BaseException | None = None


@dataclass(slots=True, eq=False)
class RunningSample:
    """``given``: rows of those that it asked for which are in a batch; ``left``: rows not back yet."""

    steps: Steps
    finish: Finish
    asked: Arrays = field(default_factory=dict)
    rows: int = 0
    given: int = 0
    left: int = 0
    outputs: list[np.ndarray] = field(default_factory=list)

    def advance(self) -> Asked | LoopEnd:
        """To its next question, or to its end: what the loop itself computes, on any thread."""
        try:
            try:
                return self.steps.send(self.outputs) if self.outputs else next(self.steps)
            except StopIteration as end:
                return LoopEnd(answer=np.ascontiguousarray(end.value))
        except BaseException as error:  # one that exits ends its thread, unnoticed
            return LoopEnd(error=error)

    def ask(self, asked: Arrays, rows: int) -> None:
        self.asked, self.rows, self.given, self.left, self.outputs = asked, rows, 0, rows, []

    def end(self, ended: LoopEnd) -> None:
        self.finish(ended.answer, ended.error)


Share = tuple[RunningSample, int, int]  # first row of those that it asked for, and how many


class RowBatches:
    """One engine, and what waits for it. ``pools``: batches put together side by side, each in a pool of its own.

    ``write`` and ``take_back`` may run at the same time for different batches; all else is for one thread at a time.
    """

    def __init__(self, engine: Session, pools: int) -> None:
        self.engine, self.size = engine, engine.batch_size
        # Where a session copies what it is given, its rows can be changed only while nothing is in flight.
        self.in_place = bool(getattr(engine, "reads_in_place", False))
        self.pools = pools if self.in_place else 1
        self.waiting = 0  # rows
        self._new_outputs = bool(getattr(engine, "makes_new_outputs", False))
        self._slots: dict[str, np.ndarray] = {}
        self._asking: deque[RunningSample] = deque()  # with rows that are in no batch yet
        self._sharing = threading.Lock()

    def add(self, running: RunningSample) -> None:
        self._asking.append(running)
        self.waiting += running.rows

    def cut(self) -> list[Share]:
        """The rows of the next batch, from those that wait longest."""
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
        """For all pools, with the first batch: whether there was none. ``in_place`` is False afterwards if the engine
        could not. One that copies what it is given is given it by ``write``, once the rows are there."""
        if self._slots:
            return False
        rows = self.pools * self.size
        asked = shares[0][0].asked
        self._slots = {name: np.zeros((rows, *array.shape[1:]), array.dtype) for name, array in asked.items()}
        if self.in_place:
            self.engine.place(self._slots)
            self.in_place = bool(getattr(self.engine, "reads_in_place", False))
        return True

    def write(self, shares: Sequence[Share], pool: int) -> slice:
        """A batch's rows into its pool; where the engine finds them."""
        first = at = pool * self.size
        for running, start, count in shares:
            for name, array in running.asked.items():
                self._slots[name][at : at + count] = array[start : start + count]
            at += count
        if not self.in_place:
            self.engine.place(self._slots)
        return slice(first, at)

    def take_back(self, shares: Sequence[Share], outputs: Outputs) -> None:
        """Take the engine's outputs of a batch. They need only be valid until this returns."""
        at = 0
        for running, start, count in shares:
            parts = [output[at : at + count] for output in outputs]
            at += count
            if count == running.rows:
                running.outputs = parts if self._new_outputs else [np.array(part) for part in parts]
                continue
            with self._sharing:
                if not running.outputs:
                    running.outputs = [np.empty((running.rows, *part.shape[1:]), part.dtype) for part in parts]
            for whole, part in zip(running.outputs, parts, strict=True):
                whole[start : start + count] = part

    def list_answered(self, shares: Sequence[Share]) -> list[RunningSample]:
        """List the samples of a batch that was taken back that have all of their rows."""
        answered = []
        for running, _, count in shares:
            running.left -= count
            if not running.left:
                answered.append(running)
        return answered

    def give_up(self, shares: Sequence[Share]) -> list[RunningSample]:
        """Give up the samples of a batch that failed, without those of which another batch has failed before."""
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
"""By the name of the part, "" where a model is one."""


def ask_next(engines: Engines, running: RunningSample) -> RowBatches | LoopEnd:
    """Take a sample to its next question: the engine that is to be asked, or how the sample ended."""
    asked = running.advance()
    if isinstance(asked, LoopEnd):
        return asked
    try:
        engine, inputs = _find_engine(engines, asked)
        rows = {len(array) for array in inputs.values()}
        if len(rows) != 1 or 0 in rows:
            raise HarnessError(f"a loop asked for inputs of {sorted(rows)} rows", "input", "correct loop()")
    except Exception as error:
        return LoopEnd(error=error)
    running.ask(inputs, rows.pop())
    return engine


def _find_engine(engines: Engines, asked: Asked) -> tuple[RowBatches, Arrays]:
    part, inputs = asked if isinstance(asked, tuple) else ("", asked)
    if part not in engines:
        known = ", ".join(name for name in engines if name) or "its only one, which has no name"
        raise HarnessError(f"a loop asked for the part {part!r} of its model", "input", f"ask for {known}")
    return engines[part], inputs
