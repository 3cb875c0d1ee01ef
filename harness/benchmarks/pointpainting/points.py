"""Paint points with the classes that the cameras see at their positions, and put them into columns.

The first is done like Painter of automotive/3d-object-detection in mlcommons/inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.pointpainting.infos import CAMERAS

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of pictures, red first, as expected by the network
SEEN = 19  # number of the segmentation network's classes, those of Cityscapes
# Target classes: background, bicycle, vehicles, person, rider, motorcycle.
GROUPS: Sequence[Sequence[int]] = (range(11), (18,), (13, 14, 15, 16), (11,), (12,), (17,))
FEATURES = 5  # values of a point: position, intensity, elongation
PAINTED = FEATURES + len(GROUPS)
_NEIGHBOURS = ((0, 1), (0, 2), (1, 3), (2, 4))  # cameras with overlapping views
_ROTATION = CAMERAS  # among the matrices of a frame
Matrices = NDArray[np.float32]


class Projection(NamedTuple):
    """``seen``: for each point, whether the camera sees it; ``rows`` and ``columns``: positions of those that
    it sees."""

    seen: NDArray[np.bool_]
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]


def project_points(points: NDArray[np.float32], matrices: Matrices, camera: int, shape: Sequence[int]) -> Projection:
    """Project points to a picture. ``points`` [n, 3 or more]; ``shape``: height and width of the picture."""
    whole = np.ones((4, len(points)), np.float32)
    whole[:3] = points[:, :3].T
    before = matrices[_ROTATION + 1 + camera] @ whole
    before[3] = 1
    found = matrices[camera] @ (matrices[_ROTATION] @ before)
    with np.errstate(divide="ignore", invalid="ignore"):  # for points outside the camera's picture
        x, y = found[0] / found[2], found[1] / found[2]
    seen = (x > 0) & (x < shape[1]) & (y > 0) & (y < shape[0]) & (before[2] > 0)
    return Projection(seen, y[seen].astype(np.intp), x[seen].astype(np.intp))


def paint_points(
    points: NDArray[np.float32], matrices: Matrices, pictures: Sequence[NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Map ``points`` [n, 5] and ``pictures``, the network's output for each camera, [19, height, width], to [n, 11]. A
    point seen by two cameras gets the mean of both."""
    painted = np.zeros((len(points), PAINTED), np.float32)
    painted[:, :FEATURES] = points
    colours = painted[:, FEATURES:]
    seen = []
    for camera, picture in enumerate(pictures):
        found = project_points(points, matrices, camera, picture.shape[1:])
        colours[found.seen] += group_classes(picture[:, found.rows, found.columns])
        seen.append(found.seen)
    for one, other in _NEIGHBOURS:
        colours[seen[one] & seen[other]] *= np.float32(0.5)
    return painted


def group_classes(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Map the network's [19, n] to [n, 6] with sums of one."""
    likely = np.exp(scores.astype(np.float32, copy=False) - scores.max(axis=0, initial=-np.inf))
    likely /= likely.sum(axis=0)
    return np.stack([likely[list(group)].sum(axis=0) for group in GROUPS], axis=1)


# Columns of 0.32 m by 0.32 m, like Voxelization there: in the order of their first points, the first twenty points of
# each, and at most 32,000.

LOWEST = np.array([-74.88, -74.88, -2], np.float32)  # lower end of the benchmark's range, m
HIGHEST = np.array([74.88, 74.88, 4], np.float32)
SIZE = np.array([0.32, 0.32, 6], np.float32)
CELLS = 468  # columns along each side
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
