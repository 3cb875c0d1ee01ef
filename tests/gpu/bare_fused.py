"""Measure a bare engine of fused operators: ``python -m tests.gpu.bare_fused rate SETTINGS`` prints one JSON document.

One batch is launched back to back as a graph, with its input in device memory: no LoadGen, no copies. Settings: engine
(folder), samples (input -> .npy file), batch (rows), seconds, profile; whole: enlarge the tables to the reference's
size, with random bytes as weights and random indices, so that the memory is as large as in a submission.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.backends.pytorch.fused import FILE, FusedModel
from harness.benchmarks.dlrm_v2.layers import MULTI_HOT, TABLE_ROWS

FP8_LIMIT = 0x78  # bytes below it are finite numbers of e4m3


def rate(settings: dict[str, Any]) -> dict[str, Any]:
    model = FusedModel(torch.export.load(Path(settings["engine"]) / FILE), "cuda:0")
    rows = settings["batch"]
    given = {
        name: torch.from_numpy(np.ascontiguousarray(np.load(path, mmap_mode="r")[:rows])).cuda()
        for name, path in settings["samples"].items()
    }
    if settings.get("whole"):
        given["sparse"] = enlarge_tables(model, rows)
    inputs = list(given.values())
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model.compute(inputs)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        model.compute(inputs)
    warm = launch(graph, stream, 20)
    each = max(1, round(20 / warm))
    seconds: list[float] = []
    while sum(seconds) < settings["seconds"]:
        seconds.append(launch(graph, stream, each))
    rates = [each * rows / taken for taken in seconds]
    found = {
        "rate": each * rows * len(seconds) / sum(seconds),
        "last_third": float(np.mean(rates[-(len(rates) // 3) :])),
        "batch_ms": round(1e3 * sum(seconds) / len(seconds) / each, 4),
    }
    return found | ({"profile": profile(graph, stream)} if settings.get("profile") else {})


def enlarge_tables(model: FusedModel, rows: int) -> torch.Tensor:
    """Enlarge the tables, and replace the indices by random ones."""
    (module,) = (model._module,)
    width = module.tables.shape[1]
    whole = torch.empty(sum(TABLE_ROWS), width, dtype=torch.uint8, device="cuda")
    for part in whole.split(1 << 22):
        part.random_(0, FP8_LIMIT)
    begins = np.concatenate([[0], np.cumsum(TABLE_ROWS)[:-1]]).tolist()
    module.tables = whole.view(torch.float8_e4m3fn)
    module.layout[:, 2] = torch.tensor(begins, device="cuda")
    named = [torch.randint(0, n, (rows, count), device="cuda") for n, count in zip(TABLE_ROWS, MULTI_HOT, strict=True)]
    return torch.cat(named, dim=1).int()


def launch(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, count: int) -> float:
    began = time.perf_counter()
    with torch.cuda.stream(stream):
        for number in range(count):
            graph.replay()
            if number % 8 == 7:
                stream.synchronize()
    stream.synchronize()
    return time.perf_counter() - began


def profile(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream) -> dict[str, float]:
    """Return kernel -> total milliseconds per batch."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        launch(graph, stream, 3)
    spent: dict[str, float] = {}
    for event in seen.key_averages():
        spent[event.key[:70]] = spent.get(event.key[:70], 0) + event.self_device_time_total / 3e3
    return {name: round(taken, 4) for name, taken in sorted(spent.items(), key=lambda item: -item[1])[:14]}


PROGRAMS = {"rate": rate}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](json.loads(sys.argv[2]))))
