"""Measure a bare engine of fused operators: ``python -m tests.gpu.bare_fused rate SETTINGS`` prints one JSON document.

One batch is launched back to back as a graph, with its input in device memory: no LoadGen, no copies. Settings: engine
(folder), samples (input -> .npy file), batch (rows), seconds, profile; whole: enlarge the tables to the reference's
size, with random bytes as weights and random indices, so that the memory is as large as in a submission.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.backends.pytorch.fused import FILE, FusedModel
from harness.benchmarks.dlrm_v2.layers import MULTI_HOT, TABLE_ROWS
from tests.gpu.graphs import launch, repeat_graph, time_kernels

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
    launched = repeat_graph(graph, stream, settings["seconds"])
    found: dict[str, Any] = {
        "rate": launched.rate * rows,
        "last_third": launched.last_third * rows,
        "batch_ms": round(1e3 / launched.rate, 4),
    }
    if settings.get("profile"):  # kernel -> milliseconds per batch
        spent = time_kernels(lambda: launch(graph, stream, 3))
        found["profile"] = {name: round(1e3 * taken / 3, 4) for name, taken in list(spent.items())[:14]}
    return found


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


if __name__ == "__main__":
    print(json.dumps(rate(json.loads(sys.argv[2]))))
