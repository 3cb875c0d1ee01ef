"""YOLOv11l on the images of COCO 2017 whose licences allow it: objects of 80 classes, by mean average precision."""

from __future__ import annotations

import json
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import LoopBenchmark, detection
from harness.benchmarks.detection import FOUND, WIDTH, Boxes, Rows, score_boxes, suppress
from harness.benchmarks.images import decode_image
from harness.errors import HarnessError
from harness.run.qsl import Arrays

# Convert an exported YOLO's output to objects, like ultralytics' predict in the reference.
#
# Scores above 0.001, the likeliest class of each position, no two boxes of one class that overlap by more than 70 %, at
# most three hundred.

CLASSES, PLACES = 80, 80**2 + 40**2 + 20**2
MOST = 300  # per image
OUTPUTS = {"output0": ((4 + CLASSES, PLACES), "float32")}
THRESHOLD = np.float32(0.001)
_OVERLAP = np.float32(0.7)
_CONSIDERED = 30_000  # boxes
CATEGORIES = np.array(detection.CATEGORIES, np.float32)


def loop(sample: Arrays) -> Generator[Arrays, Outputs, Rows]:
    """Map an image "images" [3, 640, 640] with its "geometry" to rows of seven float32, as the accuracy script reads
    them."""
    (found,) = yield {"images": sample["images"][None]}
    number, height, width = (int(value) for value in sample["geometry"])
    return make_rows(number, height, width, find_objects(np.asarray(found[0], np.float32)))


def find_objects(found: NDArray[np.float32]) -> Boxes:
    """Map [84, positions], the middle, size and scores of each position, or an export's own objects [n, 6], to [n, 6]:
    xmin, ymin, xmax, ymax in pixels of the input, score, class; the best first."""
    if found.ndim == 2 and found.shape[1] == FOUND:
        return found[found[:, 4] > THRESHOLD][:MOST]
    if found.ndim != 2 or found.shape[0] != 4 + CLASSES:
        fix = "export the published checkpoint to ONNX: yolo export model=yolo11l.pt format=onnx"
        raise HarnessError(f"the model returns {list(found.shape)} per image", "input", fix)
    scores = found[4:].max(axis=0)
    likely = np.flatnonzero(scores > THRESHOLD)
    likely = likely[np.argsort(-scores[likely], kind="stable")][:_CONSIDERED]
    classes = found[4:, likely].argmax(axis=0)
    middle, half = found[:2, likely].T, found[2:4, likely].T / np.float32(2)
    boxes = np.concatenate([middle - half, middle + half], axis=1)
    return suppress(boxes, scores[likely], classes, overlap=_OVERLAP, most=MOST)


def make_rows(number: int, height: int, width: int, found: Boxes) -> Rows:
    """Make the rows of an image: its number, ymin, xmin, ymax, xmax as fractions of its sides, score, category."""
    placed = place_image(height, width)
    sizes = np.array([width, height, width, height], np.float32)
    scales = np.array([placed.width / width, placed.height / height] * 2, np.float32)
    boxes = np.clip((found[:, :4] - np.array([placed.left, placed.top] * 2, np.float32)) / scales, 0, sizes)
    rows = np.empty((len(found), WIDTH), np.float32)
    rows[:, 0] = number
    rows[:, 1:5] = (boxes / sizes)[:, [1, 0, 3, 2]]
    rows[:, 5] = found[:, 4]
    rows[:, 6] = CATEGORIES[found[:, 5].astype(int)]
    return rows


# Preprocessing is that of ultralytics' LetterBox for an exported network: the longer side becomes 640, and the shorter
# one is padded with grey on both sides; red first, 0 to 1.

SIDE = 640
_GREY = (114, 114, 114)
LAYOUT = detection.CocoLayout(
    annotations="annotations/instances_val2017.json",
    images="val2017_safe",
    calibration="",
    count=1525,
    again="`reconcile fetch yolo` shows their source",
)


class SquarePlacement(NamedTuple):
    """Position of an image on the network's square, in pixels. ``left`` and ``top``: size of the grey padding there."""

    width: int
    height: int
    left: int
    top: int


def place_image(height: int, width: int) -> SquarePlacement:
    scale = min(SIDE / height, SIDE / width)
    wide, high = max(round(width * scale), 1), max(round(height * scale), 1)
    left, top = (round((SIDE - size) / 2 - 0.1) for size in (wide, high))
    return SquarePlacement(wide, high, left, top)


def preprocess(path: Path) -> NDArray[np.float32]:
    """Convert an image file to float32 [3, 640, 640]. Raises HarnessError."""
    pixels = decode_image(path, fix=LAYOUT.again)
    placed = place_image(*pixels.shape[:2])
    if (placed.height, placed.width) != pixels.shape[:2]:
        size = (placed.width, placed.height)
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR)
    right, bottom = SIDE - placed.width - placed.left, SIDE - placed.height - placed.top
    filled = cv2.copyMakeBorder(pixels, placed.top, bottom, placed.left, right, cv2.BORDER_CONSTANT, value=_GREY)
    red_first: NDArray[np.float32] = filled[..., ::-1].transpose(2, 0, 1).astype(np.float32)
    return red_first / np.float32(255)


build_dataset = partial(detection.build_dataset, LAYOUT, preprocess, SIDE, "yolo")


def load_samples(dataset: Path) -> dict[str, Any]:
    """Load "images", and "geometry" [count, 3]: the number, height and width of each, which its response needs."""
    annotations = json.loads((dataset / detection.ANNOTATIONS).read_text(encoding="utf-8"))
    sizes = [(number, image["height"], image["width"]) for number, image in enumerate(annotations["images"])]
    return {"images": np.load(dataset / "samples.npy", mmap_mode="r"), "geometry": np.array(sizes, np.float32)}


class Yolo(LoopBenchmark):
    outputs = OUTPUTS
    response_dtype = "float32"
    build_dataset = staticmethod(build_dataset)
    load_samples = staticmethod(load_samples)
    loop = staticmethod(loop)
    score = staticmethod(partial(score_boxes, numbered=False))


BENCHMARK = Yolo()
