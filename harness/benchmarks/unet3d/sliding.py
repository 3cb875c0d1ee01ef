"""A window of 128 x 128 x 128 that slides over a volume by half its side, and the combination of its answers."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.run.qsl import Arrays

SIDE = 128
STRIDE = 64
CLASSES = 3  # neither, kidney, tumour
OUTPUTS = {"output": ((CLASSES, SIDE, SIDE, SIDE), "float32")}
RESPONSE_DTYPE = "uint8"
# Volumes in progress: each has a sum of all classes, hundreds of megabytes, to which it adds while others do the same.
AT_ONCE = STEP_THREADS = min(16, max(2, len(os.sched_getaffinity(0)) // 4))
_ASKED = 8  # windows that a volume requests at once


def list_windows(shape: Sequence[int]) -> Iterator[tuple[slice, slice, slice]]:
    """List the windows of a volume whose sides are multiples of the stride, first axis slowest."""
    for place in product(*(range(0, size - SIDE + 1, STRIDE) for size in shape)):
        z, y, x = (slice(start, start + SIDE) for start in place)
        yield z, y, x


@cache
def weigh_window() -> NDArray[np.float32]:
    """Return the weight of each position in a window: the cube root of a Gaussian around its middle, with a deviation
    of an eighth of its side, at most 1."""
    deviation = 0.125 * SIDE
    place = np.arange(SIDE) - (SIDE - 1.0) / 2
    line = np.exp(-(place**2) / (2 * deviation * deviation))
    cube = np.cbrt(np.outer(np.outer(line, line), line).reshape(SIDE, SIDE, SIDE))
    weights: NDArray[np.float32] = (cube / cube.max()).astype(np.float32)
    return weights


def loop(sample: Arrays) -> Generator[Arrays, Outputs, NDArray[np.uint8]]:
    """Map a volume "input" [1, depth, height, width] to uint8 of the same shape: the class of each position."""
    volume = sample["input"]
    weights = weigh_window()
    shape = volume.shape[1:]
    sums, norm = np.zeros((CLASSES, *shape), np.float32), np.zeros(shape, np.float32)
    windows = list(list_windows(shape))
    for first in range(0, len(windows), _ASKED):
        some = windows[first : first + _ASKED]
        (found,) = yield {"input": np.stack([volume[:, z, y, x] for z, y, x in some])}
        for (z, y, x), scores in zip(some, found, strict=True):
            weighted = scores.astype(np.float32, copy=False)
            weighted *= weights  # in place: only this loop uses the outputs
            sums[:, z, y, x] += weighted
            norm[z, y, x] += weights
    sums /= norm
    classes: NDArray[np.uint8] = sums.argmax(axis=0).astype(np.uint8)[None]
    return classes
