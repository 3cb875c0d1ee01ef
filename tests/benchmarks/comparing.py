"""Common parts of comparisons with the MLCommons references: data, accuracy logs, their scripts, reports, and pipelines
that run here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.backends import LoadPlan, load_backend
from harness.benchmarks import BenchmarkCode, load_benchmark
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Benchmark, Counter


def report(what: str, same: bool) -> bool:
    """Print a result immediately."""
    print(f"{what}{'' if same else '  DIFFERS'}", flush=True)
    return same


def write_data(
    write_rehearsal: Callable[..., object], folder: Path, *, count: int, seed: int = 3, size: str = "small"
) -> tuple[Path, Path, Path, Counter]:
    """Write a rehearsal's data and models. Return their folders, an empty one for the dataset, and a counter."""
    data, models, dataset = (folder / part for part in ("data", "models", "dataset"))
    for part in (data, models, dataset):
        part.mkdir()
    counter = Counter(folder / "counter")
    write_rehearsal(data, models, count=count, seed=seed, size=size, counter=counter)
    (data / REHEARSAL).write_text("{}")
    return data, models, dataset, counter


def rehearse(folder: Path, name: str, *, count: int, seed: int = 3) -> BenchmarkCode:
    """Write data/ and models/ of a small rehearsal, and dataset/, prepared from it. Return the benchmark."""
    benchmark = load_benchmark(Benchmark(name=name))
    data, _, dataset, counter = write_data(benchmark.write_rehearsal, folder, count=count, seed=seed)
    benchmark.build_dataset(data, {}, dataset, counter)
    return benchmark


def write_log(folder: Path, answers: Iterable[np.ndarray]) -> Path:
    """Write LoadGen's accuracy log with an answer for each sample, in their order."""
    path = folder / "mlperf_log_accuracy.json"
    entries = [
        json.dumps({"seq_id": number, "qsl_idx": number, "data": answer.tobytes().hex().upper()})
        for number, answer in enumerate(answers)
    ]
    path.write_text("[\n" + ",\n".join(entries) + "\n]\n")
    return path


def run_script(command: Sequence[object], **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of the reference. Raises SystemExit with the end of its messages if it fails."""
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **more)
    if ended.returncode:
        raise SystemExit(f"{command[1]} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
    return ended


def paint_samples(
    name: str, model: Path, dataset: Path, *, count: int, batch: int, precision: str = "fp32"
) -> np.ndarray:
    """Return images or videos [count, …, height, width, 3] of a benchmark's first samples, computed by this project's
    backend with the reference's number of steps."""
    import torch

    benchmark = load_benchmark(Benchmark(name=name))
    plan = LoadPlan(
        engine=None,
        scenario="Offline",
        batch_size=batch,
        streams=1,
        threads=torch.get_num_threads(),
        outputs=benchmark.list_outputs(),
        options={"device": "cpu"},
        completed=lambda *_: None,
        failed=lambda *_: None,
        source=model,
        precision=precision,
        pipeline=benchmark.pipeline,
        shared=benchmark.load_shared(dataset),
    )
    session = load_backend("diffusers").load(plan)
    session.place(benchmark.load_samples(dataset))
    found = [session.compute(slice(row, min(row + batch, count)))[0] for row in range(0, count, batch)]
    session.close()
    return np.concatenate(found)
