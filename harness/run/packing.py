"""Samples of different lengths, padded to the longest: put end to end for a batch, and their outputs padded again.

A benchmark declares by a ``Packing`` that its samples can be packed. What an engine for packed samples takes, by name:
each packed input [tokens], ``POSITIONS`` int32 [tokens], the place of each token in its sample, and ``BOUNDS`` int32
[samples + 1], where each sample begins, and last the end of the last. It gives outputs [tokens, ...].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.errors import HarnessError
from harness.run.qsl import Arrays, Rows, count_rows

POSITIONS, BOUNDS = "positions", "bounds"


class Packing(NamedTuple):
    """``mask``: the input that is 1 for the elements of a sample and 0 for its padding, which follows them. ``inputs``:
    those that are packed. ``longest``: elements of a padded sample. ``fill``: output of what is padding."""

    mask: str
    inputs: tuple[str, ...]
    longest: int
    fill: float = 0.0


class PackedSamples:
    """The resident samples without their padding. Raises HarnessError where they do not fit the packing."""

    def __init__(self, packing: Packing, samples: Arrays) -> None:
        missing = [name for name in (packing.mask, *packing.inputs) if name not in samples]
        if missing:
            raise HarnessError(f"the dataset has no array {missing[0]}", "input", "name it as the benchmark packs it")
        mask = np.asarray(samples[packing.mask])
        self.lengths: NDArray[np.int64] = np.count_nonzero(mask, axis=1)
        inside = np.arange(mask.shape[1]) < self.lengths[:, None]
        if mask.shape[1] > packing.longest or not self.lengths.all() or not np.array_equal(mask != 0, inside):
            raise HarnessError(
                f"{packing.mask} is not 1 for the first elements of each sample, up to {packing.longest}, and 0 behind",
                "input",
                "pad samples at their end only, or use an engine that computes them padded",
            )
        self._packing = packing
        self._bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])
        self._flat = {name: np.asarray(samples[name])[inside] for name in packing.inputs}

    def fit(self, rows: Rows, tokens: int) -> int:
        """How many of these, from the first on, have no more than ``tokens`` together; one at least."""
        return max(1, int(np.searchsorted(np.cumsum(self.lengths[rows]), tokens, "right")))

    def split(self, rows: Rows, samples: int, tokens: int) -> Iterator[Rows]:
        """In batches of at most so many samples and tokens."""
        first, count = 0, count_rows(rows)
        while first < count:
            some = _take(rows, first, min(first + samples, count))
            fitting = self.fit(some, tokens)
            yield _take(rows, first, first + fitting)
            first += fitting

    def pack(self, rows: Rows, memory: Mapping[str, np.ndarray]) -> tuple[int, int]:
        """Write a batch into the heads of ``memory``, by name of the input; how many samples and tokens it has.
        ``BOUNDS`` is filled to its end with the last of them: samples of no length."""
        lengths = self.lengths[rows]
        count, tokens = len(lengths), int(lengths.sum())
        bounds = memory[BOUNDS]
        bounds[0] = 0
        np.cumsum(lengths, out=bounds[1 : count + 1])
        bounds[count + 1 :] = tokens
        starts = self._bounds[:-1][rows]
        places = np.arange(tokens, dtype=np.int64) - np.repeat(bounds[:count], lengths)
        memory[POSITIONS][:tokens] = places
        taken: Any = slice(int(starts[0]), int(starts[0]) + tokens)
        if not isinstance(rows, slice):
            taken = np.repeat(starts, lengths) + places
        for name, flat in self._flat.items():
            memory[name][:tokens] = flat[taken]
        return count, tokens

    def unpack(self, rows: Rows, outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs [tokens or more, ...] of a batch -> [samples, longest, ...] in their order."""
        lengths = self.lengths[rows]
        tokens = int(lengths.sum())
        inside = np.arange(self._packing.longest) < lengths[:, None]
        found = []
        for output in outputs:
            padded = np.full((len(lengths), self._packing.longest, *output.shape[1:]), self._packing.fill, output.dtype)
            padded[inside] = output[:tokens]
            found.append(padded)
        return found


def make_memory(inputs: Mapping[str, str], samples: int, tokens: int) -> dict[str, np.ndarray]:
    """Room for batches of at most so many. ``inputs``: name -> dtype, of an engine."""
    return {name: np.zeros(samples + 1 if name == BOUNDS else tokens, dtype) for name, dtype in inputs.items()}


def _take(rows: Rows, first: int, end: int) -> Rows:
    return slice(rows.start + first, rows.start + end) if isinstance(rows, slice) else rows[first:end]
