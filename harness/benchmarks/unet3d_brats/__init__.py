"""3D-UNet on BraTS 2019: which places of a brain belong to a tumour, by mean DICE, as rounds up to v1.1 had it.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and what becomes of it: ``brats19``; the
model: ``published_network``; the score: ``scoring``. A response holds the scores of all classes at each place, 64 MB of
a volume, as the reference sends them: the official script takes an accuracy log as it is (its default is
--output_dtype float16).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark
from harness.benchmarks.unet3d_brats.brats19 import CLASSES, SHAPE, build_dataset, load_calibration
from harness.benchmarks.unet3d_brats.published_network import OUTPUT, build_model
from harness.benchmarks.unet3d_brats.scoring import score


class Unet3dBrats(TensorBenchmark):
    outputs = {OUTPUT: ((CLASSES, *SHAPE), "float32")}
    response_dtype = "float16"
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_calibration = staticmethod(load_calibration)
    score = staticmethod(score)

    def postprocess(self, outputs: Outputs) -> NDArray[np.float16]:
        """Scores float [n, 4, 224, 224, 160] -> as float16."""
        return np.asarray(outputs[0], np.float16)


BENCHMARK = Unet3dBrats()
