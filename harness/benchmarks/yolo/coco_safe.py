"""COCO 2017 as MLCommons cut it to the images whose licences allow it, and its images as the network takes them.

Preprocessing is that of ultralytics' LetterBox for an exported network: the longer side becomes 640, the shorter one is
filled up with grey on both sides; red first, 0 to 1.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.detection import coco
from harness.benchmarks.images import decode_image

SIDE = 640
_GREY = (114, 114, 114)
LAYOUT = coco.CocoLayout(
    annotations="annotations/instances_val2017.json",
    images="val2017_safe",
    calibration="",
    count=1525,
    again="`reconcile fetch yolo` says where they come from",
)


class SquarePlacement(NamedTuple):
    """Place of an image on the network's square, in pixels. ``left`` and ``top``: of grey."""

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
    """An image file -> float32 [3, 640, 640]. Raises HarnessError."""
    pixels = decode_image(path, fix=LAYOUT.again)
    placed = place_image(*pixels.shape[:2])
    if (placed.height, placed.width) != pixels.shape[:2]:
        size = (placed.width, placed.height)
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR)
    right, bottom = SIDE - placed.width - placed.left, SIDE - placed.height - placed.top
    filled = cv2.copyMakeBorder(pixels, placed.top, bottom, placed.left, right, cv2.BORDER_CONSTANT, value=_GREY)
    red_first: NDArray[np.float32] = filled[..., ::-1].transpose(2, 0, 1).astype(np.float32)
    return red_first / np.float32(255)


build_dataset = partial(coco.build_dataset, LAYOUT, preprocess, SIDE, "yolo")


def load_samples(dataset: Path) -> dict[str, Any]:
    """ "images", and "geometry" [count, 3]: the number, height and width of each, which its response needs."""
    annotations = json.loads((dataset / coco.ANNOTATIONS).read_text(encoding="utf-8"))
    sizes = [(number, image["height"], image["width"]) for number, image in enumerate(annotations["images"])]
    return {
        "images": np.load(dataset / "samples.npy", mmap_mode="r"),
        "geometry": np.array(sizes, np.float32),
    }
