"""A checkpoint of random weights, written as the reference's is."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.dlrm_v2.checkpoint import BUFFER, METADATA
from harness.benchmarks.dlrm_v2.layers import Shape, list_weights

_RANKS = 2  # that a checkpoint is written by


def draw_weights(rng: np.random.Generator, shape: Shape) -> dict[str, NDArray[np.float32]]:
    """Their deviations keep the scale of values from layer to layer."""
    found = {}
    for name, size in list_weights(shape).items():
        deviation = 0.05 if len(size) == 1 else (1.5 / size[1]) ** 0.5
        deviation = 0.3 if "embedding_bags" in name else deviation
        found[name] = rng.normal(0, deviation, size).astype(np.float32)
    return found


def write_checkpoint(folder: Path, weights: Mapping[str, NDArray[np.float32]]) -> None:
    """As torchsnapshot does for training on several devices: a table in a file for each device, its rows shared out;
    small weights one behind the other in a file."""
    manifest: dict[str, Any] = {}
    small, end = b"", 0
    (folder / "batched").mkdir()
    for name, tensor in weights.items():
        path = f"model/model.{name}"
        if "embedding_bags" in name:
            bounds = np.linspace(0, len(tensor), _RANKS + 1).astype(int).tolist()
            for rank, (first, last) in enumerate(itertools.pairwise(bounds)):
                location = f"sharded/{path}_{first}_0"
                (folder / location).parent.mkdir(parents=True, exist_ok=True)
                (folder / location).write_bytes(tensor[first:last].tobytes())
                shard = {"offsets": [first, 0], "sizes": [last - first, tensor.shape[1]]}
                entry = _describe((last - first, tensor.shape[1]), location)
                manifest[f"{rank}/{path}"] = {"type": "ShardedTensor", "shards": [{**shard, "tensor": entry}]}
        else:
            entry = _describe(tensor.shape, "batched/0", (end, end + tensor.nbytes))
            manifest |= {f"{rank}/{path}": entry for rank in range(_RANKS)}
            small, end = small + tensor.tobytes(), end + tensor.nbytes
    (folder / "batched/0").write_bytes(small)
    document = {"version": "0.1.0", "world_size": _RANKS, "manifest": manifest}
    (folder / METADATA).write_text(json.dumps(document, indent=1), encoding="utf-8")


def _describe(shape: tuple[int, ...], location: str, place: tuple[int, int] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "Tensor", "location": location, "serializer": BUFFER, "dtype": "torch.float32"}
    return {**found, "shape": list(shape), "replicated": False, "byte_range": list(place) if place else None}
