"""Bytes of a response: a row of seven float32 for each object whose score is high enough.

The rows are in the form that tools/accuracy-coco.py and tools/accuracy-openimages.py of mlcommons/inference read: the
sample's index, ymin, xmin, ymax, xmax as fractions of the image's height and width, the score, the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from harness.errors import HarnessError

RESPONSE_DTYPE = "float32"
WIDTH = 7  # columns of a response's row
FOUND = 6  # columns of the network's row: xmin, ymin, xmax, ymax, score, label
THRESHOLD = np.float32(0.05)  # minimum score, as in the reference; rows that only fill the output score less

_ORDER = [1, 0, 3, 2]  # positions of the corners in a response's row

Rows = NDArray[np.float32]


def make_response(index: int, found: Rows, side: int) -> Rows:
    """Convert the network's rows [n, 6], in units of ``side`` (1 for fractions of the image), to a response [m, 7]."""
    return _make_rows(index, found[found[:, 4] >= THRESHOLD], side)


def make_responses(found: Rows, indices: Sequence[int], side: int) -> list[Rows]:
    """Convert [n, most, 6] to one response for each of the n images."""
    if found.ndim != 3 or found.shape[2] != FOUND:
        fix = "use the reference's model, or one with outputs xmin, ymin, xmax, ymax, score and label"
        raise HarnessError(f"the model returns {list(found.shape[1:])} per image, not rows of {FOUND}", "input", fix)
    if len(found) == 1:  # takes half the time of the general case below
        return [make_response(indices[0], found[0], side)]
    rows = found.reshape(-1, FOUND)
    kept = np.flatnonzero(rows[:, 4] >= THRESHOLD)
    images = kept // found.shape[1]
    made = _make_rows(np.asarray(indices)[images], rows[kept], side)
    ends = np.searchsorted(images, np.arange(len(found)), "right").tolist()
    return [made[first:last] for first, last in pairwise((0, *ends))]


def _make_rows(index: int | NDArray[np.intp], kept: Rows, side: int) -> Rows:
    rows = np.empty((len(kept), WIDTH), np.float32)
    rows[:, 0] = index
    rows[:, 1:5] = kept[:, _ORDER] / np.float32(side)
    rows[:, 5:] = kept[:, 4:]
    return rows


# Suppression of boxes that overlap too much with a better one.

Boxes = NDArray[np.float32]


def suppress(
    boxes: Boxes, scores: NDArray[np.float32], labels: NDArray[np.intp], *, overlap: np.float32, most: int
) -> Boxes:
    """Suppress greedily by score, each class separately; return [n, 6]: xmin, ymin, xmax, ymax, score, label.
    ``overlap``: maximum ratio of intersection to union."""
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
