"""COCO 2017 as people have it on disk, and its images as the network takes them.

Preprocessing equals vision/classification_and_detection/python/dataset.py (pre_process_coco_resnet34) of
mlcommons/inference bit for bit: resize to 1200 x 1200, red first, 0 to 1, then normalized channel by channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.detection import coco
from harness.benchmarks.sources import read_list
from harness.contract import Counter

SIDE = 1200
MEANS = np.array([0.485, 0.456, 0.406], np.float32)  # red, green, blue
DEVIATIONS = np.array([0.229, 0.224, 0.225], np.float32)
LAYOUT = coco.CocoLayout(
    annotations="annotations/instances_val2017.json",
    images="val2017",
    calibration="train2017",
    count=5_000,
    again="run `reconcile fetch ssd-resnet34` again",
)


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """As ``coco.build_dataset``."""
    listed = read_list("ssd_resnet34", "calibration.txt")
    given = {"source": source, "settings": settings, "output": output, "counter": counter}
    coco.build_dataset(LAYOUT, preprocess, SIDE, listed, **given)  # type: ignore[arg-type]


def preprocess(path: Path) -> NDArray[np.float32]:
    """An image file -> float32 [3, 1200, 1200]. Raises HarnessError."""
    scaled = coco.read_scaled(path, SIDE, again=LAYOUT.again)
    normal: NDArray[np.float32] = (scaled / 255.0 - MEANS) / DEVIATIONS
    return normal.transpose(2, 0, 1)
