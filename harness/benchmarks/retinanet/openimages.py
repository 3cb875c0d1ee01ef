"""Open Images in the layout of the reference's download script, and its images as the network expects them.

Preprocessing equals vision/classification_and_detection/python/dataset.py (pre_process_openimages_retinanet) of
mlcommons/inference bit for bit: resize to 800 x 800, red first, 0 to 1.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.detection import coco

SIDE = 800
LAYOUT = coco.CocoLayout(
    annotations="annotations/openimages-mlperf.json",
    images="validation/data",
    calibration="calibration/train/data",
    count=24_781,
    again="run `reconcile fetch retinanet` again",
)


def preprocess(path: Path) -> NDArray[np.float32]:
    """Convert an image file to float32 [3, 800, 800]. Raises HarnessError."""
    scaled = coco.read_scaled(path, SIDE, again=LAYOUT.again)
    scaled /= 255.0
    return scaled.transpose(2, 0, 1)


build_dataset = partial(coco.build_dataset, LAYOUT, preprocess, SIDE, "retinanet")
