"""Generate a small day 23 of clicks in the format of the reference's preparation, and a network that predicts them.

Tables are cut to a few rows each, as in the rehearsal of ``dlrm_v2``.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from harness.benchmarks.dlrm import (
    DAY_FILE,
    DENSE_FEATURES,
    LABELS,
    REFERENCE,
    SPARSE_FEATURES,
    compute_logarithms,
)
from harness.benchmarks.dlrm_v2.checkpoint import open_checkpoint, write_checkpoint
from harness.benchmarks.dlrm_v2.criteo import TABLES
from harness.benchmarks.dlrm_v2.layers import DENSE
from harness.benchmarks.dlrm_v2.network import MODEL, write_network
from harness.benchmarks.dlrm_v2.rehearsal import count_pairs, cut_shape, draw_clicks
from harness.contract import Counter


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    rng = np.random.default_rng(seed)
    shape = cut_shape(REFERENCE, size)
    dense = rng.exponential(20.0, (count_pairs(count), DENSE)).astype(np.int32)
    sparse, clicked, weights = draw_clicks(rng, shape, compute_logarithms(dense), models, counter)
    # The types of the reference's files.
    arrays: dict[str, Any] = {DENSE_FEATURES: dense, SPARSE_FEATURES: np.concatenate(sparse, axis=1), LABELS: clicked}
    np.savez_compressed(data / DAY_FILE, **{name: array.astype(np.float64) for name, array in arrays.items()})
    (data / TABLES).write_text(json.dumps(shape.rows) + "\n", encoding="ascii")
    with tempfile.TemporaryDirectory(dir=models) as name:
        folder = Path(name)
        write_checkpoint(folder, weights)
        write_network(open_checkpoint(folder, list(weights)), shape, folder, counter)
        onnx.save_model(onnx.load(folder / MODEL), models / "dlrm.onnx")  # one file, tables and all
