"""Samples that take several calls of the engine each: a sliding window, a decoder that goes on until it is done.

A benchmark writes such a sample as a generator, ``loop(sample)``: it yields inputs of the engine, any number of rows at
once, is sent the outputs of those rows, and returns the response. Where its model has several parts, an engine each, it
yields a part's name and inputs. Rows of all samples under way share batches, so that a loop knows nothing of batching,
and a batch is as full as there is work.
"""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import Any, cast

import numpy as np

from harness.backends import LoadPlan, Outputs, Session, Tensor, Token
from harness.errors import HarnessError
from harness.pool import Pool
from harness.qsl import Arrays, Rows, take_rows
from harness.row_batches import Asked, Finish, RowBatches, RunningSample, Steps

Loop = Callable[[Arrays], Steps]
Parts = Mapping[str, Sequence[Tensor]]
"""Name of a part of a model -> its outputs, for a backend without engines. Empty where the model is one."""


@dataclass(frozen=True, slots=True)
class _End:
    """How a sample ended: with one of both."""

    answer: np.ndarray | None = None
    error: BaseException | None = None


class LoopSession:
    """A session whose batches are single samples. One thread sees to all of them, and completes them; what a loop
    computes between two questions is computed there too, or by ``step_threads`` threads."""

    batch_size = 1
    sizes: Sequence[int] = ()

    def __init__(
        self,
        load: Callable[[LoadPlan], Session],
        plan: LoadPlan,
        loop: Loop,
        *,
        parts: Parts | None = None,
        at_once: int = 0,
        step_threads: int = 0,
    ) -> None:
        """``at_once``: samples under way at most; 0 for as many as could fill every batch in flight."""
        self._plan, self._loop = plan, loop
        self._events: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        plans = {part: _choose_part(plan, part, outputs) for part, outputs in (parts or {}).items()} or {"": plan}
        self._engines = {
            part: RowBatches(load, own, self._events, self._resume, self._fail) for part, own in plans.items()
        }
        limit = at_once or max(engine.size * engine.pools for engine in self._engines.values())
        self._room: Pool[None] = Pool()
        self._room.fill([None] * limit)
        self._samples: Mapping[str, Any] = {}
        self._thread: threading.Thread | None = None
        self._steps = ThreadPoolExecutor(step_threads, "steps") if step_threads else None
        first = next(iter(self._engines.values())).engine
        # The engine may add to its own until it is closed.
        self.notes: Mapping[str, Any] = ChainMap({"samples_at_once": limit}, cast(dict[str, Any], first.notes))
        self.evidence: Mapping[str, Any] = getattr(first, "evidence", {})

    def place(self, samples: Arrays) -> None:
        self._samples = samples

    def compute(self, rows: Rows) -> Outputs:
        done: SimpleQueue[tuple[np.ndarray | None, BaseException | None]] = SimpleQueue()
        positions = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        for row in positions:
            self._room.get()
            self._begin(row, lambda answer, error: done.put((answer, error)))
        answers = []
        for _ in positions:  # of one sample at a time: ``batch_size`` is 1
            answer, error = done.get()
            if error is not None or answer is None:
                raise error or RuntimeError("a loop ended without an answer")
            answers.append(answer)
        return answers

    def submit(self, rows: Rows, token: Token) -> None:
        self._room.get()

        def finish(answer: np.ndarray | None, error: BaseException | None) -> None:
            if error is not None or answer is None:
                self._plan.failed(token, error or RuntimeError("a loop ended without an answer"))
            else:
                self._plan.completed(token, [answer])

        self._begin(rows.start if isinstance(rows, slice) else int(rows[0]), finish)

    def ready(self) -> None:
        self._room.wait()

    def drain(self) -> None:
        self._room.drain()
        for engine in self._engines.values():
            engine.engine.drain()

    def close(self) -> None:
        if self._thread is not None:
            self._events.put(None)
            self._thread.join()
        if self._steps is not None:
            self._steps.shutdown()
        for engine in self._engines.values():
            engine.engine.close()

    # From here on everything runs on the session's own thread.

    def _begin(self, row: int, finish: Finish) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="loops", daemon=True)
            self._thread.start()
        sample = {name: array[row] for name, array in self._samples.items()}
        self._events.put(lambda: self._advance(RunningSample(self._loop(sample), finish), None))

    def _serve(self) -> None:
        while (event := self._events.get()) is not None:
            event()
            for engine in self._engines.values():
                engine.fill()

    def _resume(self, running: RunningSample) -> None:
        self._advance(running, running.outputs)

    def _fail(self, running: RunningSample, error: BaseException) -> None:
        self._end(running, None, error)

    def _advance(self, running: RunningSample, outputs: Outputs | None) -> None:
        """To the next rows that it asks for, or to its end."""
        if self._steps is None:
            self._go_on(running, _step(running, outputs))
        else:
            stepping = self._steps.submit(_step, running, outputs)
            stepping.add_done_callback(lambda done: self._events.put(lambda: self._go_on(running, done.result())))

    def _go_on(self, running: RunningSample, asked: Asked | _End) -> None:
        if isinstance(asked, _End):
            self._end(running, asked.answer, asked.error)
            return
        try:
            engine, inputs = self._find_engine(asked)
            rows = {len(array) for array in inputs.values()}
            if len(rows) != 1 or 0 in rows:
                raise HarnessError(f"a loop asked for inputs of {sorted(rows)} rows", "input", "correct loop()")
        except Exception as error:
            self._end(running, None, error)
        else:
            running.ask(inputs, rows.pop())
            engine.add(running)

    def _find_engine(self, asked: Asked) -> tuple[RowBatches, Arrays]:
        part, inputs = asked if isinstance(asked, tuple) else ("", asked)
        if part not in self._engines:
            known = ", ".join(name for name in self._engines if name) or "its only one, which has no name"
            raise HarnessError(f"a loop asked for the part {part!r} of its model", "input", f"ask for {known}")
        return self._engines[part], inputs

    def _end(self, running: RunningSample, answer: np.ndarray | None, error: BaseException | None) -> None:
        running.finish(answer, error)
        self._room.put(None)


def _step(running: RunningSample, outputs: Outputs | None) -> Asked | _End:
    """What the loop itself computes, on any thread."""
    try:
        return running.steps.send(outputs) if outputs is not None else next(running.steps)
    except StopIteration as end:
        return _End(answer=np.ascontiguousarray(end.value))
    except Exception as error:
        return _End(error=error)


def _choose_part(plan: LoadPlan, part: str, outputs: Sequence[Tensor]) -> LoadPlan:
    return replace(plan, engine=plan.engine / part if plan.engine else None, outputs=outputs)


def warm_rows(samples: Arrays, count: int) -> dict[str, Any]:
    """The first samples, in memory that may be written."""
    return {name: take_rows(array, np.arange(count)) for name, array in samples.items()}
