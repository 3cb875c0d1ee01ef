"""3D-UNet on KiTS19: segmentation of kidneys and tumours in volumes of different sizes, by mean DICE."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.unet3d.kits19 import build_dataset, load_calibration, load_labels, load_samples
from harness.benchmarks.unet3d.sliding import AT_ONCE, CLASSES, OUTPUTS, RESPONSE_DTYPE, STEP_THREADS, loop
from harness.errors import HarnessError

_SMOOTH = 1e-6


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return mean, kidney and tumor, 0 to 1, over the answered volumes."""
    labels = load_labels(dataset)
    found = np.array([_compare(data, labels[int(i)]) for i, data in zip(log.indices, log.data, strict=True)])
    kidney, tumor = found.mean(axis=0)
    mean = found.mean(axis=1).mean()
    text = f"Accuracy: mean = {mean:.5f}, kidney = {kidney:.4f}, tumor = {tumor:.4f}\n"
    (output / "accuracy.txt").write_text(text, encoding="ascii")
    return {"mean": float(mean), "kidney": float(kidney), "tumor": float(tumor)}


def _compare(data: bytes, label: np.ndarray) -> np.ndarray:
    answer = np.frombuffer(data, np.uint8)
    if answer.size != label.size or (answer.size and answer.max() >= CLASSES):
        problem = f"a response has {answer.size} voxels, its volume {label.size}, with {CLASSES} classes"
        raise HarnessError(problem, "input", "run accuracy again")
    return compute_dice(answer, label)


def compute_dice(answer: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Compute DICE for each class but the background: twice the intersection, divided by the sum of both sizes."""
    pairs = np.bincount(answer.ravel().astype(np.intp) * CLASSES + label.ravel(), minlength=CLASSES**2)
    table = pairs.reshape(CLASSES, CLASSES).astype(np.float64)
    both, ours, theirs = np.diag(table)[1:], table.sum(axis=1)[1:], table.sum(axis=0)[1:]
    dice: np.ndarray = (2.0 * both + _SMOOTH) / (theirs + ours + _SMOOTH)
    return dice


class Unet3d(LoopBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    at_once = AT_ONCE
    step_threads = STEP_THREADS
    build_dataset = staticmethod(build_dataset)
    load_samples = staticmethod(load_samples)
    load_calibration = staticmethod(load_calibration)
    loop = staticmethod(loop)
    score = staticmethod(score)


BENCHMARK = Unet3d()
