"""The built-in benchmark from its data to its score, through the four verbs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.benchmarks import digits
from harness.contract import Counter
from tests.shared import need


def test_split_leaves_no_sample_in_both_parts(tmp_path: Path) -> None:
    need("sklearn")
    digits.BENCHMARK.build_dataset(None, {}, tmp_path, Counter(tmp_path / "counter"))
    withheld, train = np.load(tmp_path / "samples.npy"), np.load(tmp_path / "train_samples.npy")
    assert (withheld.shape, train.shape) == ((1024, 1, 8, 8), (773, 1, 8, 8))
    assert (withheld.min(), withheld.max(), withheld.dtype) == (-1, 1, np.float32)
    both = {sample.tobytes() for sample in withheld} & {sample.tobytes() for sample in train}
    assert not both
    assert set(np.load(tmp_path / "labels.npy")) == set(np.load(tmp_path / "train_labels.npy")) == set(range(10))


def test_gradients_are_those_of_the_loss() -> None:
    """Against differences of the loss, in double precision."""
    rng = np.random.default_rng(0)
    parameters = {name: value.astype(np.float64) for name, value in digits.draw_parameters(rng).items()}
    images, labels = rng.standard_normal((3, 1, 8, 8)), np.array([1, 5, 5])

    def loss() -> float:
        active = images.transpose(0, 2, 3, 1)
        for name in ("conv1", "conv2"):
            active = digits.convolve(parameters, name, digits.cut_patches(active))
        pooled = active.reshape(3, 4, 2, 4, 2, -1).max(axis=(2, 4)).transpose(0, 3, 1, 2).reshape(3, -1)
        scores = pooled @ parameters["dense"].T + parameters["dense_bias"]
        chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        return float(-np.log(chances[np.arange(3), labels]).mean())

    gradients = digits.compute_gradients(parameters, images, labels)
    for name, gradient in gradients.items():
        flat, slope = parameters[name].reshape(-1), gradient.reshape(-1)
        for position in rng.integers(0, len(flat), 5):
            kept, step = flat[position], 1e-6
            flat[position] = kept + step
            above = loss()
            flat[position] = kept - step
            below = loss()
            flat[position] = kept
            assert slope[position] == pytest.approx((above - below) / (2 * step), rel=1e-3, abs=1e-5)
