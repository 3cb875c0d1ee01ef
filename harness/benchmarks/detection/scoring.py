"""The mean average precision for overlaps of 50 to 95 %, by pycocotools, in the official scripts' format."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.detection.answers import WIDTH
from harness.benchmarks.detection.coco import ANNOTATIONS
from harness.errors import HarnessError


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
