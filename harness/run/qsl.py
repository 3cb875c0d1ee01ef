"""The samples of a run: which of them are resident, in which order, and in which rows LoadGen's indices are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import HarnessError

Arrays = Mapping[str, Any]
"""Maps an input's name to its samples: an array whose first axis counts them, or a ``Ragged``."""
Rows = slice | NDArray[np.intp]
"""Positions among the resident samples: a slice if they are contiguous, so that a backend can read in place."""


class Ragged:
    """Samples of different sizes, one array (or memory map) each. Replaces an array of samples in benchmarks that take
    one sample at a time (harness.run.loops)."""

    def __init__(self, samples: Sequence[np.ndarray]) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, row: int) -> np.ndarray:
        return self._samples[row]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self._samples)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._samples[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape with -1 for axes that vary."""
        sizes = zip(*(sample.shape for sample in self._samples), strict=True)
        return (len(self), *(size[0] if len(set(size)) == 1 else -1 for size in sizes))


class Parts(Sequence[np.ndarray]):
    """Possibly overlapping parts of an array or memory map. ``bounds`` [samples, 2]: the start and the end of each
    part."""

    def __init__(self, whole: np.ndarray, bounds: NDArray[np.int64]) -> None:
        self._whole, self._bounds = whole.view(np.ndarray), bounds.tolist()

    def __len__(self) -> int:
        return len(self._bounds)

    def __getitem__(self, number: Any) -> Any:
        begin, end = self._bounds[number]
        return self._whole[begin:end]


class Consecutive(Parts):
    """Samples of different sizes, one after the other. ``bounds``: where each sample starts, and where the last one
    ends."""

    def __init__(self, whole: np.ndarray, bounds: NDArray[np.int64]) -> None:
        super().__init__(whole, np.stack([bounds[:-1], bounds[1:]], axis=1))


def take_rows(samples: Any, rows: NDArray[np.intp]) -> Any:
    """Return samples in memory, in this order. Among samples of different sizes, a repeated one is stored only once."""
    if not isinstance(samples, Ragged):
        return np.ascontiguousarray(samples[rows])
    copies = {row: np.array(samples[row]) for row in set(rows.tolist())}
    return Ragged([copies[row] for row in rows.tolist()])


class SampleLibrary:
    """Loads samples in LoadGen's order, so that neighbours remain neighbours.

    ``arrays``: input name -> samples along the first axis; they may be memory maps. ``place`` receives the resident
    arrays, each C-contiguous, and may move them to a device. ``failed`` receives the error of a load, which must not
    reach LoadGen. ``performance_count`` 0 means all.
    """

    def __init__(
        self,
        arrays: Arrays,
        place: Callable[[Arrays], None],
        failed: Callable[[BaseException], None],
        *,
        performance_count: int = 0,
    ) -> None:
        counts = {len(array) for array in arrays.values()}
        if len(counts) != 1 or 0 in counts:
            problem = f"the dataset's arrays have {sorted(counts) or 'no'} samples"
            raise HarnessError(problem, "input", "every input needs as many samples")
        self._arrays, self._place, self._failed = arrays, place, failed
        self.total_count = counts.pop()
        self.performance_count = min(performance_count, self.total_count) if performance_count else self.total_count
        self._position = np.zeros(self.total_count, np.intp)

    def load(self, indices: list[int]) -> None:
        """Make these samples resident. MultiStream repeats some samples; each is found at its first position."""
        try:
            order = np.fromiter(indices, np.intp, len(indices))
            self._position[order[::-1]] = np.arange(len(order))[::-1]
            self._place({name: take_rows(array, order) for name, array in self._arrays.items()})
        except Exception as error:
            self._failed(error)

    def unload(self, indices: list[int]) -> None:
        """Nothing to do, since the next load replaces the resident samples, and the end of the process frees them."""

    def rows(self, indices: list[int]) -> Rows:
        count = len(indices)
        if count == 1:
            row = int(self._position[indices[0]])
            return slice(row, row + 1)
        return _find_slice(self._position[np.fromiter(indices, np.intp, count)])


class IssueOrder:
    """Finds samples in the benchmark's own order, regardless of LoadGen's. Raises HarnessError if not all of them are
    resident."""

    def __init__(self, library: SampleLibrary, order: Iterator[int]) -> None:
        if library.performance_count != library.total_count:
            loaded = f"{library.performance_count} of {library.total_count} samples"
            problem = f"{loaded} would be loaded, but the order of queries needs all"
            raise HarnessError(problem, "input", "remove performance_sample_count to use the round's")
        self._library, self._order = library, order

    def rows(self, indices: list[int]) -> Rows:
        return self._library.rows(list(islice(self._order, len(indices))))


def split_rows(rows: Rows, size: int) -> Iterator[Rows]:
    """Split into parts of ``size``; the last may be smaller."""
    if isinstance(rows, slice):
        for first in range(rows.start, rows.stop, size):
            yield slice(first, min(first + size, rows.stop))
    elif size == 1:
        for row in rows.tolist():
            yield slice(row, row + 1)
    else:
        for first in range(0, len(rows), size):
            yield _find_slice(rows[first : first + size])


def _find_slice(rows: NDArray[np.intp]) -> Rows:
    """Return a slice if the rows are consecutive."""
    first, count = int(rows[0]), len(rows)
    if rows[-1] - first == count - 1 and bool((np.diff(rows) == 1).all()):
        return slice(first, first + count)
    return rows


def gather(array: np.ndarray, rows: Rows, staging: np.ndarray) -> np.ndarray:
    """Return the samples at ``rows``: a view if they are contiguous, otherwise a copy at the start of ``staging``."""
    if isinstance(rows, slice):
        return array[rows]
    head = staging[: len(rows)]
    # the positions are known to be in range.
    np.take(array, rows, axis=0, out=head, mode="clip")
    return head


def count_rows(rows: Rows) -> int:
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def find_runs(rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Find the start and length of each run of neighbours in ``rows``."""
    firsts = np.flatnonzero(np.diff(rows, prepend=rows[0]) != 1)
    return firsts, np.diff(firsts, append=len(rows))
