"""Measure a bare engine for packed samples: ``python -m tests.gpu.bare_packed rate SETTINGS`` prints one JSON document.

Batches are launched back to back as graphs, with their input in device memory: no LoadGen, no copies, no packing. Since
the first batch may have more or fewer tokens per sample than others, its tokens/s are converted to samples of the mean
length. Settings: engine (folder), packing (a benchmark's name), samples (input -> .npy file), batch, tokens, seconds,
profile.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.backends import BackendEngine
from harness.backends.pytorch.packed import CapturedProgram, PackedProgram
from harness.benchmarks import load_benchmark
from harness.contract import Benchmark
from harness.run.packing import PackedSamples
from tests.gpu.graphs import launch, repeat_graph, time_kernels


def rate(settings: dict[str, Any]) -> dict[str, Any]:
    program, samples, number = prepare(settings)
    graph = program.graphs[number]
    launched = repeat_graph(graph, program.stream, settings["seconds"])
    found = {
        "rate": launched.rate * samples,
        "last_third": launched.last_third * samples,
        "samples": round(samples, 2),
        "launches": launched.count,
    }
    return found | ({"profile": profile(program, graph)} if settings.get("profile") else {})


def prepare(settings: dict[str, Any]) -> tuple[CapturedProgram, float, int]:
    """Load the first batch. Return its size in samples of the mean length, and its graph."""
    folder = Path(settings["engine"])
    engine = BackendEngine.read(folder, "pytorch-cuda")
    loaded = PackedProgram(engine, folder, "cuda:0")
    program = CapturedProgram(loaded, settings["tokens"], settings["batch"])
    packing = load_benchmark(Benchmark(name=settings["packing"])).packing
    assert packing is not None
    arrays = {name: np.load(path, mmap_mode="r") for name, path in settings["samples"].items()}
    packed = PackedSamples(packing, arrays)
    count = packed.fit(slice(0, settings["batch"]), settings["tokens"])
    memory = {name: whole.cpu().numpy() for name, whole in program.inputs.items()}
    found, tokens = packed.pack(slice(0, count), memory)
    for name, whole in program.inputs.items():
        whole.copy_(torch.from_numpy(memory[name]))
    torch.cuda.synchronize()
    return program, tokens / float(packed.lengths.mean()), program.find(tokens, found)


def profile(program: CapturedProgram, graph: torch.cuda.CUDAGraph) -> dict[str, float]:
    """Return kernel -> its fraction of a batch's time."""
    spent = time_kernels(lambda: launch(graph, program.stream, 3))
    whole = sum(spent.values())
    return {name: round(time / whole, 4) for name, time in list(spent.items())[:12]}


if __name__ == "__main__":
    print(json.dumps(rate(json.loads(sys.argv[2]))))
