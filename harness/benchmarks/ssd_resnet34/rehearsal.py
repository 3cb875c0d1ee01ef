"""A small COCO of generated images, and a network with the reference's signature that finds objects in them."""

from __future__ import annotations

from pathlib import Path

from harness.benchmarks.detection.coco import CATEGORIES
from harness.benchmarks.detection.generated_detector import FEW, Detector, write_detection_rehearsal
from harness.benchmarks.sources import read_list
from harness.benchmarks.ssd_resnet34 import LAYOUT, SIDE, preprocess
from harness.contract import Counter

DETECTOR = Detector(
    file="resnet34-ssd1200.onnx",
    input="image",
    boxes="bboxes",
    side=SIDE,
    scale=1,
    batched=True,
    first_label=1,
    categories=CATEGORIES,
)


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    names = [f"{number:012d}.jpg" for number in range(1, count + 1)]
    calibration = read_list("ssd_resnet34", "calibration.txt")[:FEW]
    given = {"data": data, "models": models, "seed": seed, "full": size == "full", "counter": counter}
    write_detection_rehearsal(DETECTOR, LAYOUT, preprocess, names, calibration, **given)  # type: ignore[arg-type]
