"""Compare our preprocessing with the reference's: ``python -m tests.benchmarks.reference_preprocessing CHECKOUT
FOLDER``.

CHECKOUT is one of mlcommons/inference, FOLDER contains images. Both prepare each image; prints how many differ, and the
ratio of images/s in one run. The official accuracy script and our scorer score generated answers.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

from harness.benchmarks import resnet50
from harness.benchmarks.accuracy import read_accuracy_log, write_top1
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from tests.benchmarks.comparing import run_script, write_log

_VISION = "vision/classification_and_detection"


def write_images(pictures: Path, folder: Path) -> list[str]:
    """Write every image that OpenCV reads as JPEG in two sizes, with a map."""
    names = []
    for path in sorted(path for path in pictures.rglob("*") if path.is_file()):
        image = cv2.imread(str(path))
        if image is None or min(image.shape[:2]) < 32:
            continue
        for scale in (1.0, 0.61):
            names.append(f"{len(names):05d}.JPEG")
            cv2.imwrite(str(folder / names[-1]), cv2.resize(image, None, fx=scale, fy=scale))
    (folder / resnet50.MAP).write_text("".join(f"{name} {number % 1000}\n" for number, name in enumerate(names)))
    (folder / REHEARSAL).write_text("{}\n")
    return names


def compare_scores(checkout: Path, folder: Path, labels: np.ndarray, right: float) -> bool:
    """Return True if the official script prints our score for answers of which a fraction is right."""
    rng = np.random.default_rng(1)
    chosen = np.where(rng.random(len(labels)) < right, labels, rng.integers(0, 1000, len(labels)))
    log = write_log(folder, chosen.astype(np.int32))
    command = [sys.executable, checkout / _VISION / "tools/accuracy-resnet50.py", "--dtype", "int32"]
    said = run_script([*command, "--mlperf-accuracy-file", log, "--imagenet-val-file", folder / resnet50.MAP]).stdout
    write_top1(read_accuracy_log(log), np.int32, labels, folder)
    return said == (folder / "accuracy.txt").read_text()


def main(checkout: Path, pictures: Path) -> None:
    sys.path.insert(0, str(checkout / _VISION / "python"))
    reference = importlib.import_module("dataset")
    with tempfile.TemporaryDirectory() as temporary:
        folder, output = Path(temporary, "data"), Path(temporary, "output")
        folder.mkdir()
        output.mkdir()
        names = write_images(pictures, folder)
        began = time.perf_counter()
        resnet50.build_dataset(folder, {}, output, Counter(Path(temporary, "counter")))
        ours = time.perf_counter() - began
        samples, differing, theirs = np.load(output / "samples.npy"), 0, 0.0
        for sample, name in zip(samples, names, strict=True):
            began = time.perf_counter()
            expected = reference.pre_process_vgg(cv2.imread(str(folder / name)), [224, 224, 3], need_transpose=True)
            np.save(output / "one", expected)
            theirs += time.perf_counter() - began
            differing += not np.array_equal(sample, expected)
        print(f"{len(names)} images, {differing} differ; images/s, ours over the reference's loop: {theirs / ours:.2f}")
        labels = np.load(output / "labels.npy")
        for right in (1.0, 0.5, 0.0):
            print(f"official script, {right:.0%} right: {compare_scores(checkout, folder, labels, right)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
