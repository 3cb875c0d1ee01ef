"""Measure a bare engine for packed samples: ``python -m tests.gpu.bare_packed rate SETTINGS`` prints one JSON document.

Batches are launched back to back as graphs, with their input in device memory: no LoadGen, no copies, no packing. Since
the first batch may have more or fewer tokens per sample than others, its tokens/s are converted to samples of the mean
length. Settings: engine (folder), packing (a benchmark's name), samples (input -> .npy file), batch, tokens, seconds,
profile.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.backends import BackendEngine
from harness.backends.pytorch.packed import CapturedProgram, PackedProgram
from harness.benchmarks import load_benchmark
from harness.contract import Benchmark
from harness.run.packing import PackedSamples


def rate(settings: dict[str, Any]) -> dict[str, Any]:
    program, samples, number = prepare(settings)
    graph = program.graphs[number]
    warm = launch(program, graph, 2)
    each = max(1, round(1 / (warm[1] / warm[0])))
    seconds: list[float] = []
    while sum(seconds) < settings["seconds"]:
        seconds.append(launch(program, graph, count=each)[1])
    rates = [each * samples / taken for taken in seconds]
    third = rates[-(len(rates) // 3) :] or rates
    mean = each * samples * len(seconds) / sum(seconds)
    found = {
        "rate": mean,
        "last_third": float(np.mean(third)),
        "samples": round(samples, 2),
        "launches": each * len(seconds),
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


def launch(
    program: CapturedProgram, graph: torch.cuda.CUDAGraph, seconds: float = 0, count: int = 0
) -> tuple[int, float]:
    """Launch a number of times or for a number of seconds. Return the number of launches and the seconds."""
    began, done = time.perf_counter(), 0
    with torch.cuda.stream(program.stream):
        while done < count or time.perf_counter() - began < seconds:
            graph.replay()
            done += 1
            if done % 4 == 0:
                program.stream.synchronize()
    program.stream.synchronize()
    return done, time.perf_counter() - began


def profile(program: CapturedProgram, graph: torch.cuda.CUDAGraph) -> dict[str, float]:
    """Return kernel -> its fraction of a batch's time."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        launch(program, graph, count=3)
    spent: dict[str, float] = {}
    for event in seen.key_averages():
        spent[event.key[:70]] = spent.get(event.key[:70], 0) + event.self_device_time_total
    whole = sum(spent.values())
    return {name: round(time / whole, 4) for name, time in sorted(spent.items(), key=lambda item: -item[1])[:12]}


PROGRAMS = {"rate": rate}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](json.loads(sys.argv[2]))))
