"""From what RetinaNet's heads give to objects, for engines that end there, as those of most published submissions do.

The steps and their constants are those of the reference's network (torchvision's RetinaNet): a box of each anchor, the
thousand best scores of each level, no two boxes of one class that overlap by more than half, three hundred at most.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.detection.answers import THRESHOLD
from harness.benchmarks.detection.suppression import Boxes, suppress
from harness.benchmarks.retinanet.openimages import SIDE

CLASSES = 264
MOST = 300  # objects of an image
BEST = 1000  # scores of a level
_OVERLAP = np.float32(0.5)
_CELLS = (100, 50, 25, 13, 7)  # of each level, along a side
ANCHORS_OF_LEVELS = tuple(9 * cells**2 for cells in _CELLS)
_WIDTHS = (32, 64, 128, 256, 512)  # of its anchors
_RATIOS = (0.5, 1.0, 2.0)  # height to width
_LARGEST = np.float32(np.log(1000 / 16))  # of a box's growth
_LEAST = np.log(THRESHOLD / (1 - THRESHOLD)) - np.float32(1e-3)  # of a score before the sigmoid, with room for rounding


def find_objects(scores: NDArray[np.float32], offsets: NDArray[np.float32]) -> Boxes:
    """[anchors, 264] before the sigmoid and [anchors, 4] -> [n, 6], the best first, in pixels of the input."""
    places, start = [], 0
    for count in ANCHORS_OF_LEVELS:
        level = scores[start : start + count].ravel()
        likely = np.flatnonzero(level > _LEAST)
        places.append(start * CLASSES + likely[np.argsort(-level[likely], kind="stable")[:BEST]])
        start += count
    chosen = np.concatenate(places)
    return find_ranked_objects(scores.ravel()[chosen], chosen, offsets[chosen // CLASSES])


def find_ranked_objects(
    scores: NDArray[np.float32], places: NDArray[np.integer[Any]], offsets: NDArray[np.float32]
) -> Boxes:
    """The best scores [m] of all levels, before the sigmoid, their places among all scores [m] and their offsets [m, 4]
    -> [n, 6], as ``find_objects``."""
    likely = np.flatnonzero(scores > _LEAST)
    values = (1 / (1 + np.exp(-scores[likely]))).astype(np.float32)
    likely, values = likely[values > THRESHOLD], values[values > THRESHOLD]
    anchors, labels = np.divmod(places[likely].astype(np.intp), CLASSES)
    boxes = decode(make_anchors()[anchors], offsets[likely])
    return suppress(boxes, values, labels, overlap=_OVERLAP, most=MOST)


@cache
def make_anchors() -> Boxes:
    """[anchors, 4], xmin, ymin, xmax, ymax: level by level, row by row, nine at each place."""
    parts = []
    for cells, width in zip(_CELLS, _WIDTHS, strict=True):
        scales = np.array([width, int(width * 2 ** (1 / 3)), int(width * 2 ** (2 / 3))], np.float32)
        tall = np.sqrt(np.array(_RATIOS, np.float32))
        wide, high = (1 / tall)[:, None] * scales, tall[:, None] * scales
        base = np.stack([-wide.ravel(), -high.ravel(), wide.ravel(), high.ravel()], axis=1) / 2
        steps = np.arange(cells, dtype=np.float32) * (SIDE // cells)
        down, across = np.meshgrid(steps, steps, indexing="ij")
        shifts = np.stack([across.ravel(), down.ravel()] * 2, axis=1)
        parts.append((shifts[:, None] + np.rint(base)[None]).reshape(-1, 4))
    anchors: Boxes = np.concatenate(parts).astype(np.float32)
    return anchors


def decode(anchors: Boxes, offsets: Boxes) -> Boxes:
    """The box that each anchor was moved and grown to, within the image."""
    size = anchors[:, 2:] - anchors[:, :2]
    middle = anchors[:, :2] + np.float32(0.5) * size
    moved = offsets[:, :2] * size + middle
    half = np.float32(0.5) * np.exp(np.minimum(offsets[:, 2:], _LARGEST)) * size
    boxes: Boxes = np.clip(np.concatenate([moved - half, moved + half], axis=1), 0, SIDE)
    return boxes
