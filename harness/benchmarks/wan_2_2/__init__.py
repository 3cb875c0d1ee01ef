"""Wan 2.2 T2V A14B: videos for VBench's prompts, by its score.

VBench's networks take gigabytes, so the official script scores: ``vbench`` gives it the videos from LoadGen's log. Here
only a rehearsal's answers are scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark, keep_checkpoint
from harness.benchmarks.wan_2_2.prompts import build_dataset, load_samples, load_shared
from harness.benchmarks.wan_2_2.videos import encode_video, score

# text_to_video/wan-2.2-t2v-a14b/inference_config.yaml of mlcommons/inference.
PIPELINE = {"steps": 20, "guidance": 4.0, "guidance_2": 3.0, "boundary": 0.875}


class Wan22(TensorBenchmark):
    outputs = {"videos": ((81, 720, 1280, 3), "uint8")}
    response_dtype = "uint8"
    pipeline = PIPELINE
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(keep_checkpoint)
    load_samples = staticmethod(load_samples)
    load_shared = staticmethod(load_shared)
    score = staticmethod(score)

    def postprocess(self, outputs: Outputs) -> list[np.ndarray]:
        """Convert videos uint8 [n, frames, height, width, 3], red first, to MP4 files. The frames themselves would take
        55 GB of an accuracy log; the reference's script writes the same files for the accuracy script."""
        return [np.frombuffer(encode_video(frames), np.uint8) for frames in outputs[0]]

    @staticmethod
    def show_answers(answers: Sequence[tuple[int, bytes]], folder: Path) -> None:
        """Write an MP4 of each, named by its sample, since the round requires some of them."""
        for index, data in answers:
            (folder / f"{index}.mp4").write_bytes(data)


BENCHMARK = Wan22()
