"""``load``: compute a benchmark on one slice continuously, without LoadGen, during a run on another."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path

from harness.backends import Outputs, Token, load_backend
from harness.benchmarks import load_benchmark
from harness.contract import Counter, Result
from harness.errors import require
from harness.mig.requests import LoadRequest
from harness.run.loops import warm_rows
from harness.verbs.load_plans import make_load_plan

_REPORT_EVERY = 0.01  # seconds between two reports


def execute(request: LoadRequest, give_up: Callable[[BaseException], None]) -> Result:
    """Compute until this process is ended, or a batch fails."""
    load, counter = request.load, Counter(request.counter)
    counter.stage("loading")
    benchmark = load_benchmark(load.benchmark)
    arrays = benchmark.load_performance_samples(require(Path(load.inputs["dataset"]), "the dataset"))
    plan = make_load_plan(
        load,
        benchmark,
        scenario="Offline",
        completed=CompletionCounter(counter).completed,
        failed=lambda _, error: give_up(error),
        folder=Path(request.counter).parent,
        more={"devices": 1},
    )
    session = benchmark.open_session(load_backend(load.backend).load, plan)
    total = len(next(iter(arrays.values())))
    count = min(load.performance_sample_count or total, total)
    session.place(warm_rows(arrays, count))
    counter.stage("running")
    size = min(session.batch_size, count)
    for number in itertools.count():
        first = number * size % (count - size + 1)
        session.submit(slice(first, first + size), list(range(number * size, (number + 1) * size)))
    raise AssertionError("unreachable")


class CompletionCounter:
    """Counts completed samples, from any thread, and writes the count only at intervals, since a counter cannot be read
    while it is written."""

    def __init__(self, counter: Counter) -> None:
        self._counter, self._lock = counter, threading.Lock()
        self._unreported, self._reported = 0, 0.0

    def completed(self, token: Token, _: Outputs) -> None:
        with self._lock:
            self._unreported += len(token)
            now = time.monotonic()
            if now - self._reported >= _REPORT_EVERY:
                self._counter.bump(self._unreported)
                self._unreported, self._reported = 0, now
