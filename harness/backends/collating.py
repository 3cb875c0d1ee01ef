"""Inputs that are made as a batch runs, for engines each of whose inputs has a length of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.backends import Collate, Tensor, match_samples
from harness.run.qsl import Arrays, Rows


class CollatedBatches:
    """Batches that are made by any thread. ``samples``: the resident ones, ``inputs``: of the engine."""

    def __init__(self, collate: Collate, samples: Arrays, inputs: Sequence[Tensor]) -> None:
        self._collate, self._samples, self._inputs = collate, samples, inputs

    def batch(self, rows: Rows) -> list[np.ndarray]:
        """In the order of the engine's inputs, C-contiguous; floats in its type, since a dataset may keep halves of
        them. Raises HarnessError where they do not fit the engine."""
        made = dict(self._collate({name: array[rows] for name, array in self._samples.items()}))
        for tensor in self._inputs:
            given = made.get(tensor.name)
            if given is not None and given.dtype.kind == np.dtype(tensor.dtype).kind == "f":
                made[tensor.name] = given.astype(tensor.dtype, copy=False)
        return [np.ascontiguousarray(array) for array in match_samples(made, self._inputs)]
