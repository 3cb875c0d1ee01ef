"""A small DLRM-DCNv2 trained on generated clicks, to measure the AUC that fp8 loses. With random weights, answers would
show little about a precision.

A click depends on a hidden number for each value of each feature, on the dense features and on pairs of features, with
noise, so no network reaches an AUC of 100 %.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from harness.benchmarks.dlrm_v2.checkpoint import draw_weights
from harness.benchmarks.dlrm_v2.criteo import compute_auc
from harness.benchmarks.dlrm_v2.layers import DENSE, MULTI_HOT, OUTPUT, TABLE_ROWS, Shape
from harness.benchmarks.dlrm_v2.lowered import lower_program
from harness.benchmarks.dlrm_v2.program import DlrmDcn, export_network
from harness.benchmarks.saved_tensors import name_attribute
from harness.contract import Counter

ROWS = 200  # of a table at most
SHAPE = Shape(
    rows=tuple(min(rows, ROWS) for rows in TABLE_ROWS),
    width=32,
    bottom=(64, 32, 32),
    rank=64,
    top=(128, 128, 64, 32, 1),
)
BATCH, CALIBRATED, SCORED = 2048, 16_384, 65_536


class Clicks:
    """Pairs, and whether they are clicked."""

    def __init__(self, seed: int = 5) -> None:
        self._rng = np.random.default_rng(seed)
        self._hidden = [self._rng.normal(0, 1, rows).astype(np.float32) for rows in SHAPE.rows]
        self._direct = self._rng.normal(0, 1, DENSE).astype(np.float32)
        self._together = self._rng.integers(0, len(MULTI_HOT), (12, 2))

    def draw(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = self._rng
        dense = rng.random((count, DENSE), np.float32)
        values = [rng.integers(0, rows, (count, n), np.int32) for rows, n in zip(SHAPE.rows, MULTI_HOT, strict=True)]
        felt = np.stack([hidden[v].sum(1) / v.shape[1] ** 0.5 for hidden, v in zip(self._hidden, values, strict=True)])
        logit = 0.3 * felt.sum(0) + dense @ self._direct
        logit += 0.5 * sum(felt[one] * felt[other] for one, other in self._together)
        logit -= logit.mean() + 1.0
        clicked = rng.random(count) < 1 / (1 + np.exp(-logit))
        return dense, np.concatenate(values, axis=1), clicked.astype(np.float32)


def train_network(clicks: Clicks, seconds: float, device: str) -> dict[str, torch.Tensor]:
    weights = {name: torch.from_numpy(array) for name, array in draw_weights(np.random.default_rng(1), SHAPE).items()}
    for name, tensor in weights.items():
        tensor.mul_(0.1 if "embedding_bags" in name else 1.0)
    network = DlrmDcn(weights, SHAPE).to(device)
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    began = time.monotonic()
    while (spent := time.monotonic() - began) < seconds:
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * max(0.02, 1 - spent / seconds)
        dense, sparse, clicked = (torch.from_numpy(array).to(device) for array in clicks.draw(BATCH))
        guessed = network(dense, sparse)[OUTPUT][:, 0]
        loss = functional.binary_cross_entropy(guessed.clamp(1e-6, 1 - 1e-6), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = network.to("cpu").state_dict()
    return {name: state[name_attribute(name)].detach() for name in weights}


def compare_precisions(seconds: float, device: str) -> dict[str, Any]:
    """Return the AUC in fp32 and of the fp8 program on ``device``."""
    clicks = Clicks()
    weights = train_network(clicks, seconds, device)
    exact = DlrmDcn(weights, SHAPE)
    dense, sparse, _ = clicks.draw(CALIBRATED)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt2"
        export_network(exact, SHAPE, path)
        samples = {"dense": dense, "sparse": sparse}
        made = lower_program(path, {"precision": "fp8"}, samples, Counter(Path(folder) / "counter"), compare=2048)
        lowered = torch.export.load(path).module().to(device)
    dense, sparse, clicked = clicks.draw(SCORED)
    scores = {}
    for name, network, place in (("fp32", exact, "cpu"), ("fp8", lowered, device)):
        with torch.no_grad():
            given = torch.from_numpy(dense).to(place), torch.from_numpy(sparse).to(place)
            guessed = network(*given)[OUTPUT][:, 0].cpu().numpy()
        scores[name] = round(100 * compute_auc(guessed, clicked), 4)
    ratio = round(scores["fp8"] / scores["fp32"], 5)
    return {**scores, "ratio": ratio, "goal": 0.99, **made["comparison"]}
