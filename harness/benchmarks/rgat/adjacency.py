"""Relations by their targets, made of lists of edges that are larger than memory: two passes, a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from harness.contract import Counter

Edges = Iterator[tuple[np.ndarray, np.ndarray]]
"""Sources and targets, a piece at a time."""
AT_ONCE = 1 << 22  # edges of a piece


def write_adjacency(
    read: Callable[[], Edges], nodes: int, output: Path, names: tuple[str, str], counter: Counter
) -> None:
    """``read``: gives all edges anew. ``nodes``: how many targets there are. ``names``: of the bounds of each node's
    edges, int64 [nodes + 1], and of their sources, int32 [edges]."""
    indptr: NDArray[np.int64] = np.zeros(nodes + 1, np.int64)
    for _, targets in read():
        found, counts = np.unique(targets, return_counts=True)
        indptr[found + 1] += counts
        counter.bump(len(targets))
    np.cumsum(indptr, out=indptr)
    np.save(output / names[0], indptr)
    free = indptr[:-1]  # where the next source of each node goes
    indices = _create(output / names[1], int(indptr[-1]))
    for sources, targets in read():
        order = np.argsort(targets, kind="stable")
        ordered = targets[order]
        found, starts, counts = np.unique(ordered, return_index=True, return_counts=True)
        indices[free[ordered] + np.arange(len(ordered)) - np.repeat(starts, counts)] = sources[order]
        free[found] += counts
        counter.bump(len(targets))
    indices.flush()


def _create(path: Path, count: int) -> np.memmap[tuple[int], np.dtype[np.int32]]:
    """A file of no edges at all cannot be mapped: then it has one, which no node's bounds hold."""
    return npy.open_memmap(path, "w+", np.dtype(np.int32), (max(count, 1),))
