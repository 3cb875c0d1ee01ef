"""Stable Diffusion XL 1.0: images of the captions of COCO 2014, by CLIP score and FID.

The two networks of the score take gigabytes: the official script scores, and here only what a rehearsal generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark, keep_checkpoint
from harness.benchmarks.stable_diffusion_xl.coco2014 import build_dataset, load_samples, load_shared
from harness.benchmarks.stable_diffusion_xl.scoring import SIDE, encode_png, score

PIPELINE = {"steps": 20, "guidance": 8.0}


class StableDiffusionXl(TensorBenchmark):
    outputs = {"images": ((SIDE, SIDE, 3), "uint8")}
    response_dtype = "uint8"
    pipeline = PIPELINE
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(keep_checkpoint)
    load_samples = staticmethod(load_samples)
    load_shared = staticmethod(load_shared)
    score = staticmethod(score)

    def postprocess(self, outputs: Outputs) -> np.ndarray:
        """Images uint8 [n, height, width, 3], red first -> their bytes, as the accuracy script reads them."""
        return outputs[0].reshape(len(outputs[0]), -1)

    @staticmethod
    def show_answers(answers: Sequence[tuple[int, bytes]], folder: Path) -> None:
        """A PNG of each, named by its sample, as the round wants some of them."""
        for index, data in answers:
            (folder / f"{index}.png").write_bytes(encode_png(data))


BENCHMARK = StableDiffusionXl()
