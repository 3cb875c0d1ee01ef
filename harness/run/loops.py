"""Samples that each need several calls of the engine, such as those of a sliding window or an iterative decoder.

A benchmark writes such a sample as a generator, ``loop(sample)``: it yields engine inputs, any number of rows at once,
receives the outputs of those rows, and returns the response. If the model has several parts, each with its own engine,
it yields a part's name and inputs. Rows of all samples in progress share batches. So loops need not handle batching,
and batches are as full as the available work allows.
"""

from __future__ import annotations

import threading
from collections import ChainMap, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from harness.backends import LoadPlan, Outputs, Session, Tensor, Token
from harness.run.pool import BatchRoom, start_streams
from harness.run.qsl import Arrays, Rows, take_rows
from harness.run.row_batches import (
    Engines,
    Finish,
    LoopEnd,
    Outcome,
    OutputMemory,
    RowBatches,
    RunningSample,
    Share,
    Steps,
    ask_next,
)

Loop = Callable[[Arrays], Steps]
Parts = Mapping[str, Sequence[Tensor]]
"""Name of a model's part -> its outputs, for a backend without engines. It is empty if the model has no parts."""
_AHEAD = 1024  # maximum number of an Offline query's samples waiting to start


class LoopSession(Session):
    """A session with single samples as batches. The threads that process the samples complete them."""

    batch_size = 1

    def __init__(
        self,
        load: Callable[[LoadPlan], Session],
        plan: LoadPlan,
        loop: Loop,
        *,
        parts: Parts | None = None,
        at_once: int = 0,
        step_threads: int = 0,
        reuse_outputs: bool = False,
    ) -> None:
        """``at_once``: maximum number of samples in progress; 0 for as many as keep every batch full. ``step_threads``:
        number of threads for the loops' own computation, in case one thread would delay the engine. ``reuse_outputs``:
        see ``OutputMemory``."""
        self._plan, self._loop = plan, loop
        coordinator = LoopCoordinator(step_threads)
        opened: dict[str, Session] = {}
        for part, outputs in (parts or {"": plan.outputs}).items():
            in_flight, engine = coordinator.expect(part), plan.engine and plan.engine / part
            completed, failed = in_flight.receive_outputs, in_flight.report_failure
            opened[part] = load(replace(plan, engine=engine, outputs=outputs, completed=completed, failed=failed))
        on_call = step_threads <= plan.streams and all(map(computes_on_call, opened.values()))
        pools = plan.streams if on_call else plan.depth
        self._engines = {part: RowBatches(engine, pools) for part, engine in opened.items()}
        filling = max(engine.size * engine.pools for engine in self._engines.values())
        limit = at_once or filling * (2 if on_call else 1)
        ahead = _AHEAD if on_call and plan.scenario == "Offline" else 0
        self._room: BatchRoom = BatchRoom(limit + ahead, limit - 1 + ahead // 2)
        self._driver: LoopCoordinator | LoopWorkers = coordinator
        if on_call:
            self._driver = LoopWorkers(self._engines, plan.streams, limit)
        else:
            coordinator.open(self._engines)
        self._samples: Mapping[str, Any] = {}
        new = any(rows.engine.makes_new_outputs for rows in self._engines.values())
        self._memory = OutputMemory(reused=reuse_outputs and not new)  # new outputs are not copied to our own memory
        first = next(iter(self._engines.values())).engine
        # The engine may add notes until it is closed.
        self.notes: Mapping[str, Any] = ChainMap({"samples_at_once": limit}, cast(dict[str, Any], first.notes))
        self.evidence = first.evidence

    def place(self, samples: Arrays) -> None:
        self._samples = samples

    def compute(self, rows: Rows) -> Outputs:
        done: SimpleQueue[Outcome] = SimpleQueue()
        positions = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        for row in positions:
            self._begin(row, done.put)
        answers = []
        for _ in positions:  # only one sample at a time, since ``batch_size`` is 1
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            answers.append(outcome)
        return answers

    def submit(self, rows: Rows, token: Token) -> None:
        def finish(outcome: Outcome) -> None:
            if isinstance(outcome, BaseException):
                self._plan.failed(token, outcome)
            else:
                self._plan.completed(token, [outcome])

        self._begin(rows.start if isinstance(rows, slice) else int(rows[0]), finish)

    def drain(self) -> None:
        super().drain()
        for engine in self._engines.values():
            engine.engine.drain()

    def close(self) -> None:
        self._driver.close()
        for engine in self._engines.values():
            engine.engine.close()

    def _begin(self, row: int, finish: Finish) -> None:
        def end(outcome: Outcome) -> None:
            finish(outcome)
            self._room.give_back()

        sample = {name: array[row] for name, array in self._samples.items()}
        running = RunningSample(self._loop(sample), end, self._memory)
        self._room.take()
        try:
            self._driver.begin(running)
        except Exception:  # no thread could be started
            self._room.give_back()
            raise


def warm_rows(samples: Arrays, count: int) -> dict[str, Any]:
    """Copy the first samples into writable memory."""
    return {name: take_rows(array, np.arange(count)) for name, array in samples.items()}


class InFlight:
    """An engine's batches in flight, by number. The engine calls only
    ``receive_outputs`` and ``report_failure``, from any thread."""

    def __init__(
        self, events: SimpleQueue[Callable[[], None] | None], answered: Callable[[RunningSample], None]
    ) -> None:
        self._events, self._answered = events, answered
        self._batches: dict[int, tuple[int, list[Share]]] = {}
        self._number = 0
        self.rows: RowBatches  # set once the engine is loaded, as loading needs this object's methods
        self._free: list[int] = []

    def open(self, rows: RowBatches) -> None:
        self.rows, self._free = rows, list(range(rows.pools))

    def fill(self) -> None:
        """Submit batches while there are rows and room for them."""
        while self._free and self.rows.waiting:
            shares, pool = self.rows.cut(), self._free.pop()
            self._number += 1
            try:
                self.rows.make_room(shares)
                if not self.rows.in_place:
                    self._free = []  # the engine holds only this batch's rows
                rows = self.rows.write(shares, pool)
                self._batches[self._number] = (pool, shares)
                self.rows.engine.submit(rows, [self._number])
            except Exception as error:
                self._batches.pop(self._number, None)
                self._give_up(pool, shares, error)

    def receive_outputs(self, token: Token, outputs: Outputs) -> None:
        pool, shares = self._batches[token[0]]
        self.rows.take_back(shares, outputs)
        self._events.put(lambda: self._settle(token[0], pool, shares))

    def report_failure(self, token: Token, error: BaseException) -> None:
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
            running.finish(error)


class LoopCoordinator:
    """Runs loops; their computation between two engine calls is done on its thread, or by ``step_threads`` threads."""

    def __init__(self, step_threads: int) -> None:
        self._events: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._steps = ThreadPoolExecutor(step_threads, "steps") if step_threads else None
        self._engines: Engines = {}
        self._in_flight: dict[str, InFlight] = {}
        self._thread: threading.Thread | None = None

    def expect(self, part: str) -> InFlight:
        """Return the callbacks for a part's engine, which calls them when batches are done."""
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

    # Everything below runs on the coordinator's thread.

    def _serve(self) -> None:
        while (event := self._events.get()) is not None:
            event()
            for engine in self._in_flight.values():
                engine.fill()

    def _advance(self, running: RunningSample) -> None:
        """Advance to the next rows that it requests, or to its end."""
        if self._steps is None:
            self._go_on(running, ask_next(self._engines, running))
        else:
            stepping = self._steps.submit(ask_next, self._engines, running)
            stepping.add_done_callback(lambda done: self._events.put(lambda: self._go_on(running, done.result())))

    def _go_on(self, running: RunningSample, asked: RowBatches | LoopEnd) -> None:
        if isinstance(asked, LoopEnd):
            running.finish(asked.outcome)
        else:
            asked.add(running)


# Loops over engines that compute on the calling thread: each of several threads takes a batch of rows or a new sample
# and processes it completely, so that nothing is handed over between two calls of an engine.

_Work = RunningSample | tuple[RowBatches, list[Share]]


@runtime_checkable
class CallableEngine(Protocol):
    """A session that computes on the caller's thread, with room for one batch per stream. It ``reads_in_place``."""

    def begin_stream(self, stream: int) -> None:
        """Prepare a stream; called on its computing thread before its first batch."""

    def compute_on(self, stream: int, rows: Rows) -> Outputs: ...


class LoopWorkers:
    """Threads that prefer a full batch, then samples that can continue or start and so may fill a batch, then the
    fullest batch."""

    def __init__(self, engines: Engines, streams: int, at_once: int) -> None:
        """``at_once``: maximum number of samples in progress; others wait to start."""
        self._engines, self._streams, self._room = engines, streams, at_once
        self._begun: deque[RunningSample] = deque()
        self._answered: deque[RunningSample] = deque()  # while their batch's worker processes another sample
        self._changed = threading.Condition(threading.Lock())
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._broken: Exception | None = None  # why a thread cannot compute

    def begin(self, running: RunningSample) -> None:
        if not self._threads:
            self._threads, self._broken = start_streams(self._streams, self._begin_stream, self._serve, "loops")
        if self._broken is not None:
            running.finish(self._broken)
            return
        with self._changed:
            self._begun.append(running)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    # Everything below runs on the threads.

    def _begin_stream(self, stream: int) -> None:
        for rows in self._engines.values():
            _cast_engine(rows).begin_stream(stream)

    def _serve(self, stream: int) -> None:
        while (work := self._take()) is not None:
            if isinstance(work, RunningSample):
                self._advance(work)
            else:
                self._compute(stream, *work)

    def _take(self) -> _Work | None:
        """Take the next work, waiting for it; None at the end."""
        with self._changed:
            while True:
                fullest = max(self._engines.values(), key=lambda rows: rows.waiting / rows.size)
                if fullest.waiting >= fullest.size:
                    return self._cut(fullest)
                if self._answered:
                    return self._answered.popleft()
                if self._begun and self._room:
                    self._room -= 1
                    return self._begun.popleft()
                if fullest.waiting:
                    return self._cut(fullest)
                if self._closing:
                    return None
                self._changed.wait()

    def _cut(self, rows: RowBatches) -> tuple[RowBatches, list[Share]]:
        shares = rows.cut()
        if rows.waiting:  # enough for another batch, since those who added rows woke only one thread
            self._changed.notify()
        return rows, shares

    def _compute(self, stream: int, rows: RowBatches, shares: Sequence[Share]) -> None:
        try:
            with self._changed:
                if rows.make_room(shares):
                    _warm_up(rows)
            rows.take_back(shares, _cast_engine(rows).compute_on(stream, rows.write(shares, stream)))
        except BaseException as error:  # any exception fails this batch; an exit would go unnoticed
            with self._changed:
                lost = rows.give_up(shares)
            for running in lost:
                self._end(running, error)
            return
        with self._changed:
            answered = rows.list_answered(shares)
            self._answered.extend(answered[1:])
            self._changed.notify(len(answered[1:]))
        if answered:
            self._advance(answered[0])

    def _advance(self, running: RunningSample) -> None:
        """Advance to the next rows that it requests, or to its end."""
        asked = ask_next(self._engines, running)
        if isinstance(asked, LoopEnd):
            self._end(running, asked.outcome)
            return
        with self._changed:
            asked.add(running)
            self._changed.notify()

    def _end(self, running: RunningSample, outcome: Outcome) -> None:
        running.finish(outcome)
        with self._changed:
            self._room += 1
            self._changed.notify()


def _warm_up(rows: RowBatches) -> None:
    """Warm up with a full batch of zeros, since an engine whose memory grows with its first batches stays a tenth
    slower if those are small. If the engine cannot compute zeros, the batches that follow will show that."""
    with suppress(Exception):
        rows.engine.compute(slice(0, rows.size))


def computes_on_call(engine: Session) -> bool:
    return isinstance(engine, CallableEngine) and engine.reads_in_place


def _cast_engine(rows: RowBatches) -> CallableEngine:
    return cast(CallableEngine, rows.engine)
