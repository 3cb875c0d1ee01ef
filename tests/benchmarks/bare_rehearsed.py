"""Run a rehearsal's engine without LoadGen and the harness: threads call ONNX Runtime in a loop.

``python -m tests.benchmarks.bare_rehearsed SETTINGS`` prints samples/s and processor seconds. It uses only the
benchmark's own code: its samples, the loop of a sample that takes several calls, and the conversion of outputs to
answers. All samples are answered ``passes`` times. Threads take the next sample from a common queue.

The order is drawn anew for each pass, as LoadGen does, so samples of a batch must be collected first.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from harness.benchmarks import load_benchmark
from harness.contract import Benchmark

Postprocess = Callable[[Sequence[np.ndarray], Sequence[int]], Any]
Sessions = Mapping[str, Any]
"""By the name of the part, "" where a model is one."""


@dataclass(slots=True)
class Sample:
    """A sample in progress: its request, the number of computed rows, and their outputs."""

    steps: Generator[Any, Any, Any]
    part: str = ""
    asked: Mapping[str, np.ndarray] = field(default_factory=dict)
    outputs: list[list[np.ndarray]] = field(default_factory=list)
    done: int = 0

    @property
    def rows(self) -> int:
        return len(next(iter(self.asked.values())))

    def advance(self, outputs: Sequence[np.ndarray] | None) -> bool:
        """Continue with the next request. Return False if there is none."""
        try:
            asked = next(self.steps) if outputs is None else self.steps.send(outputs)
        except StopIteration:
            return False
        self.part, self.asked = asked if isinstance(asked, tuple) else ("", asked)
        self.outputs, self.done = [], 0
        return True


def open_sessions(engine: Path, threads: int) -> Sessions:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    found = {path.parent.relative_to(engine).as_posix(): path for path in engine.rglob("model.onnx")}
    return {
        name.removeprefix("."): ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for name, path in found.items()
    }


def answer_batches(
    session: Any, postprocess: Postprocess, samples: Mapping[str, Any], batch: int, left: Iterator[int]
) -> None:
    inputs = [item.name for item in session.get_inputs()]
    arrays = list(samples.values()) if len(samples) == 1 else [samples[name] for name in inputs]
    memory = [np.empty_like(array[:batch]) for array in arrays]
    while rows := list(islice(left, batch)):
        if len(rows) == 1:
            taken = [array[rows[0] : rows[0] + 1] for array in arrays]
        else:
            taken = [np.take(a, rows, 0, m[: len(rows)], "clip") for a, m in zip(arrays, memory, strict=True)]
        postprocess(session.run(None, dict(zip(inputs, taken, strict=True))), rows)


def answer_loops(
    sessions: Sessions,
    loop: Callable[..., Any],
    samples: Mapping[str, Any],
    batch: int,
    at_once: int,
    left: Iterator[int],
) -> None:
    """Answer as many samples at once as a batch has rows. Samples that request the same part share its batches."""
    under_way: list[Sample] = []
    while True:
        while len(under_way) < (at_once or batch) and (row := next(left, None)) is not None:
            begun = Sample(loop({name: array[row] for name, array in samples.items()}))
            if begun.advance(None):
                under_way.append(begun)
        if not under_way:
            return
        first = under_way[0].part
        asking = [sample for sample in under_way if sample.part == first]
        for sample in compute(sessions[first], asking, batch):
            outputs = [np.concatenate(found) for found in zip(*sample.outputs, strict=True)]
            if not sample.advance(outputs):
                under_way.remove(sample)


def compute(session: Any, asking: Sequence[Sample], batch: int) -> list[Sample]:
    """Compute one batch of rows. Return the samples whose rows are all complete."""
    taken, room = [], batch
    for sample in asking:
        count = min(room, sample.rows - sample.done)
        if count:
            taken.append((sample, count))
            room -= count
    feed = {
        name: np.concatenate([sample.asked[name][sample.done : sample.done + count] for sample, count in taken])
        for name in taken[0][0].asked
    }
    outputs, at = session.run(None, feed), 0
    for sample, count in taken:
        sample.outputs.append([output[at : at + count] for output in outputs])
        sample.done += count
        at += count
    return [sample for sample, _ in taken if sample.done == sample.rows]


def measure(settings: Mapping[str, Any]) -> dict[str, float]:
    benchmark = load_benchmark(Benchmark(name=settings["benchmark"]))
    mapped = benchmark.load_samples(Path(settings["dataset"]))
    samples = {name: np.array(a) if isinstance(a, np.ndarray) else list(a) for name, a in mapped.items()}
    count, streams, batch = len(next(iter(samples.values()))), settings["streams"], settings["batch"]
    engine, threads = Path(settings["engine"]), settings["threads"]
    shared = open_sessions(engine, threads)
    sessions = [shared if threads == 1 else open_sessions(engine, threads) for _ in range(streams)]
    loop, at_once = benchmark.loop, -(-benchmark.at_once // streams)

    def answer(stream: int, left: Iterator[int]) -> None:
        if loop is None:
            answer_batches(sessions[stream][""], benchmark.respond, samples, batch, left)
        else:
            answer_loops(sessions[stream], loop, samples, batch, at_once, left)

    answer(0, iter(range(count)))
    generator = np.random.default_rng(1)
    left = iter(np.concatenate([generator.permutation(count) for _ in range(settings["passes"])]).tolist())
    workers = [threading.Thread(target=answer, args=(stream, left)) for stream in range(streams)]
    began, used = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    rate = count * settings["passes"] / (time.perf_counter() - began)
    return {"rate": rate, "processor_seconds": time.process_time() - used}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
