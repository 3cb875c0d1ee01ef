"""Samples of many rows that need one engine call each: batches of whole samples, processed together.

A loop (harness.run.loops) would process samples one by one; here Python does as much work for a batch of hundreds as
for a batch of two. Rows are not moved: the engine's session gathers those of a batch itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.backends import LoadPlan, Outputs, Session, Token
from harness.run.qsl import Arrays, Rows, count_rows

ENOUGH = 8
"""A batch must fit this many of the largest samples. Samples are not divided, so with fewer, too much of a batch would
stay empty."""


@dataclass(frozen=True, slots=True)
class OneCall:
    """``inputs``: the engine's inputs; ``least_rows`` and ``most_rows``: limits for a sample; ``answer``: maps outputs
    of rows, and the rows' other values, to a response for each row."""

    inputs: tuple[str, ...]
    least_rows: int
    most_rows: int
    answer: Callable[[Outputs, Arrays], np.ndarray]


class OneCallSession(Session):
    """Cuts batches by the rows of their samples."""

    fits_by_size = True

    def __init__(self, load: Callable[[LoadPlan], Session], plan: LoadPlan, one_call: OneCall) -> None:
        self._plan, self._one_call = plan, one_call
        self._engine = load(replace(plan, completed=self._receive_outputs, failed=self._report_failure))
        self.batch_size = max(1, self._engine.batch_size // one_call.least_rows)
        self.surely_fit = max(1, self._engine.batch_size // one_call.most_rows)
        self._bounds = np.zeros(1, np.intp)
        self._others: dict[str, np.ndarray] = {}
        self._batches: dict[int, tuple[Rows, NDArray[np.intp]]] = {}  # their rows, and the number of rows per sample
        self.notes: Mapping[str, Any] = self._engine.notes
        self.evidence = self._engine.evidence

    def place(self, samples: Arrays) -> None:
        sizes = np.array([len(sample) for sample in samples[self._one_call.inputs[0]]])
        self._bounds = np.concatenate([np.zeros(1, np.intp), np.cumsum(sizes)])
        flat = {name: np.concatenate(list(rows)) for name, rows in samples.items()}
        self._others = {name: rows for name, rows in flat.items() if name not in self._one_call.inputs}
        self._engine.place({name: flat[name] for name in self._one_call.inputs})

    def fit(self, samples: Rows) -> int:
        rows = np.cumsum(self._find(samples)[1])
        return max(1, int(np.searchsorted(rows, self._engine.batch_size, "right")))

    def compute(self, samples: Rows) -> Outputs:
        """Compute in as many batches as needed: a warm-up passes more samples than fit into one."""
        found: list[np.ndarray] = []
        left = np.arange(samples.start, samples.stop) if isinstance(samples, slice) else samples
        while len(left):
            count = self.fit(left)
            rows, sizes = self._list_rows(left[:count])
            found += self._answer(rows, sizes, self._engine.compute(rows))
            left = left[count:]
        return found

    def submit(self, samples: Rows, token: Token) -> None:
        rows, sizes = self._list_rows(samples)
        self._batches[token[0]] = rows, sizes
        try:
            self._engine.submit(rows, token)
        except BaseException:
            del self._batches[token[0]]
            raise

    def ready(self) -> None:
        self._engine.ready()

    def drain(self) -> None:
        self._engine.drain()

    def close(self) -> None:
        self._engine.close()

    def _find(self, samples: Rows) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Find the first row and the number of rows of each sample."""
        firsts = self._bounds[:-1][samples]
        return firsts, self._bounds[1:][samples] - firsts

    def _list_rows(self, samples: Rows) -> tuple[Rows, NDArray[np.intp]]:
        firsts, sizes = self._find(samples)
        total = int(sizes.sum())
        if total == firsts[-1] + sizes[-1] - firsts[0] and (np.diff(firsts) == sizes[:-1]).all():
            return slice(int(firsts[0]), int(firsts[0]) + total), sizes
        before = np.cumsum(sizes) - sizes
        return np.repeat(firsts - before, sizes) + np.arange(total), sizes

    def _answer(self, rows: Rows, sizes: NDArray[np.intp], outputs: Outputs) -> list[np.ndarray]:
        others = {name: array[rows] for name, array in self._others.items()}
        answers = np.ascontiguousarray(self._one_call.answer([part[: count_rows(rows)] for part in outputs], others))
        ends = np.cumsum(sizes).tolist()
        return [answers[first:last] for first, last in zip([0, *ends], ends, strict=False)]

    def _receive_outputs(self, token: Token, outputs: Outputs) -> None:
        """Called on any thread."""
        rows, sizes = self._batches.pop(token[0])
        try:
            answers = self._answer(rows, sizes, outputs)
        except Exception as error:
            self._plan.failed(token, error)
        else:
            self._plan.completed(token, answers)

    def _report_failure(self, token: Token, error: BaseException) -> None:
        self._batches.pop(token[0], None)
        self._plan.failed(token, error)
