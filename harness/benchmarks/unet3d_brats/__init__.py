"""3D-UNet on BraTS 2019: which places of a brain belong to a tumour, by mean DICE, as rounds up to v1.1 had it.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and what becomes of it: ``brats19``; the
score: ``scoring``. A response holds the scores of all classes at each place, 64 MB of a volume, as the reference sends
them: the official script takes an accuracy log as it is (its default is --output_dtype float16).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import copy_model
from harness.benchmarks.unet3d_brats.brats19 import CLASSES, SHAPE, build_dataset, load_calibration
from harness.benchmarks.unet3d_brats.scoring import score
from harness.contract import Counter

REVISION = 1
OUTPUT = "output"
OUTPUTS = {OUTPUT: ((CLASSES, *SHAPE), "float32")}
RESPONSE_DTYPE = "float16"


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """model.onnx of an ONNX file, of whose outputs only the benchmark's is kept: the published one gives those of four
    levels more, which nobody reads."""
    copy_model(source, settings, inputs, output, counter)
    path = output / "model.onnx"
    if not path.is_file():
        return
    # Slow to load, and a run needs no ONNX.
    import onnx

    model = onnx.load(str(path))
    others = [item for item in model.graph.output if item.name != OUTPUT]
    if 0 < len(others) < len(model.graph.output):
        for item in others:
            model.graph.output.remove(item)
        onnx.save(model, str(path))


def postprocess(outputs: Outputs) -> NDArray[np.float16]:
    """Scores float [n, 4, 224, 224, 160] -> as float16."""
    return np.asarray(outputs[0], np.float16)


__all__ = [
    "OUTPUTS",
    "RESPONSE_DTYPE",
    "REVISION",
    "build_dataset",
    "build_model",
    "load_calibration",
    "postprocess",
    "score",
]
