"""A dataset of images with annotations in COCO's format, as commonly stored on disk.

The annotation file lists the images and so defines the sample order: the official accuracy scripts use a sample's
position in that file as its index.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from reprlib import repr as shorten
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.images import Preprocess, decode_image, make_jpeg_rule, prepare_images
from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    choose_dtype,
    is_below,
    is_rehearsal,
    read_json,
    read_list,
    require_source,
)
from harness.contract import Counter
from harness.errors import HarnessError

DTYPES = ("float32", "float16")
ANNOTATIONS = "annotations.json"  # of a prepared dataset's own images


_UNUSED = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)  # ids to which COCO assigns no category
CATEGORIES = tuple(number for number in range(1, 91) if number not in _UNUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoLayout:
    """Layout of a published dataset below its folder. ``images`` and ``calibration`` are folders, the latter "" if no
    list is published; ``count``: number of images in the benchmark; ``again``: how to obtain them again."""

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
    calibration.npy of the available images in the benchmark's official list.

    ``settings``: dtype ("float32" or "float16"), count (number of images from the first; default: all), threads. All
    files on disk are checked before the first image is prepared.
    """
    dtype = choose_dtype(settings, DTYPES)
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
    images = [make_jpeg_rule(name) for name in (*names, *calibration)]
    rules = [FileRule(layout.annotations), *images]
    only = "" if wanted else f"{layout.images}/*.jpg"
    check_files(source, rules, only=only, fix=f"{layout.again}; nothing was prepared")
    counter.stage("building", len(images))
    prepare = partial(
        prepare_images,
        preprocess=preprocess,
        shape=(3, side, side),
        dtype=dtype,
        threads=int(settings.get("threads", 0)),
        counter=counter,
    )
    prepare([source / name for name in names], output / "samples.npy")
    if calibration:
        prepare([source / name for name in calibration], output / "calibration.npy")
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


# Annotations in COCO's format: read, and rejected if they cannot be real annotations.
#
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
