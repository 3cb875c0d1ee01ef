"""What comparisons with the references of MLCommons share: telling what is the same, and pipelines run here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.backends import LoadPlan, load_backend
from harness.benchmarks import load_benchmark
from harness.contract import Benchmark


def report(what: str, same: bool) -> tuple[str, bool]:
    """Printed as it comes."""
    print(f"{what}{'' if same else '  DIFFERS'}", flush=True)
    return what, same


def paint_samples(
    name: str, model: Path, dataset: Path, *, count: int, batch: int, precision: str = "fp32"
) -> np.ndarray:
    """[count, …, height, width, 3]: pictures or videos of a benchmark's first samples by the backend of this project,
    at the reference's number of steps."""
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
