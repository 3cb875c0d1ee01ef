"""Shared code of the object detection benchmarks: annotations in COCO's format, the bytes of an answer, the score."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from reprlib import repr as shorten
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.images import Preprocess, decode_image, make_jpeg_rule, prepare_images
from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    is_below,
    is_rehearsal,
    read_json,
    read_list,
    require_source,
)
from harness.contract import Counter
from harness.errors import HarnessError

# The annotation file lists the images and so defines the sample order: the official accuracy scripts use a sample's
# position in that file as its index.

ANNOTATIONS = "annotations.json"  # annotations of the images in a prepared dataset


_UNUSED = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)  # ids to which COCO assigns no category
CATEGORIES = tuple(number for number in range(1, 91) if number not in _UNUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoLayout:
    """Layout of a published dataset below its folder. ``images`` and ``calibration`` are folders, the latter "" if no
    list is published; ``count``: number of images in the benchmark; ``again``: how to obtain the images again."""

    annotations: str
    images: str
    calibration: str
    count: int
    again: str


def build_dataset(
    layout: CocoLayout,
    preprocess: Preprocess,
    side: int,
    benchmark: str,
    source: Path | None,
    settings: Mapping[str, Any],
    output: Path,
    counter: Counter,
) -> None:
    """Write samples.npy [count, 3, side, side] in annotation order, annotations.json of those images, and
    calibration.npy of the available images in the benchmark's official list. All files on disk are checked before the
    first image is prepared."""
    source = require_source(source, "the images and their annotations")
    path = source / layout.annotations
    whole = read_annotations(path, layout.again)
    wanted = int(settings.get("count", 0))
    if not wanted and len(whole["images"]) != layout.count and not is_rehearsal(source):
        fix = f"{layout.again}, or set dataset.settings.count to use fewer in the open division"
        found = f"{len(whole['images'])} images, the benchmark has {layout.count}"
        raise HarnessError(f"{path} names {found}", "input", fix)
    chosen = take_first(whole, choose_count(settings, len(whole["images"]))) if wanted else whole
    names = [f"{layout.images}/{image['file_name']}" for image in chosen["images"]]
    listed = read_list(benchmark, "calibration.txt") if layout.calibration else []
    calibration = [name for item in listed if (source / (name := f"{layout.calibration}/{item}")).is_file()]
    rules = [FileRule(layout.annotations), *map(make_jpeg_rule, (*names, *calibration))]
    only = "" if wanted else f"{layout.images}/*.jpg"
    check_files(source, rules, only=only, fix=f"{layout.again}; nothing was prepared")
    prepare_images(source, names, calibration, output, preprocess, (3, side, side), settings, counter)
    (output / ANNOTATIONS).write_text(json.dumps(chosen), encoding="utf-8")


def read_scaled(path: Path, side: int, *, again: str) -> NDArray[np.float32]:
    """Scale an image file to float32 [side, side, 3], red first, 0 to 255, regardless of its proportions.

    As in maybe_resize of vision/classification_and_detection/python/dataset.py of mlcommons/inference, the conversion
    to float comes first, so that values between pixels are not rounded.
    """
    pixels = decode_image(path, fix=again).astype(np.float32)
    rgb = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    scaled: NDArray[np.float32] = cv2.resize(rgb, (side, side), interpolation=cv2.INTER_LINEAR)
    return scaled


# Irregularities of published data are accepted: crowds, boxes of zero width, boxes that rounding moved over the border.

_PARTS = ("images", "annotations", "categories")
_OF_IMAGE = ("id", "file_name", "height", "width")
_OF_ANNOTATION = ("id", "image_id", "category_id", "bbox", "area", "iscrowd")  # pycocotools reads them all
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")
_MOST = 1e9  # pixels; the comparison also rejects infinite and NaN sizes


def read_annotations(path: Path, fix: str) -> dict[str, Any]:
    """Read images, annotations and categories. Raises HarnessError for the first invalid entry, before any is used.
    ``fix``: how to obtain the file again."""
    document = read_json(path, fix)
    parts: dict[str, Any] = {name: document.get(name) for name in _PARTS} if isinstance(document, dict) else {}
    if not parts or not all(isinstance(part, list) for part in parts.values()) or not parts["images"]:
        raise HarnessError(f"{path} does not list images, annotations and categories", "input", fix)
    problem = _find_problem(**parts)
    if problem:
        raise HarnessError(f"{path}: {problem}", "input", f"{fix}, or fix the file; nothing was prepared")
    return parts


def take_first(annotations: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Select the first images and their annotations."""
    images = annotations["images"][:count]
    known = {image["id"] for image in images}
    kept = [item for item in annotations["annotations"] if item["image_id"] in known]
    return {**annotations, "images": images, "annotations": kept}


