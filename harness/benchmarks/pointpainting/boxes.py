"""Convert the detection network's output to objects, and to the rows that the official accuracy script reads.

As in PointPillarsPos and keep_bbox_from_image_range of automotive/3d-object-detection in mlcommons/inference: scores
above 0.1; per class, no box may overlap a better one by more than a quarter; at most 500 objects.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.pointpainting.infos import CAMERAS, CLASSES

FOUND = 4096  # number of the likeliest boxes that the network returns
COLUMNS = 7 + len(CLASSES) + 1  # columns of each: position, sizes and angle, scores, direction flag
ROW = 14  # float32 values of an object in an answer
THRESHOLD, MOST = np.float32(0.1), 500
_OVERLAP = np.float32(0.25)
_PI = np.float32(np.pi)
_LAST = CAMERAS - 1  # the reference reports the position in the last camera's picture
# Corners of a box around the middle of its bottom, y down: halves of length, height and width.
_CORNERS = np.array([[x, y, z] for z in (-0.5, 0.5) for x, y in ((0.5, 0), (0.5, -1), (-0.5, -1), (-0.5, 0))], "f4")
Floats = NDArray[np.float32]


class Objects(NamedTuple):
    """``boxes`` [n, 7] in lidar coordinates: middle of the bottom, width, length, height, angle."""

    boxes: Floats
    labels: NDArray[np.intp]
    scores: Floats


def find_objects(found: Floats) -> Objects:
    """Find objects in [4096, 11], class by class, the likeliest first."""
    parts = []
    for label in range(len(CLASSES)):
        scores = found[:, 7 + label]
        likely = np.flatnonzero(scores > THRESHOLD)
        likely = likely[np.argsort(-scores[likely], kind="stable")]
        kept = likely[suppress(found[likely, :7])]
        boxes = found[kept, :7].astype(np.float32)
        angle = boxes[:, 6]
        boxes[:, 6] = angle - np.floor(angle / _PI + 1) * _PI + (1 - found[kept, 10]) * _PI
        parts.append(Objects(boxes, np.full(len(kept), label), scores[kept].astype(np.float32)))
    whole = Objects(*map(np.concatenate, zip(*parts, strict=True)))
    if len(whole.scores) <= MOST:
        return whole
    best = np.argsort(-whole.scores, kind="stable")[:MOST]
    return Objects(whole.boxes[best], whole.labels[best], whole.scores[best])


def suppress(boxes: Floats) -> NDArray[np.intp]:
    """Select boxes from [n, 7], sorted by score, that no earlier box overlaps too much."""
    flat = boxes[:, [0, 1, 3, 4, 6]].astype(np.float64)
    one, other = np.nonzero(np.triu(find_near(flat, flat), 1))
    shared = measure_overlaps(flat[one], flat[other])
    areas = flat[:, 2] * flat[:, 3]
    covered = shared / np.maximum(areas[one] + areas[other] - shared, 1e-8) > _OVERLAP
    left = np.ones(len(boxes), bool)
    for first, second in zip(one[covered].tolist(), other[covered].tolist(), strict=True):  # sorted by the first
        if left[first]:
            left[second] = False
    return np.flatnonzero(left)


def make_rows(number: int, objects: Objects, matrices: Floats, shapes: NDArray[np.int64]) -> Floats:
    """Make the row of each object: length, height and width, its position and angle in the first camera's coordinates,
    its rectangle in the last camera's picture, class, score and frame number. A frame without objects has one row that
    says so."""
    if not len(objects.scores):
        return np.array([[-1] * (ROW - 1) + [number]], np.float32)
    rows = np.empty((len(objects.scores), ROW), np.float32)
    before = turn_to_camera(objects.boxes, matrices, 0)
    rows[:, :3], rows[:, 3:6], rows[:, 6] = before[:, 3:6], before[:, :3], before[:, 6]
    rows[:, 7:11] = outline(turn_to_camera(objects.boxes, matrices, _LAST), matrices[_LAST], shapes[_LAST])
    rows[:, 11], rows[:, 12], rows[:, 13] = objects.labels, objects.scores, number
    return rows


def turn_to_camera(boxes: Floats, matrices: Floats, camera: int) -> Floats:
    """Convert lidar boxes to camera coordinates: x right, y down, z forward; length, height, width; angle."""
    whole = np.ones((len(boxes), 4), np.float32)
    whole[:, :3] = boxes[:, :3]
    places = whole @ (matrices[CAMERAS] @ matrices[CAMERAS + 1 + camera]).T
    return np.concatenate([places[:, :3], boxes[:, [4, 5, 3]], boxes[:, 6:]], axis=1)


def outline(boxes: Floats, projection: Floats, shape: NDArray[np.int64]) -> Floats:
    """Map [n, 7] in camera coordinates to left, top, right and bottom in its picture, clipped only at its edges."""
    corners = _CORNERS * boxes[:, None, 3:6]
    sin, cos = np.sin(boxes[:, 6, None]), np.cos(boxes[:, 6, None])
    turned = np.ones((*corners.shape[:2], 4), np.float32)
    turned[..., 0] = corners[..., 0] * cos + corners[..., 2] * sin + boxes[:, 0, None]
    turned[..., 1] = corners[..., 1] + boxes[:, 1, None]
    turned[..., 2] = corners[..., 2] * cos - corners[..., 0] * sin + boxes[:, 2, None]
    places = turned @ projection.T
    with np.errstate(divide="ignore", invalid="ignore"):
        places = places[..., :2] / places[..., 2:3]
    height, width = shape.tolist()
    least, most = np.maximum(places.min(axis=1), 0), np.minimum(places.max(axis=1), [width, height])
    return np.concatenate([least, most], axis=1).astype(np.float32)


Doubles = NDArray[np.float64]
_SQUARE = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
_MARGIN = 1e-9  # tolerance within which a corner counts as inside, m


def find_near(ours: Doubles, theirs: Doubles) -> NDArray[np.bool_]:
    """Mark pairs [n, m] with intersecting circumscribed circles; no other pairs can overlap."""
    reach = [np.hypot(boxes[:, 2], boxes[:, 3]) / 2 for boxes in (ours, theirs)]
    apart = np.hypot(ours[:, None, 0] - theirs[None, :, 0], ours[:, None, 1] - theirs[None, :, 1])
    return apart < reach[0][:, None] + reach[1][None, :]


def measure_overlaps(ours: Doubles, theirs: Doubles) -> Doubles:
    """Measure the shared area of pairs of rectangles [n, 5], each given by middle, sizes and angle (clockwise if y
    points up).

    Its corners are the corners of one rectangle inside the other, and the intersections of sides.
    """
    if not len(ours):
        return np.zeros(0)
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    middle = ours[:, None, :2]  # near the origin numbers are small, and exact
    one, other = find_corners(ours) - middle, find_corners(theirs) - middle
    crossings, crossed = _cross_sides(one, other)
    places = np.concatenate([one, other, crossings], axis=1)
    valid = np.concatenate([_find_inside(one, theirs, middle), _find_inside(other, ours, middle), crossed], axis=1)
    count = valid.sum(axis=1)
    centre = (places * valid[..., None]).sum(axis=1) / np.maximum(count, 1)[:, None]
    around = np.arctan2(places[..., 1] - centre[:, None, 1], places[..., 0] - centre[:, None, 0])
    order = np.argsort(np.where(valid, around, np.inf), axis=1)
    ring = np.take_along_axis(places, order[..., None], axis=1)
    used = np.take_along_axis(valid, order, axis=1)
    ring = np.where(used[..., None], ring, ring[:, :1])  # entries that do not count are moved onto the first one
    x, y = ring[..., 0], ring[..., 1]
    area: Doubles = np.abs((x * np.roll(y, -1, axis=1) - np.roll(x, -1, axis=1) * y).sum(axis=1)) / 2
    return np.where(count > 2, area, 0)


def find_corners(boxes: Doubles) -> Doubles:
    """Map [n, 5] to corners [n, 4, 2], in order around each rectangle."""
    turned = _SQUARE * boxes[:, None, 2:4]
    cos, sin = np.cos(boxes[:, 4, None]), np.sin(boxes[:, 4, None])
    x = turned[..., 0] * cos + turned[..., 1] * sin
    y = turned[..., 1] * cos - turned[..., 0] * sin
    return np.stack([x, y], axis=-1) + boxes[:, None, :2]


def _find_inside(corners: Doubles, boxes: Doubles, middle: Doubles) -> NDArray[np.bool_]:
    """Mark corners [n, k, 2], relative to ``middle``, that are inside the box of their pair."""
    from_box = corners - (boxes[:, None, :2] - middle)
    cos, sin = np.cos(boxes[:, 4, None]), np.sin(boxes[:, 4, None])
    along = from_box[..., 0] * cos - from_box[..., 1] * sin
    across = from_box[..., 0] * sin + from_box[..., 1] * cos
    within: NDArray[np.bool_] = np.abs(along) <= boxes[:, 2, None] / 2 + _MARGIN
    return within & (np.abs(across) <= boxes[:, 3, None] / 2 + _MARGIN)


def _cross_sides(one: Doubles, other: Doubles) -> tuple[Doubles, NDArray[np.bool_]]:
    """Intersect each side of one rectangle with each side of the other. Return the points [n, 16, 2], and whether they
    exist."""
    start, step = one[:, :, None], (np.roll(one, -1, axis=1) - one)[:, :, None]
    begin, way = other[:, None], (np.roll(other, -1, axis=1) - other)[:, None]
    apart = begin - start
    slant = step[..., 0] * way[..., 1] - step[..., 1] * way[..., 0]
    parallel = np.abs(slant) < _MARGIN
    slant = np.where(parallel, 1, slant)
    at = (apart[..., 0] * way[..., 1] - apart[..., 1] * way[..., 0]) / slant
    along = (apart[..., 0] * step[..., 1] - apart[..., 1] * step[..., 0]) / slant
    crossed = ~parallel & (at > 0) & (at < 1) & (along > 0) & (along < 1)
    crossings = start + step * at[..., None]
    count = len(one)
    return crossings.reshape(count, 16, 2), crossed.reshape(count, 16)
