"""Paint points with the classes that the cameras see at their positions, like Painter of automotive/3d-object-detection
in mlcommons/inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.pointpainting.infos import CAMERAS

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of pictures, red first, as expected by the network
SEEN = 19  # classes of the segmentation network, those of Cityscapes
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
