"""A small Open Images of generated images, and a network with the reference's signature that finds objects in them."""

from __future__ import annotations

from pathlib import Path

from harness.benchmarks.detection.generated_detector import FEW, Detector, write_detection_rehearsal
from harness.benchmarks.retinanet import LAYOUT, preprocess
from harness.benchmarks.retinanet.heads import CLASSES, SIDE
from harness.benchmarks.sources import read_list
from harness.contract import Counter

DETECTOR = Detector(
    file="resnext50_32x4d_fpn.onnx",
    input="images",
    boxes="boxes",
    side=SIDE,
    scale=SIDE,
    batched=False,
    first_label=0,
    categories=range(CLASSES),
)


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    names = [f"{number:016x}.jpg" for number in range(1, count + 1)]
    calibration = read_list("retinanet", "calibration.txt")[:FEW]
    given = {"data": data, "models": models, "seed": seed, "full": size == "full", "counter": counter}
    write_detection_rehearsal(DETECTOR, LAYOUT, preprocess, names, calibration, **given)  # type: ignore[arg-type]
