"""Generate a small day 23 of clicks, and a checkpoint of a network with the reference's depth that predicts them.

Tables are reduced to a few rows each, and feature values stay below that number. The labels are the network's own
answers in fp32.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.dlrm_v2.checkpoint import draw_weights, open_checkpoint, write_checkpoint
from harness.benchmarks.dlrm_v2.criteo import DENSE_FILE, LABELS_FILE, SIZES, SPARSE_FILE, TABLES, group_pairs
from harness.benchmarks.dlrm_v2.layers import DENSE, Shape, name_top
from harness.benchmarks.dlrm_v2.network import MODEL, write_network
from harness.benchmarks.network_builder import NetworkSession
from harness.contract import Counter

CHECKPOINT = "model_weights"
_BATCH = 1024
_MOST_ROWS = {"small": 100, "full": 10_000}
_SHAPES: Mapping[str, dict[str, Any]] = {
    "small": {"width": 8, "bottom": (32, 16, 8), "rank": 16, "top": (64, 32, 16, 8, 1)},
    "full": {},
}


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    rng = np.random.default_rng(seed)
    shape = cut_shape(Shape(), size)
    dense = np.log1p(rng.exponential(20.0, (count_pairs(count), DENSE))).astype(np.float32)
    sparse, clicked, weights = draw_clicks(rng, shape, dense, models, counter)
    np.save(data / DENSE_FILE, dense)
    np.save(data / LABELS_FILE, clicked[:, None])
    members: dict[str, Any] = {str(number): array for number, array in enumerate(sparse)}
    np.savez(data / SPARSE_FILE, **members)
    (data / TABLES).write_text(json.dumps(shape.rows) + "\n", encoding="ascii")
    (models / CHECKPOINT).mkdir()
    write_checkpoint(models / CHECKPOINT, weights)


def cut_shape(reference: Shape, size: str) -> Shape:
    rows = tuple(min(rows, _MOST_ROWS[size]) for rows in reference.rows)
    return replace(reference, rows=rows, **_SHAPES[size])


def count_pairs(count: int) -> int:
    """Return the number of pairs of a day whose first half has ``count`` samples."""
    return 2 * int(group_pairs(count * max(SIZES))[count])


Drawn = tuple[list[NDArray[np.int32]], NDArray[np.int32], dict[str, NDArray[np.float32]]]


def draw_clicks(
    rng: np.random.Generator, shape: Shape, dense: NDArray[np.float32], models: Path, counter: Counter
) -> Drawn:
    """Draw the categorical features, the weights, and the labels that these predict."""
    sparse = [
        rng.integers(0, rows, (len(dense), values), np.int32)
        for rows, values in zip(shape.rows, shape.values, strict=True)
    ]
    weights = draw_weights(rng, shape)
    inputs = {"dense": dense, "sparse": np.concatenate(sparse, axis=1)}
    # Half of the pairs are clicked, since the last bias shifts the median of all answers to one half.
    shift = weights[f"{name_top(len(shape.top) - 1, len(shape.top))}.bias"]
    few = _answer(weights, shape, {name: array[:_BATCH] for name, array in inputs.items()}, models, counter)
    shift -= np.median(np.log(few / (1 - few)))
    clicked = _answer(weights, shape, inputs, models, counter) > 0.5
    return sparse, clicked.astype(np.int32), weights


def _answer(
    weights: Mapping[str, NDArray[np.float32]],
    shape: Shape,
    inputs: Mapping[str, np.ndarray],
    scratch: Path,
    counter: Counter,
) -> NDArray[np.float32]:
    """Compute answers through the same checkpoint code as for any model."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        write_checkpoint(Path(folder), weights)
        write_network(open_checkpoint(Path(folder), list(weights)), shape, Path(folder), counter)
        session = NetworkSession(Path(folder) / MODEL)
        rows = len(inputs["dense"])
        counter.stage("building", rows)
        found = []
        for start in range(0, rows, _BATCH):
            found += session.compute({name: array[start : start + _BATCH] for name, array in inputs.items()})
            counter.bump(min(_BATCH, rows - start))
        return np.concatenate(found)[:, 0]
