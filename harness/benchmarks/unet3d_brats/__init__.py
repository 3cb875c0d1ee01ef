"""3D-UNet on BraTS 2019: segmentation of brain tumours, by mean DICE, as in rounds up to v1.1.

A response contains the scores of all classes at each position, 64 MB per volume, as in the reference: the official
script reads the accuracy log unchanged (its default is --output_dtype float16).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark, copy_model
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.unet3d_brats.brats19 import (
    CLASSES,
    SHAPE,
    Case,
    build_dataset,
    load_calibration,
    load_cases,
    load_labels,
)
from harness.contract import Counter
from harness.errors import HarnessError

# The mean DICE of whole tumour, tumour core and enhancing tumour, in the format that the official script prints.

_PRINTED = 4  # decimals of a region's mean
REGIONS = {"whole tumor": (1, 2, 3), "tumor core": (2, 3), "enhancing tumor": (3,)}


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return mean and each region, 0 to 1. A case without a region, in which none was found, is excluded from its mean.

    The official script reads the regions from a table with four decimals, so the mean is that of the rounded values.
    """
    cases = load_cases(dataset)
    found = np.array([_compare(data, dataset, cases[int(i)]) for i, data in zip(log.indices, log.data, strict=True)])
    there = ~np.isnan(found)
    sums, counts = np.where(there, found, 0).sum(axis=0), there.sum(axis=0)
    means = [float(total / count) if count else 0.0 for total, count in zip(sums, counts, strict=True)]
    regions = dict(zip(REGIONS, means, strict=True))
    mean = sum(round(value, _PRINTED) for value in means) / len(means)
    summary = ", ".join(f"{name} = {value:.4f}" for name, value in regions.items())
    (output / "accuracy.txt").write_text(f"Accuracy: mean = {mean:.5f}, {summary}\n", encoding="ascii")
    return {"mean": mean, **regions}


def _compare(data: bytes, dataset: Path, case: Case) -> NDArray[np.float64]:
    scores = np.frombuffer(data, np.float16)
    if scores.size != CLASSES * np.prod(SHAPE):
        problem = f"a response has {scores.size} numbers, not {CLASSES} classes in {SHAPE}"
        raise HarnessError(problem, "input", "run accuracy again")
    labels = load_labels(dataset, case)
    answer = np.zeros(labels.shape, np.uint8)
    answer[case.without] = choose_classes(scores, case)
    return compute_dice(answer, labels)


def choose_classes(scores: NDArray[np.float16], case: Case) -> NDArray[np.uint8]:
    """Choose the likeliest class of each position in the kept part of a case; ties go to the first."""
    kept = scores.reshape(CLASSES, *SHAPE)[(slice(None), *case.within)]
    classes: NDArray[np.uint8] = kept.argmax(axis=0).astype(np.uint8)
    return classes


def compute_dice(answer: NDArray[np.uint8], labels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Compute DICE for each region; nan if neither contains it."""
    pairs = np.bincount(answer.ravel().astype(np.intp) * CLASSES + labels.ravel(), minlength=CLASSES**2)
    table = pairs.reshape(CLASSES, CLASSES)
    dice = []
    for classes in REGIONS.values():
        chosen = np.isin(np.arange(CLASSES), classes)
        total = int(table[chosen].sum() + table[:, chosen].sum())
        dice.append(2.0 * int(table[np.ix_(chosen, chosen)].sum()) / total if total else np.nan)
    return np.array(dice)


# The published network: one of its five outputs is the benchmark's.

OUTPUT = "output"


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Write model.onnx from an ONNX file, keeping only the benchmark's output: the others are never read."""
    copy_model(source, settings, inputs, output, counter)
    path = output / "model.onnx"
    if not path.is_file():
        return
    model = onnx.load(str(path))
    others = [item for item in model.graph.output if item.name != OUTPUT]
    if 0 < len(others) < len(model.graph.output):
        for item in others:
            model.graph.output.remove(item)
        onnx.save(model, str(path))


class Unet3dBrats(TensorBenchmark):
    outputs = {OUTPUT: ((CLASSES, *SHAPE), "float32")}
    response_dtype = "float16"
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_calibration = staticmethod(load_calibration)
    score = staticmethod(score)

    def postprocess(self, outputs: Outputs) -> NDArray[np.float16]:
        """Convert scores float [n, 4, 224, 224, 160] to float16."""
        return np.asarray(outputs[0], np.float16)


BENCHMARK = Unet3dBrats()
