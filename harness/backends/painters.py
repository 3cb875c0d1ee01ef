"""Threads that draw pictures: each with a pipeline of its own, a batch at a time.

A graph that PyTorch captured belongs to the thread that captured it. So whatever is drawn is drawn by these threads,
also when a caller waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from harness.backends import LoadPlan, Outputs, Token
from harness.qsl import Arrays, Rows

Done = Callable[[Outputs | None, BaseException | None], None]


class Painter(Protocol):
    """A pipeline of one thread."""

    def paint(self, samples: Mapping[str, np.ndarray]) -> Outputs:
        """A batch of samples -> their pictures."""


@dataclass(frozen=True, slots=True)
class _Asked:
    samples: Mapping[str, np.ndarray]
    done: Done


class PaintingSession:
    """A session over painters; ``open_painters`` are called each on its own thread, one after the other."""

    def __init__(
        self, plan: LoadPlan, open_painters: Sequence[Callable[[], Painter]], notes: Mapping[str, Any], *, padded: bool
    ) -> None:
        """``padded``: a painter computes whole batches only, and repeats the last sample to fill one up."""
        self.batch_size = plan.batch_size
        self.sizes: Sequence[int] = (plan.batch_size,) if padded else ()
        self.notes = notes
        self._plan, self._padded = plan, padded
        self._samples: Arrays = {}
        self._work: SimpleQueue[_Asked | None] = SimpleQueue()
        workers = len(open_painters)
        self._depth = workers if plan.scenario == "Server" else 2 * workers
        self._room = threading.Semaphore(self._depth)
        self._threads: list[threading.Thread] = []
        for number, open_painter in enumerate(open_painters):
            opened: SimpleQueue[BaseException | None] = SimpleQueue()
            thread = threading.Thread(
                target=self._serve, args=(open_painter, opened), name=f"painter-{number}", daemon=True
            )
            thread.start()
            if (error := opened.get()) is not None:
                self.close()
                raise error
            self._threads.append(thread)

    def place(self, samples: Arrays) -> None:
        self._samples = samples

    def compute(self, rows: Rows) -> Outputs:
        answered: SimpleQueue[tuple[Outputs | None, BaseException | None]] = SimpleQueue()
        self._work.put(_Asked(self._take(rows), lambda outputs, error: answered.put((outputs, error))))
        outputs, error = answered.get()
        if outputs is None:
            raise error or RuntimeError("a painter gave neither pictures nor an error")
        return outputs

    def submit(self, rows: Rows, token: Token) -> None:
        self._room.acquire()

        def finish(outputs: Outputs | None, error: BaseException | None) -> None:
            if outputs is None:
                self._plan.failed(token, error or RuntimeError("a painter gave neither pictures nor an error"))
            else:
                self._plan.completed(token, outputs)
            self._room.release()

        self._work.put(_Asked(self._take(rows), finish))

    def ready(self) -> None:
        self._room.acquire()
        self._room.release()

    def drain(self) -> None:
        for _ in range(self._depth):
            self._room.acquire()
        for _ in range(self._depth):
            self._room.release()

    def close(self) -> None:
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _take(self, rows: Rows) -> dict[str, np.ndarray]:
        return {name: array[rows] for name, array in self._samples.items()}

    def _serve(self, open_painter: Callable[[], Painter], opened: SimpleQueue[BaseException | None]) -> None:
        try:
            painter = open_painter()
        except BaseException as error:  # the thread that loads raises it
            opened.put(error)
            return
        opened.put(None)
        while (asked := self._work.get()) is not None:
            try:
                outputs = self._paint(painter, asked.samples)
            except Exception as error:  # whatever the library raises belongs to this batch
                asked.done(None, error)
            else:
                asked.done(outputs, None)

    def _paint(self, painter: Painter, samples: Mapping[str, np.ndarray]) -> Outputs:
        count = len(next(iter(samples.values())))
        if not self._padded or count == self.batch_size:
            return painter.paint(samples)
        rows = np.minimum(np.arange(self.batch_size), count - 1)
        whole = painter.paint({name: array[rows] for name, array in samples.items()})
        return [output[:count] for output in whole]
