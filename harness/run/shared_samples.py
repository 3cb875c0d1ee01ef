"""Resident samples in shared memory, which other processes map from its descriptor, so that all of them share one
copy."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.run.qsl import Arrays, Ragged

_ALIGNED = 64  # bytes


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """The location of an array; its start is in bytes."""

    offset: int
    shape: tuple[int, ...]
    dtype: str


Layout = Mapping[str, ArrayPlace | tuple[ArrayPlace, ...]]
"""Maps an input's name to its samples: one array, or one per sample if their sizes differ."""


class SharedSamples:
    """A copy of samples. Raises HarnessError if memory is insufficient."""

    def __init__(self, samples: Arrays) -> None:
        self._size = 0
        self.layout: Layout = {name: self._lay_out(array) for name, array in samples.items()}
        self.descriptor = os.memfd_create("samples", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(self.descriptor, 0, max(self._size, 1))  # else running out of memory kills the process
            with mmap.mmap(self.descriptor, max(self._size, 1)) as memory:
                for name, array in samples.items():
                    _write(memory, self.layout[name], array)
        except OSError as error:
            os.close(self.descriptor)
            problem = f"{self._size} bytes of samples do not fit into memory twice: {error}"
            raise HarnessError(problem, "resources", "lower performance_sample_count") from error

    def close(self) -> None:
        """Close the descriptor; existing mappings remain valid."""
        os.close(self.descriptor)

    def _lay_out(self, array: Any) -> ArrayPlace | tuple[ArrayPlace, ...]:
        if isinstance(array, Ragged):
            return tuple(self._place(each) for each in array)
        return self._place(array)

    def _place(self, array: np.ndarray) -> ArrayPlace:
        place = ArrayPlace(self._size, tuple(array.shape), array.dtype.str)
        self._size += -(-array.nbytes // _ALIGNED) * _ALIGNED
        return place


def map_samples(layout: Layout, descriptor: int) -> dict[str, Any]:
    """Map the samples without copying. The descriptor may be closed afterwards."""
    size = os.fstat(descriptor).st_size
    memory = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    return {
        name: Ragged([_view(memory, each) for each in place]) if isinstance(place, tuple) else _view(memory, place)
        for name, place in layout.items()
    }


def _view(memory: mmap.mmap, place: ArrayPlace) -> np.ndarray:
    count = int(np.prod(place.shape))
    return np.frombuffer(memory, place.dtype, count, place.offset).reshape(place.shape)


def _write(memory: mmap.mmap, place: ArrayPlace | tuple[ArrayPlace, ...], array: Any) -> None:
    pairs = zip(place, array, strict=True) if isinstance(place, tuple) else [(place, array)]
    for each, values in pairs:
        if values.nbytes:
            _view(memory, each)[...] = values
