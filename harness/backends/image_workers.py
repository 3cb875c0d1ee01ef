"""Threads that generate images, each with its own pipeline, one batch at a time.

A graph captured by PyTorch belongs to the thread that captured it. So these threads generate all images, even if a
caller waits for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from harness.backends import LoadPlan, Outputs, Session, Token
from harness.run.pool import Pool
from harness.run.qsl import Arrays, Rows

_COMPILED_WARM_UP = 3
_WARM_UP_STEPS = 4  # of a video's twenty steps; these use both of its networks


class ImageWorker(Protocol):
    """One thread's pipeline."""

    def paint(self, samples: Mapping[str, np.ndarray], steps: int | None = None) -> Outputs:
        """Return the images of a batch of samples. ``steps``: the maximum number of steps."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A batch; one of its two callbacks receives the outcome."""

    samples: Mapping[str, np.ndarray]
    steps: int | None
    completed: Callable[[Outputs], None]
    failed: Callable[[BaseException], None]


class ImageSession(Session):
    """A session over image workers; each of ``open_workers`` is called on its own thread, one after the other."""

    def __init__(
        self,
        plan: LoadPlan,
        open_workers: Sequence[Callable[[], ImageWorker]],
        notes: Mapping[str, Any],
        *,
        padded: bool,
    ) -> None:
        """Create the session. ``padded``: a worker computes only full batches, filled by repeating the last sample."""
        self.batch_size = plan.batch_size
        self.sizes: Sequence[int] = (plan.batch_size,) if padded else ()
        self.notes = notes
        # One batch covers all first-time work, except that a compiled part records its graph later.
        self.warm_up_batches = _COMPILED_WARM_UP if padded else 1
        self._plan, self._padded = plan, padded
        self._samples: Arrays = {}
        self._work: SimpleQueue[_Asked | None] = SimpleQueue()
        self._room: Pool[None] = Pool()
        self._room.fill([None] * replace(plan, streams=len(open_workers)).depth)
        self._threads: list[threading.Thread] = []
        for number, open_worker in enumerate(open_workers):
            opened: SimpleQueue[BaseException | None] = SimpleQueue()
            thread = threading.Thread(
                target=self._serve, args=(open_worker, opened), name=f"image-worker-{number}", daemon=True
            )
            thread.start()
            if (error := opened.get()) is not None:
                self.close()
                raise error
            self._threads.append(thread)

    def place(self, samples: Arrays) -> None:
        self._samples = samples

    def compute(self, rows: Rows, steps: int | None = None) -> Outputs:
        answer: Future[Outputs] = Future()
        self._ask(rows, answer.set_result, answer.set_exception, steps)
        return answer.result()

    def warm_up(self, rows: Rows) -> Outputs:
        """Compute with few steps: all steps are alike, and a video takes minutes."""
        return self.compute(rows, _WARM_UP_STEPS)

    def submit(self, rows: Rows, token: Token) -> None:
        self._ask(rows, partial(self._plan.completed, token), partial(self._plan.failed, token))

    def close(self) -> None:
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _ask(
        self,
        rows: Rows,
        completed: Callable[[Outputs], None],
        failed: Callable[[BaseException], None],
        steps: int | None = None,
    ) -> None:
        asked = _Asked({name: array[rows] for name, array in self._samples.items()}, steps, completed, failed)
        self._room.get()
        self._work.put(asked)

    def _serve(self, open_worker: Callable[[], ImageWorker], opened: SimpleQueue[BaseException | None]) -> None:
        try:
            worker = open_worker()
        except BaseException as error:  # the loading thread raises it
            opened.put(error)
            return
        opened.put(None)
        while (asked := self._work.get()) is not None:
            try:
                outputs = self._paint(worker, asked.samples, asked.steps)
            except Exception as error:  # any error of the library fails this batch
                asked.failed(error)
            else:
                asked.completed(outputs)
            self._room.put(None)

    def _paint(self, worker: ImageWorker, samples: Mapping[str, np.ndarray], steps: int | None) -> Outputs:
        count = len(next(iter(samples.values())))
        if not self._padded or count == self.batch_size:
            return worker.paint(samples, steps)
        rows = np.minimum(np.arange(self.batch_size), count - 1)
        whole = worker.paint({name: array[rows] for name, array in samples.items()}, steps)
        return [output[:count] for output in whole]
