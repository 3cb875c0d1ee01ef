"""Inputs that are made as a batch runs: they are put in the engine's order, in its types, or refused."""

from __future__ import annotations

import numpy as np
import pytest

from harness.backends import Tensor
from harness.backends.streams import CollatedBatches
from harness.errors import HarnessError
from harness.run.qsl import Arrays

INPUTS = (Tensor("places", (), "int64"), Tensor("features", (2,), "float32"))
SAMPLES = {"first": np.array([3, 1, 2])}


def spread(samples: Arrays) -> Arrays:
    """As many rows of each as the samples say."""
    count = int(samples["first"].sum())
    return {
        "features": np.arange(2 * count, dtype=np.float16).reshape(2, count).T,
        "places": np.arange(len(samples["first"])),
    }


def test_a_batch_has_what_is_made_of_its_samples_alone() -> None:
    batches = CollatedBatches(spread, SAMPLES, INPUTS)
    places, features = batches.batch(slice(1, 3))
    assert places.tolist() == [0, 1]
    assert features.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert features.dtype == np.float32
    assert features.flags.c_contiguous
    assert len(batches.batch(np.array([0, 2]))[1]) == 5


def test_what_does_not_fit_the_engine_is_refused() -> None:
    other = (Tensor("places", (), "int64"), Tensor("features", (3,), "float32"))
    with pytest.raises(HarnessError, match=r"input features of the engine takes float32 \[3\] per sample"):
        CollatedBatches(spread, SAMPLES, other).batch(slice(0, 1))
