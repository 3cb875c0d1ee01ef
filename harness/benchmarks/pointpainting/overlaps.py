"""How much of each other rectangles cover that are turned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_CORNERS = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
_MARGIN = 1e-9  # m: within which a corner counts as inside


def find_near(ours: Floats, theirs: Floats) -> NDArray[np.bool_]:
    """[n, m]: pairs whose circles around meet; no others can share anything."""
    reach = [np.hypot(boxes[:, 2], boxes[:, 3]) / 2 for boxes in (ours, theirs)]
    apart = np.hypot(ours[:, None, 0] - theirs[None, :, 0], ours[:, None, 1] - theirs[None, :, 1])
    near: NDArray[np.bool_] = apart < reach[0][:, None] + reach[1][None, :]
    return near


def measure_overlaps(ours: Floats, theirs: Floats) -> Floats:
    """Measure the area that pairs of rectangles [n, 5] share, each middle, sizes and angle (clockwise where y points
    up).

    It has for corners those of one inside of the other, and the places where sides cross.
    """
    if not len(ours):
        return np.zeros(0)
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    middle = ours[:, None, :2]  # near it numbers are small, and exact
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
    ring = np.where(used[..., None], ring, ring[:, :1])  # what does not count is put where the first one is
    x, y = ring[..., 0], ring[..., 1]
    area: Floats = np.abs((x * np.roll(y, -1, axis=1) - np.roll(x, -1, axis=1) * y).sum(axis=1)) / 2
    return np.where(count > 2, area, 0)


def find_corners(boxes: Floats) -> Floats:
    """[n, 5] -> [n, 4, 2], one after the other around."""
    turned = _CORNERS * boxes[:, None, 2:4]
    cos, sin = np.cos(boxes[:, 4, None]), np.sin(boxes[:, 4, None])
    x = turned[..., 0] * cos + turned[..., 1] * sin
    y = turned[..., 1] * cos - turned[..., 0] * sin
    return np.stack([x, y], axis=-1) + boxes[:, None, :2]


def _find_inside(corners: Floats, boxes: Floats, middle: Floats) -> NDArray[np.bool_]:
    """Find which corners [n, k, 2], as seen from ``middle``, are in the box of their pair."""
    from_box = corners - (boxes[:, None, :2] - middle)
    cos, sin = np.cos(boxes[:, 4, None]), np.sin(boxes[:, 4, None])
    along = from_box[..., 0] * cos - from_box[..., 1] * sin
    across = from_box[..., 0] * sin + from_box[..., 1] * cos
    within: NDArray[np.bool_] = np.abs(along) <= boxes[:, 2, None] / 2 + _MARGIN
    return within & (np.abs(across) <= boxes[:, 3, None] / 2 + _MARGIN)


def _cross_sides(one: Floats, other: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """[n, 16, 2]: where each side of one meets each side of the other, and whether it does."""
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
