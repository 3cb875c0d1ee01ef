"""Bytes of a response: a row of seven float32 for each object whose score is high enough.

The rows are in the form that tools/accuracy-coco.py and tools/accuracy-openimages.py of mlcommons/inference read: the
sample's index, ymin, xmin, ymax, xmax as fractions of the image's height and width, the score, the label.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.detection.coco import ANNOTATIONS
from harness.errors import HarnessError

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


def score_boxes(log: AnswerLog, dataset: Path, output: Path, *, numbered: bool) -> dict[str, Any]:
    """Return the mAP in percent over the answered images, and the number of objects found.

    ``numbered``: labels count the categories from 1 on, as for tools/accuracy-coco.py with --use-inv-map; otherwise
    they are the categories' own ids.
    """
    with contextlib.redirect_stdout(io.StringIO()):  # it reports its progress to the terminal
        truth = COCO(str(dataset / ANNOTATIONS))
        labels = [0, *truth.getCatIds()] if numbered else None
        images = [truth.dataset["images"][int(index)] for index in log.indices]
        found = [
            item
            for index, data, image in zip(log.indices, log.data, images, strict=True)
            for item in _read_response(int(index), data, image, labels)
        ]
        value = 100.0 * _evaluate(truth, found, images) if found else 0.0
    (output / "accuracy.txt").write_text(f"mAP={value:.3f}%\n", encoding="ascii")
    return {"mAP": round(value, 3), "objects": len(found)}


def _evaluate(truth: Any, found: list[dict[str, Any]], images: Sequence[dict[str, Any]]) -> float:
    evaluation = COCOeval(truth, truth.loadRes(found), iouType="bbox")
    evaluation.params.imgIds = [image["id"] for image in images]
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return float(evaluation.stats[0])


def _read_response(
    index: int, data: bytes, image: dict[str, Any], labels: Sequence[int] | None
) -> Iterator[dict[str, Any]]:
    """Convert each object to pycocotools' form: xmin, ymin, width and height in pixels."""
    if len(data) % (4 * WIDTH):
        raise HarnessError(f"the response to sample {index} has {len(data)} bytes", "input", "run accuracy again")
    rows = np.frombuffer(data, np.float32).reshape(-1, WIDTH)
    if len(rows) and (rows[:, 0] != index).any():
        problem = f"the response to sample {index} refers to sample {int(rows[0, 0])}"
        raise HarnessError(problem, "input", "run accuracy again")
    height, width = np.float32(image["height"]), np.float32(image["width"])
    for _, ymin, xmin, ymax, xmax, score, label in rows * np.array([1, height, width, height, width, 1, 1], np.float32):
        yield {
            "image_id": image["id"],
            "category_id": _find_category(int(label), index, labels),
            "bbox": [float(xmin), float(ymin), float(xmax - xmin), float(ymax - ymin)],
            "score": float(score),
        }


def _find_category(label: int, index: int, labels: Sequence[int] | None) -> int:
    if labels is None:
        return label
    if not 0 < label < len(labels):
        fix = "use a model with category labels from 1"
        raise HarnessError(f"the response to sample {index} has label {label} of {len(labels) - 1}", "input", fix)
    return labels[label]
