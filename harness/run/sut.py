"""The system under test: turns LoadGen's queries into batches and the batches' outputs into responses.

Every sample is completed exactly once, whatever fails, because LoadGen waits forever for a missing completion and
aborts the process on a duplicate. After the first failure the remaining samples are answered without bytes and without
computing.
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np

from harness.backends import Outputs, Session, Token
from harness.contract import Counter
from harness.run.qsl import Rows, SampleLibrary

Responses = np.ndarray | Sequence[np.ndarray]
Postprocess = Callable[[Outputs, Sequence[int]], Responses]
"""Maps the outputs of a batch and the indices of its samples to their responses."""
_NEVER = sys.maxsize
_SHARES = 64  # at most 1 / _SHARES of an Offline query's rest is handed over at once


class Indexed(Protocol):
    """Finds samples."""

    def rows(self, indices: list[int]) -> Rows: ...


class Respond(Protocol):
    """Reports answers to LoadGen, as ``harness.run.loadgen.Responder`` does."""

    def first(self, identity: int, token: np.ndarray) -> None: ...

    def complete(
        self, ids: Sequence[int], responses: Responses | None, counts: Sequence[int] | None = None
    ) -> None: ...


class Guard:
    """Stores the first failure of a run, and reports it to its listeners."""

    def __init__(self, on_failure: Callable[[BaseException], None] = lambda _: None) -> None:
        self.failure: BaseException | None = None
        self._on_failure = on_failure
        self._once = threading.Lock()

    def record(self, error: BaseException) -> None:
        with self._once:
            first, self.failure = self.failure is None, self.failure or error
        if first:
            self._on_failure(error)


class Sut(Protocol):
    """LoadGen's callbacks, called on its thread; neither may raise."""

    def issue(self, ids: list[int], indices: list[int], /) -> None: ...

    def flush(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSut:
    """A loaded and warmed-up SUT, ready for LoadGen, for batches of tensors or streams of tokens. ``evidence``: facts
    found while loading that must be the same in all runs of a cell. ``values``: facts for the result afterwards;
    ``samples``: completed so far; ``close`` ends threads and frees devices."""

    sut: Sut
    library: SampleLibrary
    notes: Mapping[str, Any]
    values: Callable[[], dict[str, Any]]
    samples: Callable[[], int]
    close: Callable[[], None]
    evidence: Mapping[str, Any] = field(default_factory=dict)


class Completer:
    """Completes batches, from any thread. Sessions call ``completed`` and ``failed``."""

    def __init__(self, respond: Respond, postprocess: Postprocess, counter: Counter, guard: Guard) -> None:
        self.samples = self.batches = 0
        self.batch_size = sys.maxsize  # set to the session's, which may receive several batches at once
        self._respond, self._postprocess, self._counter, self._guard = respond, postprocess, counter, guard
        self._in_flight: dict[int, tuple[Token, Sequence[int]]] = {}
        self._lock = threading.Lock()

    def expect(self, token: Token, indices: Sequence[int]) -> None:
        """Register a batch before it is submitted. LoadGen's ids are unique, so the first one identifies it."""
        self._in_flight[token[0]] = token, indices

    def completed(self, token: Token, outputs: Outputs) -> None:
        expected = self._in_flight.pop(token[0], None)
        if expected is None:
            self._guard.record(RuntimeError("the backend completed a batch that was not in flight"))
            return
        self.answer(token, expected[1], outputs)

    def failed(self, token: Token, error: BaseException) -> None:
        self._guard.record(error)
        if self._in_flight.pop(token[0], None) is not None:
            self.give_up(token)

    def fail_all(self, error: BaseException) -> None:
        """Fail all batches in flight, because the backend lost them."""
        for token, _ in list(self._in_flight.values()):
            self.failed(token, error)

    def answer(self, ids: Token, indices: Sequence[int], outputs: Outputs) -> None:
        """Complete a batch with its outputs; without bytes if they cannot be converted to responses."""
        try:
            made = self._postprocess(outputs, indices)
            responses = np.ascontiguousarray(made) if isinstance(made, np.ndarray) else made
            if len(responses) != len(ids):
                raise ValueError(f"postprocess made {len(responses)} responses of a batch of {len(ids)}")
            self._respond.complete(ids, responses)
        except BaseException as error:  # an exit would end the thread, and LoadGen would wait forever
            self._guard.record(error)
            self.give_up(ids)
            return
        with self._lock:
            self.samples += len(ids)
            self.batches += -(-len(ids) // self.batch_size)
            self._counter.bump(len(ids))

    def give_up(self, ids: Token) -> None:
        """Complete samples without computing them."""
        self._respond.complete(ids, None)


class _Base:
    """The common base of the SUTs. It cuts and submits batches, and gives them up after a failure."""

    def __init__(self, session: Session, samples: Indexed, completer: Completer, guard: Guard) -> None:
        self._session, self._samples, self._completer, self._guard = session, samples, completer, guard
        self._batch_size = completer.batch_size = session.batch_size

    def flush(self) -> None:
        self._drain()

    def close(self) -> None:
        """Nothing to end here."""

    def _drain(self) -> None:
        try:
            self._session.drain()
        except Exception as error:
            self._completer.fail_all(error)

    def _submit(self, ids: list[int], indices: list[int], at_once: int = 1) -> None:
        """Cut into batches and submit them, up to ``at_once`` together; waits while every stream is busy."""
        start = 0
        while start < len(ids):
            even = (len(ids) - start) // (_SHARES * self._batch_size)
            size = self._batch_size * max(1, min(at_once, even))
            count = self._fit(indices[start : start + size])
            self._submit_batch(ids[start : start + count], indices[start : start + count])
            start += count

    def _fit(self, indices: list[int]) -> int:
        """Return how many samples form the next batch: all of them, unless they differ in size, in which case the
        session decides."""
        if not self._session.fits_by_size or self._guard.failure is not None:
            return len(indices)
        return self._session.fit(self._samples.rows(indices))

    def _submit_batch(self, ids: Token, indices: list[int]) -> None:
        if self._guard.failure is not None:
            self._completer.give_up(ids)
            return
        self._completer.expect(ids, indices)
        try:
            self._session.submit(self._samples.rows(indices), ids)
        except Exception as error:
            self._completer.failed(ids, error)


class StreamSut(_Base):
    """SingleStream and MultiStream: a query that fits one batch is computed on LoadGen's own thread."""

    def issue(self, ids: list[int], indices: list[int]) -> None:
        if len(ids) > self._batch_size:
            self._submit(ids, indices)
            # The next query may be computed on this thread, which is allowed only while nothing is in flight.
            self._drain()
            return
        if self._guard.failure is not None:
            self._completer.give_up(ids)
            return
        try:
            outputs = self._session.compute(self._samples.rows(indices))
        except Exception as error:
            self._guard.record(error)
            self._completer.give_up(ids)
            return
        self._completer.answer(ids, indices, outputs)


class OfflineSut(_Base):
    """Offline: one query with all samples, cut into full batches.

    ``at_once``: number of batches handed over together, fewer if that exceeds 1/64 of the rest of the query. Python's
    work is then done once for all of them, and the streams still finish at the same time.
    """

    def __init__(
        self, session: Session, samples: Indexed, completer: Completer, guard: Guard, *, at_once: int = 1
    ) -> None:
        super().__init__(session, samples, completer, guard)
        self._at_once = at_once

    def issue(self, ids: list[int], indices: list[int]) -> None:
        self._submit(ids, indices, self._at_once)


class ServerSut(_Base):
    """Server: queries are collected, and our own thread forms batches from them.

    It waits for a free stream, then takes a full batch, or the samples that have arrived by ``delay`` seconds after it
    found the first query, so batches grow with the load. A large batch is cut to a size that needs no padding, and the
    rest joins the next batch, since the device's time is scarce under load.

    LoadGen's thread only appends. Ids are appended before indices, and each side has one thread, so the first n indices
    always belong to the first n ids, and no lock is needed.
    """

    def __init__(self, session: Session, samples: Indexed, completer: Completer, guard: Guard, *, delay: float) -> None:
        super().__init__(session, samples, completer, guard)
        self._delay = delay
        self._ids: list[int] = []
        self._indices: list[int] = []
        self._wake_at = _NEVER  # the number of waiting samples at which the batcher wakes up
        self._gate: SimpleQueue[None] = SimpleQueue()
        self._flushed: SimpleQueue[None] = SimpleQueue()
        self._hurry = self._closing = False
        self._thread = threading.Thread(target=self._serve, name="batcher", daemon=True)
        self._thread.start()

    def issue(self, ids: list[int], indices: list[int]) -> None:
        self._ids.extend(ids)
        self._indices.extend(indices)
        if len(self._indices) >= self._wake_at:
            self._wake_at = _NEVER
            self._gate.put(None)

    def flush(self) -> None:
        self._hurry = True
        self._gate.put(None)
        self._flushed.get()

    def close(self) -> None:
        self._closing = True
        self._gate.put(None)
        self._thread.join()

    def _serve(self) -> None:
        try:
            while not self._closing:
                self._step()
        except BaseException as error:  # otherwise it would go unnoticed, and LoadGen would wait forever
            self._guard.record(error)

    def _step(self) -> None:
        if self._indices:
            try:
                self._session.ready()
            except Exception as error:
                self._completer.fail_all(error)
            self._fill()
            self._take()
        elif self._hurry:
            self._drain()
            self._hurry = False
            self._flushed.put(None)
        else:
            self._sleep(1, None)

    def _fill(self) -> None:
        """Give a partial batch time to fill."""
        if self._delay > 0 and not self._hurry:
            while not self._gate.empty():  # drop wake-ups that came while no thread slept
                self._gate.get()
            self._sleep(self._batch_size, self._delay)

    def _sleep(self, count: int, seconds: float | None) -> None:
        """Sleep until ``count`` samples wait, a flush arrives, or the time is over."""
        self._wake_at = count
        # Checked again after wake_at is set, since an earlier query would not have woken this thread.
        if len(self._indices) < count and not self._hurry and not self._closing:
            with suppress(Empty):
                self._gate.get(timeout=seconds)
        self._wake_at = _NEVER

    def _take(self) -> None:
        count = min(len(self._indices), self._batch_size)
        if not self._hurry:
            count = strip_padding(count, self._session.sizes, self._batch_size)
        count = self._fit(self._indices[:count])
        ids, indices = self._ids[:count], self._indices[:count]
        del self._ids[:count], self._indices[:count]
        self._submit_batch(ids, indices)


def strip_padding(count: int, sizes: Sequence[int], batch_size: int) -> int:
    """Return how many of ``count`` waiting samples form a batch: the largest of ``sizes`` that they fill, if that is
    more than a quarter of ``batch_size``; otherwise all of them.
    """
    full = bisect_right(sizes, count)
    return sizes[full - 1] if full and 4 * sizes[full - 1] > batch_size else count
