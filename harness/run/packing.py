"""Pack padded samples of different lengths end to end for a batch, and pad their outputs again.

A benchmark declares with a ``Packing`` that its samples can be packed. Inputs of an engine for packed samples: each
packed input [tokens]; ``POSITIONS`` int32 [tokens], the position of each token in its sample; and ``BOUNDS`` int32
[samples + 1], the start of each sample and the end of the last. Its outputs are [tokens, ...].
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
    """``mask``: the input that is 1 for a sample's elements and 0 for the padding after them. ``inputs``: the packed
    inputs. ``longest``: elements of a padded sample. ``fill``: output value for padding."""

    mask: str
    inputs: tuple[str, ...]
    longest: int
    fill: float = 0.0


class PackedSamples:
    """The resident samples without padding. Raises HarnessError if they do not fit the packing."""

    def __init__(self, packing: Packing, samples: Arrays) -> None:
        missing = [name for name in (packing.mask, *packing.inputs) if name not in samples]
        if missing:
            problem = f"the dataset has no array {missing[0]}"
            raise HarnessError(problem, "input", "use the name from the benchmark's packing")
        mask = np.asarray(samples[packing.mask])
        self.lengths: NDArray[np.int64] = np.count_nonzero(mask, axis=1)
        inside = np.arange(mask.shape[1]) < self.lengths[:, None]
        if mask.shape[1] > packing.longest or not self.lengths.all() or not np.array_equal(mask != 0, inside):
            raise HarnessError(
                f"{packing.mask} is not 1 for the first elements of each sample, up to {packing.longest}, and 0 after",
                "input",
                "pad samples at their end only, or use an engine that computes them padded",
            )
        self._packing = packing
        self._bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])
        self._flat = {name: np.asarray(samples[name])[inside] for name in packing.inputs}

    def fit(self, rows: Rows, tokens: int) -> int:
        """Return how many of these samples, counted from the first, have at most ``tokens`` in total; at least one."""
        return max(1, int(np.searchsorted(np.cumsum(self.lengths[rows]), tokens, "right")))

    def split(self, rows: Rows, samples: int, tokens: int) -> Iterator[Rows]:
        """Split into batches of at most this many samples and tokens."""
        first, count = 0, count_rows(rows)
        while first < count:
            some = _take(rows, first, min(first + samples, count))
            fitting = self.fit(some, tokens)
            yield _take(rows, first, first + fitting)
            first += fitting

    def pack(self, rows: Rows, memory: Mapping[str, np.ndarray]) -> tuple[int, int]:
        """Write a batch to the start of each input's array in ``memory``; return its numbers of samples and tokens. The
        rest of ``BOUNDS`` is filled with its last value: samples of length 0."""
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
        """Unpack a batch's outputs [tokens or more, ...] to [samples, longest, ...], in sample order."""
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
    """Allocate memory for batches of at most this size. ``inputs``: the engine's inputs, name -> dtype."""
    return {name: np.zeros(samples + 1 if name == BOUNDS else tokens, dtype) for name, dtype in inputs.items()}


def _take(rows: Rows, first: int, end: int) -> Rows:
    return slice(rows.start + first, rows.start + end) if isinstance(rows, slice) else rows[first:end]