def _find_problem(images: Sequence[Any], annotations: Sequence[Any], categories: Sequence[Any]) -> str:
    """Describe the first problem; "" if there is none."""
    return (
        _find_missing("image", images, _OF_IMAGE)
        or _find_missing("annotation", annotations, _OF_ANNOTATION)
        or _find_missing("category", categories, ("id",))
        or next(filter(None, map(_describe_image, images)), "")
        or _describe_doubled("images", "id", images)
        or _describe_doubled("images", "file_name", images)
        or _describe_doubled("annotations", "id", annotations)
        or _describe_doubled("categories", "id", categories)
        or _find_annotation(images, annotations, categories)
    )


def _find_missing(kind: str, entries: Sequence[Any], names: Sequence[str]) -> str:
    wanted = set(names)
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict) or not wanted <= entry.keys():
            absent = next(name for name in names if not isinstance(entry, dict) or name not in entry)
            own = f" (its id is {shorten(entry['id'])})" if isinstance(entry, dict) and "id" in entry else ""
            return f"{kind} {number} has no {absent}{own}"
        if not _is_id(entry["id"]):
            return f"{kind} {number} has an id that is neither a number nor a text"
    return ""


def _describe_image(image: Mapping[str, Any]) -> str:
    for name in ("height", "width"):
        if not (_is_size(image[name]) and image[name] > 0):
            return f"image {image['id']} has the {name} {shorten(image[name])}, which is invalid"
    file = str(image["file_name"])
    return "" if is_below(file) else f"{file} is not a path below the images' folder"


def _describe_doubled(kind: str, name: str, entries: Sequence[Mapping[str, Any]]) -> str:
    values = [str(entry[name]) if name == "file_name" else _spell_id(entry[name]) for entry in entries]
    if len(set(values)) == len(values):
        return ""
    most = Tally(values).most_common(1)[0][0][:80]
    return f"lists {len(values) - len(set(values))} {kind} twice, by their {name}, such as {most}"


def _find_annotation(
    images: Sequence[Mapping[str, Any]],
    annotations: Sequence[Mapping[str, Any]],
    categories: Sequence[Mapping[str, Any]],
) -> str:
    sizes = {image["id"]: (image["width"], image["height"]) for image in images}
    known = {category["id"] for category in categories}
    for item in annotations:
        image, category = item["image_id"], item["category_id"]
        if not _is_id(image) or image not in sizes:
            problem = f"is of image {shorten(image)}, which the file does not define"
        elif not _is_id(category) or category not in known:
            problem = f"is of category {shorten(category)}, which the file does not define"
        else:
            problem = _describe_box(item["bbox"], *sizes[image]) or _describe_rest(item)
        if problem:
            return f"annotation {item['id']} {problem}"
    return ""


def _describe_box(box: Any, width: float, height: float) -> str:
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_size, box)):
        return f"has the box {shorten(box)}, which is not four numbers: x, y, width and height"
    x, y, wide, high = box
    if wide < 0 or high < 0:
        return f"has the box {box}, whose width or height is below 0"
    if x > width or y > height or x + wide < 0 or y + high < 0:
        return f"has the box {box}, which lies outside its image of {width} x {height} pixels"
    return ""


def _describe_rest(item: Mapping[str, Any]) -> str:
    if not (_is_size(item["area"]) and item["area"] >= 0):
        return f"has the area {shorten(item['area'])}, which is invalid"
    crowd = item["iscrowd"]  # in a table of floats, iscrowd is a float too
    whole = isinstance(crowd, int) or (isinstance(crowd, float) and crowd.is_integer())
    return "" if whole else f"has iscrowd {shorten(crowd)}, not 0 or 1"


def _is_id(value: Any) -> bool:
    """Return True for an id. NaN equals nothing, not even itself; true equals 1."""
    return type(value) in (int, str) or (type(value) is float and math.isfinite(value))


def _spell_id(value: Any) -> str:
    """Return the same text for 1, 1.0, "1" and "1.0", which some programs treat as one id and others do not."""
    text = str(int(value) if type(value) is float and value.is_integer() else value)
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def _is_size(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _MOST


# The rows are in the form that tools/accuracy-coco.py and tools/accuracy-openimages.py of mlcommons/inference read: the
# sample's index, ymin, xmin, ymax, xmax as fractions of the image's height and width, the score, the label.

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
    if len(found) == 1:  # takes half as long as the general case below
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
