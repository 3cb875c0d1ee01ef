"""Host memory in which a stream puts its next batch together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from harness.run.qsl import Rows, count_rows, gather


class Staging:
    """One batch of every input, for one stream.

    ``arrays``: the resident samples in the order of the inputs. ``batch_sizes``: see ``Engine``; ascending. ``memory``:
    room for a batch of each, where it must be somewhere.
    """

    def __init__(
        self,
        arrays: Sequence[np.ndarray],
        batch_size: int,
        batch_sizes: Sequence[int] = (),
        memory: Sequence[np.ndarray] = (),
    ) -> None:
        self._arrays = arrays
        self._sizes = tuple(batch_sizes)
        self._memory = list(memory) or [np.zeros((batch_size, *array.shape[1:]), array.dtype) for array in arrays]

    def batch(self, rows: Rows) -> list[np.ndarray]:
        """The inputs of a batch, as views of resident samples where they are contiguous. Padded where the engine needs
        it.

        Padding is whatever the staging memory contained: those rows of the output are never read.
        """
        count = count_rows(rows)
        padded = self.padded(count)
        if padded == count:
            return [gather(array, rows, memory) for array, memory in zip(self._arrays, self._memory, strict=True)]
        for array, memory in zip(self._arrays, self._memory, strict=True):
            head = memory[:count]
            taken = gather(array, rows, memory)
            if isinstance(rows, slice):
                head[...] = taken
        return [memory[:padded] for memory in self._memory]

    def padded(self, count: int) -> int:
        """The size that the engine computes for ``count`` rows."""
        return self._sizes[bisect_left(self._sizes, count)] if self._sizes else count
