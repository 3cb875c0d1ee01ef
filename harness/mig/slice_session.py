"""A session over several slices of GPUs (MIG). Each slice has its own process, since a process can use at most one
slice.

The processes read samples from memory shared with this one. Batches go to any free process; outputs return through its
pipe, and a thread per process completes them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import reduction
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from harness.backends import LoadPlan, Outputs, Session, Token
from harness.child.piped_process import end_process, start_process
from harness.contract import Benchmark
from harness.errors import HarnessError
from harness.machine.facts import VISIBLE
from harness.run.pool import Pool
from harness.run.qsl import Arrays, Rows
from harness.run.shared_samples import SharedSamples

_ENDS = 60.0  # seconds that a process has to free its slice
_LOST = "the process on slice {} ended"
_SEE = "see its last output in the log of this run"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStart:
    """First message to a process. ``plan``: the fields of its LoadPlan, without callbacks."""

    backend: str
    benchmark: Benchmark
    plan: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLoaded:
    """The worker's answer after loading. ``depth``: maximum batches in flight."""

    batch_size: int
    sizes: Sequence[int]
    depth: int
    notes: Mapping[str, Any]
    evidence: Mapping[str, Any]


class SliceWorker:
    """The parent's view of a process on a slice. ``ask`` is for one thread, and only with nothing in flight."""

    def __init__(self, uuid: str, start: WorkerStart, plan: LoadPlan, free: Pool[SliceWorker]) -> None:
        self.uuid, self._plan, self._free = uuid, plan, free
        self._flight: dict[int, Token] = {}
        self._lost: HarnessError | None = None
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._lock = threading.Lock()
        self._pipe, self._process = start_process("harness.mig.slice_worker", {VISIBLE: uuid})
        self._pipe.send(start)
        self._thread = threading.Thread(target=self._follow, name="slice", daemon=True)
        self._thread.start()

    def ask(self, *message: Any, hand: int = -1) -> Any:
        """Send a request and return the answer. ``hand``: a descriptor to send along. Raises the process's error, or
        HarnessError if the process has ended."""
        with suppress(OSError):  # the process has ended; the thread that follows it reports that
            self._pipe.send(message)
            if hand >= 0:
                reduction.send_handle(self._pipe, hand, self._process.pid)
        return self.answer()

    def answer(self) -> Any:
        found = self._answers.get()
        if isinstance(found, HarnessError):
            if self._lost is not None:
                self._answers.put(self._lost)  # a second request gets the same answer
            raise found
        return found

    def submit(self, rows: Rows, token: Token) -> None:
        with self._lock:
            if self._lost is not None:
                raise self._lost
            self._flight[token[0]] = token
        with suppress(OSError):  # the process has ended; the thread that follows it fails the batches in flight
            self._pipe.send(("submit", rows, token))

    def end(self, patience: float = 0.0) -> None:
        """End the process. ``patience``: seconds that it has to end by itself."""
        end_process(self._process, patience)
        self._thread.join()
        self._pipe.close()

    def _follow(self) -> None:
        try:
            while True:
                kind, *said = self._pipe.recv()
                if kind == "answer":
                    self._answers.put(said[0])
                elif kind == "problem":
                    self._answers.put(HarnessError(*said))
                else:
                    self._complete(kind, *said)
        except (OSError, EOFError):
            self._lose()

    def _complete(self, kind: str, first: int, *said: Any) -> None:
        with self._lock:
            token = self._flight.pop(first)
        try:
            if kind == "completed":
                self._plan.completed(token, said[0])
            else:
                self._plan.failed(token, HarnessError(*said))
        finally:
            self._free.put(self)

    def _lose(self) -> None:
        lost = HarnessError(_LOST.format(self.uuid), "resources", _SEE)
        with self._lock:
            self._lost = lost
            left = list(self._flight.values())
            self._flight.clear()
        self._answers.put(lost)
        for token in left:
            self._plan.failed(token, lost)
            self._free.put(self)


class SliceSession(Session):
    """The Session over all slices. Each slice computes through a session of the backend, with loops if the benchmark
    has them."""

    def __init__(self, backend: str, benchmark: Benchmark, plan: LoadPlan, slices: Sequence[str]) -> None:
        self.workers: list[SliceWorker] = []
        self._room: Pool[SliceWorker] = Pool()
        self._memory: SharedSamples | None = None
        try:
            for number, uuid in enumerate(slices):
                own = plan.folder / f"slice-{number}"
                own.mkdir()
                self.workers.append(SliceWorker(uuid, _make_start(backend, benchmark, plan, own), plan, self._room))
            loaded: list[WorkerLoaded] = [worker.answer() for worker in self.workers]
        except BaseException:
            for worker in self.workers:
                worker.end()
            raise
        first = loaded[0]
        self.batch_size = min(each.batch_size for each in loaded)
        self.sizes: Sequence[int] = first.sizes
        depths = [(worker, each.depth) for worker, each in zip(self.workers, loaded, strict=True)]
        most = max(depth for _, depth in depths)
        self._room.fill(worker for turn in range(most) for worker, depth in depths if turn < depth)
        buses = [bus for each in loaded for bus in each.notes.get("devices", ())]
        self.notes: dict[str, Any] = {**first.notes, "workers": len(self.workers)}
        if buses:
            self.notes["devices"] = list(dict.fromkeys(buses))
        self.evidence: Mapping[str, Any] = first.evidence

    def place(self, samples: Arrays) -> None:
        before, self._memory = self._memory, SharedSamples(samples)
        for worker in self.workers:
            worker.ask("place", self._memory.layout, hand=self._memory.descriptor)
        if before is not None:
            before.close()

    def compute(self, rows: Rows) -> Outputs:
        outputs: Outputs = self.workers[0].ask("compute", rows)
        return outputs

    def submit(self, rows: Rows, token: Token) -> None:
        worker = self._room.get()
        try:
            worker.submit(rows, token)
        except BaseException:
            self._room.put(worker)
            raise

    def drain(self) -> None:
        super().drain()
        for worker in self.workers:
            worker.ask("drain")

    def close(self) -> None:
        for number, worker in enumerate(self.workers):
            closing = worker.ask("close")
            if number == 0:  # notes that a session adds when it is closed
                self.notes |= {name: value for name, value in closing.items() if name not in self.notes}
            worker.end(_ENDS)
        if self._memory is not None:
            self._memory.close()


def _make_start(backend: str, benchmark: Benchmark, plan: LoadPlan, folder: Path) -> WorkerStart:
    fields = {name: getattr(plan, name) for name in plan.__slots__ if name not in ("completed", "failed")}
    return WorkerStart(backend=backend, benchmark=benchmark, plan={**fields, "folder": folder})
