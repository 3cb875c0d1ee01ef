"""Wan 2.2 T2V A14B: videos for VBench's prompts, by its score.

VBench's networks take gigabytes, so the official script scores. ``vbench`` gives it the videos from LoadGen's log. Here
only a rehearsal's answers are scored.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.pipeline_samples import PipelineBenchmark
from harness.benchmarks.wan_2_2.prompts import REFERENCES, TOKENS, build_dataset
from harness.errors import HarnessError

# Answers as videos: MP4 files, encoded like those of diffusers' ``export_to_video`` in the reference.

FPS = 16  # from the reference's inference_config.yaml
SUFFIX = ".mp4"
# The defaults of export_to_video: x264, at a quality of 5 of 10.
_QUALITY, _BLOCK = 5.0, 16
_AS_PICTURES = ("-f", "image2pipe", "-c:v", "ppm", "-")


def encode_video(frames: NDArray[np.uint8]) -> bytes:
    """Encode [frames, height, width, 3], red first; sides must be multiples of 16 pixels."""
    import imageio_ffmpeg

    _, height, width, _ = frames.shape
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"video{SUFFIX}"
        writer = imageio_ffmpeg.write_frames(
            str(path), (width, height), fps=FPS, quality=_QUALITY, macro_block_size=_BLOCK, ffmpeg_log_level="warning"
        )
        writer.send(None)
        try:
            for frame in frames:
                writer.send(np.ascontiguousarray(frame))
        finally:
            writer.close()
        return path.read_bytes()


def decode_video(data: bytes) -> NDArray[np.uint8]:
    """Decode to [frames, height, width, 3]. Raises HarnessError if the bytes are not a video."""
    import imageio_ffmpeg

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"video{SUFFIX}"
        path.write_bytes(data)
        program = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path), *_AS_PICTURES]
        done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        problem = f"an answer of {len(data)} bytes is not a video{f': {said[-1]}' if said else ''}"
        raise HarnessError(problem, "input", "run accuracy again")
    return _read_pictures(done.stdout)


def _read_pictures(stream: bytes) -> NDArray[np.uint8]:
    """Read consecutive PPM files of one size: "P6", width and height, the maximum value, and then the bytes."""
    header = b"\n".join(stream.split(b"\n", 3)[:3]) + b"\n"
    width, height = (int(word) for word in header.split()[1:3])
    size = len(header) + width * height * 3
    rows = np.frombuffer(stream, np.uint8).reshape(-1, size)
    return rows[:, len(header) :].reshape(-1, height, width, 3)


# VBench's six networks take gigabytes and are meaningless for generated prompts. In a rehearsal the frames are compared
# with the library's own for the same prompt, on a scale that gives identical ones the reference model's score.

METRIC = "vbench_score"
REFERENCE_SCORE = 70.48  # score of the reference model in bf16, percent
_NEAR = 8  # difference, out of 255, that rounding on another machine and a codec's losses may cause


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return a rehearsal's vbench_score. Raises HarnessError for real prompts, which the official script scores."""
    if not (dataset / REFERENCES).is_dir():
        raise HarnessError(
            "only the official script scores videos, with VBench",
            "input",
            "declare it as harness.score.command (see `reconcile benchmarks show wan-2.2-t2v-a14b`); the accuracy "
            "run is kept",
        )
    near = 0.0
    for index, data in zip(log.indices.tolist(), log.data, strict=True):
        wanted = (dataset / REFERENCES / f"{index}{SUFFIX}").read_bytes()
        near += 1.0 if data == wanted else compare_frames(decode_video(data), decode_video(wanted), index)
    near /= len(log.indices)
    scores = {METRIC: round(REFERENCE_SCORE * near, 4)}
    summary = f"A rehearsal: frames as they were generated stand in for VBench; {100 * near:.3f}% of all values are"
    (output / "accuracy.txt").write_text(f"{summary}\n{scores}\n", encoding="ascii")
    return {**scores, "near": round(100 * near, 3)}


def compare_frames(found: NDArray[np.uint8], wanted: NDArray[np.uint8], index: int) -> float:
    """Return the share of nearly equal values. Raises HarnessError if a video has another size."""
    if found.shape != wanted.shape:
        problem = f"the answer to sample {index} is a video of {list(found.shape)}, not {list(wanted.shape)}"
        raise HarnessError(problem, "input", "run accuracy again")
    return float((np.abs(found.astype(np.int16) - wanted) <= _NEAR).mean())


# text_to_video/wan-2.2-t2v-a14b/inference_config.yaml of mlcommons/inference.
PIPELINE = {"steps": 20, "guidance": 4.0, "guidance_2": 3.0, "boundary": 0.875}


class Wan22(PipelineBenchmark):
    outputs = {"videos": ((81, 720, 1280, 3), "uint8")}
    pipeline = PIPELINE
    tokens = TOKENS
    build_dataset = staticmethod(build_dataset)
    score = staticmethod(score)

    def postprocess(self, outputs: Outputs) -> list[np.ndarray]:
        """Convert videos uint8 [n, frames, height, width, 3], red first, to MP4 files. The frames themselves would take
        55 GB in an accuracy log; the reference's script writes the same files for the accuracy script."""
        return [np.frombuffer(encode_video(frames), np.uint8) for frames in outputs[0]]

    @staticmethod
    def show_answers(answers: Sequence[tuple[int, bytes]], folder: Path) -> None:
        """Write an MP4 of each answer, named by its sample, since the round requires some of them."""
        for index, data in answers:
            (folder / f"{index}.mp4").write_bytes(data)


BENCHMARK = Wan22()
