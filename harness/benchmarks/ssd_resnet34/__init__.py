"""SSD-ResNet34 on COCO 2017: the objects of 80 classes in an image, by mean average precision.

Labels count COCO's categories from 1 on, so the official script reads an accuracy log with --use-inv-map.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark, detection
from harness.benchmarks.detection import FOUND, Rows, make_responses, score_boxes
from harness.benchmarks.detection.published_network import Detector
from harness.benchmarks.detection.published_network import build_model as join_outputs

# Preprocessing equals vision/classification_and_detection/python/dataset.py (pre_process_coco_resnet34) of
# mlcommons/inference bit for bit: resize to 1200 x 1200, red first, 0 to 1, then normalized channel by channel.

SIDE = 1200
MEANS = np.array([0.485, 0.456, 0.406], np.float32)  # red, green, blue
DEVIATIONS = np.array([0.229, 0.224, 0.225], np.float32)
LAYOUT = detection.CocoLayout(
    annotations="annotations/instances_val2017.json",
    images="val2017",
    calibration="train2017",
    count=5_000,
    again="run `reconcile fetch ssd-resnet34` again",
)


def preprocess(path: Path) -> NDArray[np.float32]:
    """Convert an image file to float32 [3, 1200, 1200]. Raises HarnessError."""
    scaled = detection.read_scaled(path, SIDE, again=LAYOUT.again)
    normal: NDArray[np.float32] = (scaled / 255.0 - MEANS) / DEVIATIONS
    return normal.transpose(2, 0, 1)


build_dataset = partial(detection.build_dataset, LAYOUT, preprocess, SIDE, "ssd_resnet34")

MOST = 200  # per image


DETECTOR = Detector(
    benchmark="ssd_resnet34",
    image_name="{:012d}.jpg",
    file="resnet34-ssd1200.onnx",
    input="image",
    boxes="bboxes",
    side=SIDE,
    scale=1,
    batched=True,
    first_label=1,
    categories=detection.CATEGORIES,
)


class SsdResnet34(TensorBenchmark):
    outputs = {"detections": ((MOST, FOUND), "float32")}
    response_dtype = "float32"
    names_samples = True
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(partial(join_outputs, most=MOST))
    score = staticmethod(partial(score_boxes, numbered=True))

    def respond(self, outputs: Outputs, indices: Sequence[int]) -> list[Rows]:
        """Convert [n, 200, 6], with boxes in fractions of the image, to responses."""
        return make_responses(outputs[0], indices, side=1)

    def write_rehearsal(self, data: Path, models: Path, /, **wanted: Any) -> None:
        from harness.benchmarks.detection.generated_detector import write_detection_rehearsal

        write_detection_rehearsal(DETECTOR, LAYOUT, preprocess, data, models, **wanted)


BENCHMARK = SsdResnet34()
