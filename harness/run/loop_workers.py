"""Loops over engines that compute on whichever thread calls them: each of several threads takes what is there to do, a
batch of rows or a new sample, and does all of it, so that nothing is handed over between two calls of an engine."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, cast, runtime_checkable

from harness.backends import Outputs, Session
from harness.run.qsl import Rows
from harness.run.row_batches import Engines, RowBatches, Share, ask_next
from harness.run.running_sample import LoopEnd, RunningSample
from harness.run.stream_threads import start_streams

_Work = RunningSample | tuple[RowBatches, list[Share]]


@runtime_checkable
class CallableEngine(Protocol):
    """A session that computes on its caller's thread, with room for a batch of each of its streams. It
    ``reads_in_place``."""

    def begin_stream(self, stream: int) -> None:
        """On the thread that is going to compute for it, before its first batch."""

    def compute_on(self, stream: int, rows: Rows) -> Outputs: ...


class LoopWorkers:
    """A full batch comes first, then samples that can go on or begin, which may fill one, then the fullest there is."""

    def __init__(self, engines: Engines, streams: int, at_once: int) -> None:
        """``at_once``: samples under way at most; others wait until they can be begun."""
        self._engines, self._streams, self._room = engines, streams, at_once
        self._begun: deque[RunningSample] = deque()
        self._answered: deque[RunningSample] = deque()  # of a batch whose worker sees to another of its samples
        self._changed = threading.Condition(threading.Lock())
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._broken: Exception | None = None  # why one of the threads cannot compute

    def begin(self, running: RunningSample) -> None:
        if not self._threads:
            self._start_threads()
        if self._broken is not None:
            running.end(LoopEnd(error=self._broken))
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

    def _start_threads(self) -> None:
        self._threads, self._broken = start_streams(self._streams, self._begin_stream, self._serve, "loops")

    # From here on everything runs on the threads.

    def _begin_stream(self, stream: int) -> None:
        for rows in self._engines.values():
            _callable(rows).begin_stream(stream)

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
        if rows.waiting:  # enough for another: who asked for them woke one thread alone
            self._changed.notify()
        return rows, shares

    def _compute(self, stream: int, rows: RowBatches, shares: Sequence[Share]) -> None:
        try:
            with self._changed:
                if rows.make_room(shares):
                    _warm_up(rows)
            rows.take_back(shares, _callable(rows).compute_on(stream, rows.write(shares, stream)))
        except BaseException as error:  # any exception belongs to this batch; an exit would go unnoticed
            with self._changed:
                lost = rows.give_up(shares)
            for running in lost:
                self._end(running, LoopEnd(error=error))
            return
        with self._changed:
            answered = rows.list_answered(shares)
            self._answered.extend(answered[1:])
            self._changed.notify(len(answered[1:]))
        if answered:
            self._advance(answered[0])

    def _advance(self, running: RunningSample) -> None:
        """To the next rows that it asks for, or to its end."""
        asked = ask_next(self._engines, running)
        if isinstance(asked, LoopEnd):
            self._end(running, asked)
            return
        with self._changed:
            asked.add(running)
            self._changed.notify()

    def _end(self, running: RunningSample, ended: LoopEnd) -> None:
        running.end(ended)
        with self._changed:
            self._room += 1
            self._changed.notify()


def _warm_up(rows: RowBatches) -> None:
    """Warm up with a whole batch, of zeros: an engine whose memory grows with its first batches computes a tenth slower
    for good where those are small. Should it mind zeros, those that follow show it."""
    with suppress(Exception):
        rows.engine.compute(slice(0, rows.size))


def computes_on_call(engine: Session) -> bool:
    return isinstance(engine, CallableEngine) and bool(getattr(engine, "reads_in_place", False))


def _callable(rows: RowBatches) -> CallableEngine:
    return cast(CallableEngine, rows.engine)
