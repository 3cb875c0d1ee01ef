"""A sample that takes several calls of the engine, under way: what it waits for, and what came back of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import numpy as np

from harness.backends import Outputs
from harness.run.qsl import Arrays

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
