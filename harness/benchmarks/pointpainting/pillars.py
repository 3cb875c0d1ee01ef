"""Put points into columns of 0.32 m by 0.32 m, like Voxelization of automotive/3d-object-detection in
mlcommons/inference: columns in the order of their first points, the first twenty points of each, and at most 32,000
columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LOWEST = np.array([-74.88, -74.88, -2], np.float32)  # m: range of the benchmark
HIGHEST = np.array([74.88, 74.88, 4], np.float32)
SIZE = np.array([0.32, 0.32, 6], np.float32)
CELLS = 468  # along each side
MOST_POINTS, MOST_PILLARS = 20, 32_000


class Pillars(NamedTuple):
    """``points`` [n, 20, features], zeros after the last point of each; ``cells`` [n, 2] along x and y; ``counts``."""

    points: NDArray[np.float32]
    cells: NDArray[np.int64]
    counts: NDArray[np.int32]


def crop_points(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Keep the points inside the benchmark's range."""
    inside = (points[:, :3] > LOWEST) & (points[:, :3] < HIGHEST)
    return points[inside.all(axis=1)]


def group_points(points: NDArray[np.float32]) -> Pillars:
    """Group points. ``points`` [n, features], x, y and z first."""
    places = np.floor((points[:, :3] - LOWEST) / SIZE)
    inside = ((places >= 0) & (places < (CELLS, CELLS, 1))).all(axis=1)
    if not inside.all():
        points, places = points[inside], places[inside]
    cells = places[:, 0].astype(np.intp) * CELLS + places[:, 1].astype(np.intp)
    order = np.arange(len(cells))
    first = np.empty(CELLS * CELLS, np.intp)
    first[cells[::-1]] = order[::-1]  # of several writes to one position the last remains: the first point of each cell
    starts = np.flatnonzero(first[cells] == order)
    if len(starts) > MOST_PILLARS:  # the reference ignores points from the first excess pillar on
        end = int(starts[MOST_PILLARS])
        points, cells, order, starts = points[:end], cells[:end], order[:end], starts[:MOST_PILLARS]
    numbers = np.empty(CELLS * CELLS, np.intp)
    numbers[cells[starts]] = np.arange(len(starts))
    pillars = numbers[cells]
    sorting = np.argsort(pillars, kind="stable")
    totals = np.bincount(pillars, minlength=len(starts))
    ranks = np.empty(len(order), np.intp)
    ranks[sorting] = order - np.repeat(np.cumsum(totals) - totals, totals)
    kept = ranks < MOST_POINTS
    grouped = np.zeros((len(starts), MOST_POINTS, points.shape[1]), np.float32)
    grouped[pillars[kept], ranks[kept]] = points[kept]
    found = np.stack(np.divmod(cells[starts], CELLS), axis=1).astype(np.int64)
    return Pillars(grouped, found, np.minimum(totals, MOST_POINTS).astype(np.int32))


def count_pillars(points: NDArray[np.float32]) -> int:
    return len(group_points(points).counts)
