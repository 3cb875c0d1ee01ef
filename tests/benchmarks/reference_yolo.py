"""Compare YOLO's preprocessing and objects with those of ultralytics, which the reference uses.

    python -m tests.benchmarks.reference_yolo PYTHON

PYTHON has ultralytics, which runs in a separate process because of its licence, AGPL-3.0. Images of many proportions
are generated, and the network's outputs are random. Prints the largest differences. Exits with 1 if pixels differ, or
objects by more than float32 rounding.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np

from harness.benchmarks.images import draw_image
from harness.benchmarks.yolo import CLASSES, SIDE, find_objects, make_rows, preprocess

SIZES = ((375, 500), (500, 375), (480, 640), (427, 640), (640, 640), (333, 500), (640, 361), (51, 640), (1200, 900))
_TOLERANCE = 1e-5  # of the image's sides
ASK = """
import sys, cv2, numpy as np, torch
from ultralytics.data.augment import LetterBox
from ultralytics.utils import ops
from ultralytics.utils.nms import non_max_suppression
folder, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    image = cv2.imread(f"{folder}/{number}.png")
    boxed = LetterBox((640, 640), auto=False, stride=32)(image=image)
    pixels = np.ascontiguousarray(boxed[..., ::-1].transpose(2, 0, 1)).astype(np.float32) / np.float32(255)
    given = torch.from_numpy(np.load(f"{folder}/given{number}.npy")[None])
    (found,) = non_max_suppression(given, 0.001, 0.7, max_det=300)
    found[:, :4] = ops.scale_boxes((640, 640), found[:, :4], image.shape[:2])
    np.savez(f"{folder}/theirs{number}.npz", pixels=pixels, found=found.numpy())
"""


def main(python: str) -> int:
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, (height, width) in enumerate(SIZES):
            cv2.imwrite(str(folder / f"{number}.png"), draw_image(rng, height, width))
            np.save(folder / f"given{number}.npy", draw_outputs(rng, 2000))
        subprocess.run([python, "-c", ASK, name, str(len(SIZES))], check=True, stdout=subprocess.DEVNULL)
        return max(compare(folder, number, *size) for number, size in enumerate(SIZES))


def draw_outputs(rng: np.random.Generator, places: int) -> np.ndarray:
    """Draw crowded boxes, many of which overlap, and scores that are mostly too low."""
    crowd = rng.uniform(0, SIDE, (2, 40))[:, rng.integers(0, 40, places)]
    middle = crowd + rng.normal(0, 6, (2, places))
    sides = rng.uniform(20, 120, (2, places))
    scores = rng.uniform(0, 1, (CLASSES, places)) ** 40
    found: np.ndarray = np.concatenate([middle, sides, scores]).astype(np.float32)
    return found


def compare(folder: Path, number: int, height: int, width: int) -> int:
    theirs = np.load(folder / f"theirs{number}.npz")
    pixels = float(np.abs(preprocess(folder / f"{number}.png") - theirs["pixels"]).max())
    rows = make_rows(number, height, width, find_objects(np.load(folder / f"given{number}.npy")))
    found = theirs["found"]
    parts = found[:, [1, 0, 3, 2]] / np.array([height, width, height, width], np.float32)
    same = len(rows) == len(found) and np.array_equal(rows[:, 5], found[:, 4])
    boxes = float(np.abs(rows[:, 1:5] - parts).max()) if same else float("inf")
    print(f"{height} x {width}: pixels differ by {pixels}, {len(rows)} objects of {len(found)}, boxes by {boxes:.2g}")
    return int(pixels > 0 or boxes > _TOLERANCE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
