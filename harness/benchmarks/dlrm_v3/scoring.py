"""Normalized entropy, accuracy and AUC of each request, in the lines that the official script prints.

As torchrec computes them: entropy over that of always predicting the mean of the labels, and the mean of the areas
under the curves of those requests that have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.accuracy import AnswerLog
from harness.errors import HarnessError

_LEAST = 1e-12  # distance of a prediction from 0 and 1
_FIX = "run accuracy again"


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """DLRM_NE, DLRM_ACC and DLRM_AUC, of 1. An answer says itself which request it is of: LoadGen's number is not
    asked."""
    requests = np.load(dataset / "requests.npy", mmap_mode="r")
    likes = np.load(dataset / "likes.npy", mmap_mode="r")
    counts = np.bincount(requests[:, 0])
    firsts = np.cumsum(counts) - counts
    answered = np.zeros(len(requests), bool)
    entropy = right = liked = total = areas = curves = 0.0
    for data in log.data:
        values = _read(data, likes.shape[1])
        request = _find_request(values[:2], counts, firsts)
        if answered[request]:
            raise HarnessError(f"request {request} is answered twice", "input", _FIX)
        answered[request] = True
        _, predictions, labels, weights, _ = np.split(values, 2 + likes.shape[1] * np.arange(4))
        if not np.array_equal(labels, likes[request]) or not (weights == 1).all():
            raise HarnessError("an answer does not carry the labels of its request", "input", _FIX)
        entropy += sum_entropy(predictions, labels)
        right += float(((predictions >= 0.5) == labels).sum())
        liked += float(labels.sum())
        total += len(labels)
        area = compute_area(predictions, labels)
        if area is not None:
            areas, curves = areas + area, curves + 1
    found = {
        "DLRM_NE": entropy / (total * _entropy_of(liked / total)),
        "DLRM_ACC": right / total,
        "DLRM_AUC": (areas + 1e-9) / (curves + 2e-9),
    }
    names = zip(("ne", "accuracy", "gauc"), found.values(), strict=True)
    text = "".join(f"metric/lifetime_{name}/rating: {value}\n" for name, value in names)
    (output / "accuracy.txt").write_text(text, encoding="ascii")
    return {**found, "total": int(total)}


def _read(data: bytes, count: int) -> np.ndarray:
    """Timestamp, number, predictions, labels, weights, and how many."""
    if len(data) != 4 * (3 + 3 * count):
        problem = f"an answer holds {len(data)} bytes, a request of {count} candidates makes {4 * (3 + 3 * count)}"
        raise HarnessError(problem, "input", _FIX)
    values = np.frombuffer(data, np.float32)
    if values[-1] != count or not np.isfinite(values).all():
        raise HarnessError("an answer holds what is not a number, or another count of candidates", "input", _FIX)
    return values


def _find_request(named: np.ndarray, counts: np.ndarray, firsts: np.ndarray) -> int:
    timestamp, number = named.astype(np.int64).tolist()
    if not (0 <= timestamp < len(counts) and 0 <= number < counts[timestamp]):
        summary = f"an answer is of request {number} of timestamp {timestamp}, which the dataset does not have"
        raise HarnessError(summary, "input", _FIX)
    return int(firsts[timestamp] + number)


def sum_entropy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """In bits."""
    chances = np.clip(predictions.astype(np.float64), _LEAST, 1 - _LEAST)
    return float(-np.log2(np.where(labels == 1, chances, 1 - chances)).sum())


def _entropy_of(mean: float) -> float:
    mean = min(max(mean, _LEAST), 1 - _LEAST)
    return float(-mean * np.log2(mean) - (1 - mean) * np.log2(1 - mean))


def compute_area(predictions: np.ndarray, labels: np.ndarray) -> float | None:
    """In single precision, as the official script sums it up. None where labels or predictions are all alike: 0 counts
    as any, since the script pads with it."""
    if labels.min() == labels.max() or ((predictions == predictions[0]) | (predictions == 0)).all():
        return None
    ranked = labels[np.argsort(predictions, kind="stable")]
    below = np.cumsum(1 - ranked)
    liked = int(labels.sum())
    return float(np.float32((ranked * below).sum()) / np.float32(liked * (len(labels) - liked)))
