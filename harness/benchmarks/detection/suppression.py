"""Suppression of boxes that overlap too much with a better one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.detection.answers import FOUND

Boxes = NDArray[np.float32]


def suppress(
    boxes: Boxes, scores: NDArray[np.float32], labels: NDArray[np.intp], *, overlap: np.float32, most: int
) -> Boxes:
    """Greedily, the best first; each class by itself -> [n, 6]: xmin, ymin, xmax, ymax, score, label. ``overlap``: what
    two boxes share of what they cover together."""
    order = np.argsort(-scores, kind="stable")
    boxes, scores, labels = boxes[order], scores[order], labels[order]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left, kept = np.ones(len(boxes), bool), []
    for place in range(len(boxes)):
        if not left[place]:
            continue
        kept.append(place)
        if len(kept) == most:
            break
        rest = place + 1 + np.flatnonzero(left[place + 1 :] & (labels[place + 1 :] == labels[place]))
        near = np.maximum(boxes[place, :2], boxes[rest, :2])
        far = np.minimum(boxes[place, 2:], boxes[rest, 2:])
        both = np.maximum(far - near, 0).prod(axis=1)
        with np.errstate(invalid="ignore"):  # boxes without an area overlap nothing
            left[rest[both / (areas[place] + areas[rest] - both) > overlap]] = False
    objects = np.empty((len(kept), FOUND), np.float32)
    objects[:, :4], objects[:, 4], objects[:, 5] = boxes[kept], scores[kept], labels[kept]
    return objects
