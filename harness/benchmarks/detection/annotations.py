"""Annotations in COCO's format: read, and refused where they cannot be what somebody drew.

Whatever published data holds is taken: crowds, boxes of no width, boxes that a rounding moved over the border.
"""

from __future__ import annotations

import math
import re
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from pathlib import Path
from reprlib import repr as shorten
from typing import Any

from harness.benchmarks.checking import is_below
from harness.benchmarks.sources import read_json
from harness.errors import HarnessError

_PARTS = ("images", "annotations", "categories")
_OF_IMAGE = ("id", "file_name", "height", "width")
_OF_ANNOTATION = ("id", "image_id", "category_id", "bbox", "area", "iscrowd")  # pycocotools reads them all
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")
_MOST = 1e9  # pixels; compared with it, what is infinite or no number is no size either


def read_annotations(path: Path, fix: str) -> dict[str, Any]:
    """Images, annotations and categories. Raises HarnessError naming the entry that is wrong, before anything is made
    of them. ``fix``: how to get the file once more."""
    document = read_json(path, fix)
    parts: dict[str, Any] = {name: document.get(name) for name in _PARTS} if isinstance(document, dict) else {}
    if not parts or not all(isinstance(part, list) for part in parts.values()) or not parts["images"]:
        raise HarnessError(f"{path} does not list images, annotations and categories", "input", fix)
    problem = _find_problem(**parts)
    if problem:
        raise HarnessError(f"{path}: {problem}", "input", f"{fix}, or correct the file; nothing was prepared")
    return parts


def take_first(annotations: Mapping[str, Any], count: int) -> dict[str, Any]:
    """The first images, with what is annotated of them."""
    images = annotations["images"][:count]
    known = {image["id"] for image in images}
    kept = [item for item in annotations["annotations"] if item["image_id"] in known]
    return {**annotations, "images": images, "annotations": kept}


def _find_problem(images: Sequence[Any], annotations: Sequence[Any], categories: Sequence[Any]) -> str:
    """The first, "" where there is none."""
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
            return f"image {image['id']} has the {name} {shorten(image[name])}, which is none"
    file = str(image["file_name"])
    return "" if is_below(file) else f"{file} is not a path below the images' folder"


def _describe_doubled(kind: str, name: str, entries: Sequence[Mapping[str, Any]]) -> str:
    values = [str(entry[name]) if name == "file_name" else _spell_id(entry[name]) for entry in entries]
    if len(set(values)) == len(values):
        return ""
    most = Tally(values).most_common(1)[0][0][:80]
    return f"names {len(values) - len(set(values))} {kind} twice, by their {name}, such as {most}"


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
            problem = f"is of image {shorten(image)}, which the file does not declare"
        elif not _is_id(category) or category not in known:
            problem = f"is of category {shorten(category)}, which the file does not declare"
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
        return f"has the area {shorten(item['area'])}, which is none"
    crowd = item["iscrowd"]  # of a table of floats it is one, too
    whole = isinstance(crowd, int) or (isinstance(crowd, float) and crowd.is_integer())
    return "" if whole else f"has iscrowd {shorten(crowd)}, not 0 or 1"


def _is_id(value: Any) -> bool:
    """Say whether it is an id. NaN equals nothing, not even itself; true equals 1."""
    return type(value) in (int, str) or (type(value) is float and math.isfinite(value))


def _spell_id(value: Any) -> str:
    """The same of 1, 1.0, "1" and "1.0": programs take them for one id, or not."""
    text = str(int(value) if type(value) is float and value.is_integer() else value)
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def _is_size(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _MOST
