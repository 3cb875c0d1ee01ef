"""Common parts of comparisons with the MLCommons references: reports of equal parts, and pipelines that run here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.backends import LoadPlan, load_backend
from harness.benchmarks import BenchmarkCode, load_benchmark
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Benchmark, Counter


def report(what: str, same: bool) -> tuple[str, bool]:
    """Print a result immediately."""
    print(f"{what}{'' if same else '  DIFFERS'}", flush=True)
    return what, same


def rehearse(folder: Path, name: str, *, count: int, seed: int = 3) -> BenchmarkCode:
    """Write data/ and models/ of a small rehearsal, and dataset/, prepared from it. Return the benchmark."""
    data, models, dataset = (folder / part for part in ("data", "models", "dataset"))
    for part in (data, models, dataset):
        part.mkdir()
    counter = Counter(folder / "counter")
    benchmark = load_benchmark(Benchmark(name=name))
    benchmark.write_rehearsal(data, models, count=count, seed=seed, size="small", counter=counter)
    (data / REHEARSAL).write_text("{}")
    benchmark.build_dataset(data, {}, dataset, counter)
    return benchmark


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
