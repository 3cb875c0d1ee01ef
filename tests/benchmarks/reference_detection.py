"""Compare our detection benchmarks with the reference's: ``python -m tests.benchmarks.reference_detection CHECKOUT
FOLDER``.

CHECKOUT is one of mlcommons/inference, FOLDER contains images. Both prepare each image; prints how many differ. The
official accuracy scripts and our scorer score generated answers. If torchvision is installed, its RetinaNet computes
objects from the same heads.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np

from harness.benchmarks import retinanet, ssd_resnet34
from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.detection import FOUND, CocoLayout, make_response
from harness.benchmarks.sources import REHEARSAL
from harness.benchmarks.ssd_resnet34 import DETECTOR
from harness.contract import Counter
from tests.benchmarks.comparing import run_script, write_log

_VISION = "vision/classification_and_detection"
_IMAGES = 30
_OBJECTS = 12  # of an image


def write_images(pictures: Path, folder: Path, layout: CocoLayout, categories: list[int]) -> list[dict[str, Any]]:
    """Write every image that OpenCV reads as JPEG, including grey ones, with random boxes."""
    rng, images, annotations = np.random.default_rng(1), [], []
    (folder / layout.images).mkdir(parents=True)
    for path in sorted(path for path in pictures.rglob("*") if path.is_file()):
        image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        if image is None or image.dtype != np.uint8 or min(image.shape[:2]) < 32 or len(images) == _IMAGES:
            continue
        number, (height, width) = len(images) + 1, image.shape[:2]
        name = f"{number:012d}.jpg"
        cv2.imwrite(str(folder / layout.images / name), image[..., :3] if image.ndim == 3 else image)
        images.append({"id": number * 7, "file_name": name, "height": height, "width": width, "coco_url": ""})
        for _ in range(_OBJECTS):
            x, y, across, down = rng.uniform(0.05, 0.5, 4) * np.array([width, height, width, height])
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number * 7,
                    "category_id": int(rng.choice(categories[:6])),
                    "bbox": [x, y, across, down],
                    "area": across * down,
                    "iscrowd": 0,
                }
            )
    document = {
        "info": {},
        "licenses": [],
        "images": images,
        "annotations": annotations,
        "categories": [{"id": number, "name": str(number)} for number in categories],
    }
    path = folder / layout.annotations
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    (folder / REHEARSAL).write_text("{}\n")
    return annotations


def make_answers(
    annotations: list[dict[str, Any]], images: list[dict[str, Any]], categories: list[int], first: int, right: float
) -> list[np.ndarray]:
    """Return a response per image: a fraction of its objects in place, the others anywhere; none for the last image."""
    rng, answers = np.random.default_rng(2), []
    for index, image in enumerate(images):
        rows = []
        for item in annotations:
            if item["image_id"] != image["id"] or index == len(images) - 1:
                continue
            x, y, across, down = item["bbox"] if rng.random() < right else rng.uniform(0, 100, 4)
            box = [x / image["width"], y / image["height"], (x + across) / image["width"], (y + down) / image["height"]]
            label = categories.index(item["category_id"]) + first if rng.random() < right else first
            rows.append([*box, rng.uniform(0.06, 1), label])
        answers.append(make_response(index, np.array(rows, np.float32).reshape(-1, FOUND), 1))
    return answers


def compare_scores(
    command: list[str], answers: list[np.ndarray], folder: Path, output: Path, score: Callable[..., Any]
) -> tuple[str, str]:
    """Return the official figure and ours."""
    log = write_log(folder, answers)
    whole = [sys.executable, *command, "--mlperf-accuracy-file", log, "--output-file", folder / "found.json"]
    said = run_script(whole).stdout
    score(read_accuracy_log(log), output, folder)
    found = re.search(r"^mAP=.*$", said, re.MULTILINE)
    assert found is not None, said
    return found[0], (folder / "accuracy.txt").read_text().strip()


def compare(
    checkout: Path, pictures: Path, reference: Callable[..., np.ndarray], module: ModuleType, options: dict[str, Any]
) -> None:
    layout, categories = options["layout"], options["categories"]
    with tempfile.TemporaryDirectory() as temporary:
        folder, output = Path(temporary, "data"), Path(temporary, "output")
        output.mkdir()
        annotations = write_images(pictures, folder, layout, categories)
        module.build_dataset(folder, {}, output, Counter(Path(temporary, "counter")))
        images = json.loads((folder / layout.annotations).read_text())["images"]
        differing = 0
        for sample, image in zip(np.load(output / "samples.npy", mmap_mode="r"), images, strict=True):
            pixels = cv2.imread(str(folder / layout.images / image["file_name"]))
            side = sample.shape[1]
            differing += not np.array_equal(sample, reference(pixels, [side, side, 3], need_transpose=True))
        print(f"{module.__name__}: {len(images)} images, {differing} differ")
        command = [str(checkout / _VISION / "tools" / options["script"]), options["folder"], str(folder)]
        for right in (1.0, 0.5, 0.0):
            answers = make_answers(annotations, images, categories, options["first"], right)
            theirs, ours = compare_scores([*command, *options["words"]], answers, folder, output, module.score)
            print(f"  {right:.0%} right: official {theirs}, ours {ours}: {'equal' if theirs == ours else 'DIFFERENT'}")


def compare_heads() -> None:
    """Compute objects from the same scores and offsets with torchvision's RetinaNet and ours."""
    try:
        torch, detection = importlib.import_module("torch"), importlib.import_module("torchvision.models.detection")
    except ImportError:
        print("torchvision is not installed: heads not compared")
        return
    generator = torch.Generator().manual_seed(1)
    cells = [100, 50, 25, 13, 7]
    count = sum(side**2 * 9 for side in cells)
    network = detection.retinanet_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=retinanet.CLASSES, detections_per_img=retinanet.MOST
    )
    features = [torch.zeros(1, 256, side, side) for side in cells]
    images = importlib.import_module("torchvision.models.detection.image_list").ImageList(
        torch.zeros(1, 3, 800, 800), [(800, 800)]
    )
    anchors = network.anchor_generator(images, features)
    split = [side**2 * 9 for side in cells]
    for spread in (1.0, 2.0):
        scores = torch.randn(1, count, retinanet.CLASSES, generator=generator) * spread - 6 * spread
        offsets = torch.randn(1, count, 4, generator=generator)
        given = {"cls_logits": list(scores.split(split, 1)), "bbox_regression": list(offsets.split(split, 1))}
        (theirs,) = network.postprocess_detections(given, [list(anchors[0].split(split))], [(800, 800)])
        ours = retinanet.find_objects(scores[0].numpy(), offsets[0].numpy())
        boxes, labels = theirs["boxes"].numpy(), theirs["labels"].numpy()
        alike = len(boxes) == len(ours) and np.array_equal(labels, ours[:, 5])
        off = float(np.abs(boxes - ours[:, :4]).max()) if alike else float("nan")
        print(f"heads: {len(boxes)} objects, {len(ours)} ours, same classes in order: {alike}, boxes off by {off:.2g}")


def main(checkout: Path, pictures: Path) -> None:
    sys.path.insert(0, str(checkout / _VISION / "python"))
    reference = importlib.import_module("dataset")
    wide = {"layout": retinanet.LAYOUT, "categories": list(range(retinanet.CLASSES)), "first": 0, "words": []}
    compare(
        checkout,
        pictures,
        reference.pre_process_openimages_retinanet,
        retinanet,
        {**wide, "script": "accuracy-retinanet.py", "folder": "--openimages-dir"},
    )
    large = {
        "layout": ssd_resnet34.LAYOUT,
        "categories": list(DETECTOR.categories),
        "first": 1,
        "words": ["--use-inv-map"],
    }
    compare(
        checkout,
        pictures,
        reference.pre_process_coco_resnet34,
        ssd_resnet34,
        {**large, "script": "accuracy-coco.py", "folder": "--coco-dir"},
    )
    compare_heads()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
