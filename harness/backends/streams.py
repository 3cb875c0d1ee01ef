"""Sessions of libraries that compute on the calling thread: one thread per stream, one batch at a time."""

from __future__ import annotations

import threading
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

from harness.backends import BackendEngine, Collate, LoadPlan, Outputs, Session, Tensor, Token, match_samples
from harness.machine.numa import pin_thread_near
from harness.machine.placement import place_workers
from harness.run.pool import BatchRoom, start_streams
from harness.run.qsl import Arrays, Rows, count_rows, gather, split_rows

_AHEAD = 1024  # maximum number of an Offline query's batches waiting for a stream


class StreamSession(Session):
    """Its threads start with the first batch, each near its NUMA node if there are several (``_places``). Backends
    implement the computation in ``_run``, with the staging memory of its stream."""

    def __init__(self, plan: LoadPlan, engine: BackendEngine, *, workers: int = 0) -> None:
        """``workers``: number of threads if it exceeds the streams, as for several devices."""
        self._plan, self._engine = plan, engine
        self._workers = workers or plan.streams
        self.batch_size = min(plan.batch_size, engine.batch_size)
        self.sizes: Sequence[int] = engine.batch_sizes
        whole = all(size >= 0 for tensor in engine.outputs for size in tensor.shape)
        self.takes_several = self.makes_new_outputs and whole
        self._places = place_workers(self._workers, plan.threads)
        self.notes: Mapping[str, Any] = {
            "threads": max(place.threads for place in self._places),
            "streams": plan.streams,
            "precision": engine.precision,
            **({"numa_nodes": [place.node for place in self._places]} if self._places[0].node >= 0 else {}),
        }
        self._staging: list[Staging | CollatedBatches] = []
        self._work: SimpleQueue[tuple[Rows, Token] | None] = SimpleQueue()
        depth = plan.depth // plan.streams * self._workers
        # Queue of row numbers. If a query has all samples, a submitting thread that ran for each batch would only take
        # time from the computing cores.
        self._room: BatchRoom = (
            BatchRoom(_AHEAD, _AHEAD // 2) if plan.scenario == "Offline" else BatchRoom(depth, depth - 1)
        )
        self._threads: list[threading.Thread] = []
        self._broken: Exception | None = None  # why a thread cannot compute

    def place(self, samples: Arrays) -> None:
        if self._plan.collate is not None:
            self._staging = [CollatedBatches(self._plan.collate, samples, self._engine.inputs)] * self._workers
            return
        arrays = match_samples(samples, self._engine.inputs)
        sizes = (self._engine.batch_size, self._engine.batch_sizes)
        self._staging = [Staging(arrays, *sizes) for _ in range(self._workers)]

    def compute(self, rows: Rows) -> Outputs:
        return self._run(0, rows)

    def compute_on(self, stream: int, rows: Rows) -> Outputs:
        """Compute a batch on the calling thread, which has begun this stream; for callers with their own threads."""
        return self._run(stream, rows)

    def begin_stream(self, stream: int) -> None:
        place = self._places[stream]
        pin_thread_near(place.node, place.processors)
        self._begin(stream)

    def submit(self, rows: Rows, token: Token) -> None:
        if not self._threads:
            self._threads, self._broken = start_streams(
                self._workers, self.begin_stream, self._serve, self._engine.backend
            )
        if self._broken is not None:
            raise self._broken
        self._room.take()
        self._work.put((rows, token))

    def close(self) -> None:
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    @abstractmethod
    def _run(self, stream: int, rows: Rows) -> Outputs:
        """Compute one batch. If the backend ``makes_new_outputs``, return exactly as many rows as in ``rows``."""

    def _run_all(self, stream: int, rows: Rows) -> Outputs:
        if count_rows(rows) <= self.batch_size:
            return self._run(stream, rows)
        # Outputs are copied at once, so that the library can reuse its memory for the next batch.
        whole: list[np.ndarray] = []
        at = 0
        for batch in split_rows(rows, self.batch_size):
            parts = self._run(stream, batch)
            if not whole:
                whole = [np.empty((count_rows(rows), *part.shape[1:]), part.dtype) for part in parts]
            after = at + count_rows(batch)
            for array, part in zip(whole, parts, strict=True):
                array[at:after] = part
            del parts, part
            at = after
        return whole

    def _begin(self, stream: int) -> None:
        """Called on each stream's thread before its first batch."""

    def _serve(self, stream: int) -> None:
        while (item := self._work.get()) is not None:
            rows, token = item
            try:
                outputs = self._run_all(stream, rows)
            except BaseException as error:  # any exception fails this batch; an exit would go unnoticed
                self._plan.failed(token, error)
            else:
                self._plan.completed(token, outputs)
                del outputs  # frees memory for the next batch
            self._room.give_back()


class CollatedBatches:
    """Batches that any thread may create. ``samples``: the resident samples; ``inputs``: the engine's inputs."""

    def __init__(self, collate: Collate, samples: Arrays, inputs: Sequence[Tensor]) -> None:
        self._collate, self._samples, self._inputs = collate, samples, inputs

    def batch(self, rows: Rows) -> list[np.ndarray]:
        """Return arrays in the order of the engine's inputs, C-contiguous; floats are converted to its type, since a
        dataset may store half precision. Raises HarnessError if they do not fit the engine."""
        made = dict(self._collate({name: array[rows] for name, array in self._samples.items()}))
        for tensor in self._inputs:
            given = made.get(tensor.name)
            if given is not None and given.dtype.kind == np.dtype(tensor.dtype).kind == "f":
                made[tensor.name] = given.astype(tensor.dtype, copy=False)
        return [np.ascontiguousarray(array) for array in match_samples(made, self._inputs)]


# Host memory in which a stream assembles its next batch.


class Staging:
    """One batch of every input, for one stream.

    ``arrays``: the resident samples in the order of the inputs. ``batch_sizes``: see ``Engine``; ascending. ``memory``:
    memory for a batch of each input, if its location matters.
    """

    def __init__(
        self,
        arrays: Sequence[np.ndarray],
        batch_size: int,
        batch_sizes: Sequence[int] = (),
        memory: Sequence[np.ndarray] = (),
    ) -> None:
        self._arrays = arrays
        self._sizes = tuple(batch_sizes)
        self._memory = list(memory) or [np.zeros((batch_size, *array.shape[1:]), array.dtype) for array in arrays]

    def batch(self, rows: Rows) -> list[np.ndarray]:
        """Return the inputs of a batch, as views of resident samples if they are contiguous, padded if the engine needs
        it.

        Padding is the old content of the staging memory, since its output rows are not read.
        """
        count = count_rows(rows)
        padded = self.find_padded_size(count)
        if padded == count:
            return [gather(array, rows, memory) for array, memory in zip(self._arrays, self._memory, strict=True)]
        for array, memory in zip(self._arrays, self._memory, strict=True):
            head = memory[:count]
            taken = gather(array, rows, memory)
            if isinstance(rows, slice):
                head[...] = taken
        return [memory[:padded] for memory in self._memory]

    def find_padded_size(self, count: int) -> int:
        """Return the batch size that the engine computes for ``count`` rows."""
        return self._sizes[bisect_left(self._sizes, count)] if self._sizes else count
