"""Inputs that a server on this machine reads where they are written, in place of sending them."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SHARED = Path("/dev/shm")  # noqa: S108 - where POSIX shared memory lies
_ALIGNED = 64  # bytes


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Part of a region for one input, and the bytes of it that a request has."""

    region: str
    offset: int
    size: int


class SharedInputs:
    """Inputs of one stream: a region with room for a batch of every input. ``arrays``: that room."""

    def __init__(self, name: str, samples: Sequence[np.ndarray], batch_size: int, folder: Path = SHARED) -> None:
        """``samples``: resident ones, for shapes and types. Raises OSError where there is no room: containers often
        have little shared memory."""
        self.name = name
        shapes = [(batch_size, *array.shape[1:]) for array in samples]
        sizes = [int(np.prod(shape)) * array.itemsize for shape, array in zip(shapes, samples, strict=True)]
        steps = [-(-size // _ALIGNED) * _ALIGNED for size in sizes]
        self._offsets = [sum(steps[:number]) for number in range(len(steps))]
        self.size = max(sum(steps), 1)
        self._path = folder / name
        descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self.size)  # else a write beyond what is left ends the process
            self._memory = mmap.mmap(descriptor, self.size)
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        self.arrays = [
            np.frombuffer(self._memory, array.dtype, int(np.prod(shape)), offset).reshape(shape)
            for array, shape, offset in zip(samples, shapes, self._offsets, strict=True)
        ]

    def write(self, batch: Sequence[np.ndarray]) -> list[SharedPart]:
        """Write what is not there yet."""
        parts = []
        for array, own, offset in zip(batch, self.arrays, self._offsets, strict=True):
            if not np.may_share_memory(array, own):
                own[: len(array)] = array
            parts.append(SharedPart(self.name, offset, array.nbytes))
        return parts

    def close(self) -> None:
        """The arrays stay valid as long as anybody holds them."""
        self._path.unlink(missing_ok=True)
