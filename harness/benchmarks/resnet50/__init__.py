"""ResNet-50 v1.5 on the validation images of ImageNet 2012: top-1 of one class per image."""

from __future__ import annotations

import numpy as np

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark
from harness.benchmarks.resnet50.imagenet import build_dataset, load_calibration
from harness.errors import HarnessError

# Bytes of a response: the class of an image, 0 to 999, as int32.

CLASSES = 1000
OUTPUTS = {"softmax_tensor:0": ((CLASSES + 1,), "float32")}
RESPONSE_DTYPE = "int32"


def postprocess(outputs: Outputs) -> np.ndarray:
    """[n] classes, or [n, classes] scores, of the model's first output -> int32 [n].

    The reference's network counts a background class before the thousand, which its official answers leave out. A
    network that gives 1000 scores has none.
    """
    first = np.asarray(outputs[0])
    if np.issubdtype(first.dtype, np.integer):
        return (first.reshape(len(first)) - 1).astype(np.int32)
    scores = first.reshape(len(first), -1)
    background = scores.shape[1] - CLASSES
    if background not in (0, 1):
        raise HarnessError(
            f"the model gives {scores.shape[1]} scores for an image, not {CLASSES} or {CLASSES + 1}",
            "input",
            "use the reference's ResNet-50, or one whose first output is its classes",
        )
    classes: np.ndarray = scores.argmax(axis=1) - background
    return classes.astype(np.int32)


class Resnet50(TensorBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    build_dataset = staticmethod(build_dataset)
    load_calibration = staticmethod(load_calibration)
    postprocess = staticmethod(postprocess)


BENCHMARK = Resnet50()
