"""Stable Diffusion XL 1.0: images for the captions of COCO 2014, by CLIP score and FID.

The score's two networks take gigabytes, so the official script scores; here only a rehearsal's answers are scored.
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
        """Convert images uint8 [n, height, width, 3], red first, to their bytes, as the accuracy script reads them."""
        return outputs[0].reshape(len(outputs[0]), -1)

    @staticmethod
    def show_answers(answers: Sequence[tuple[int, bytes]], folder: Path) -> None:
        """Write a PNG of each, named by its sample, since the round requires some of them."""
        for index, data in answers:
            (folder / f"{index}.png").write_bytes(encode_png(data))


BENCHMARK = StableDiffusionXl()
