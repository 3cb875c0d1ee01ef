"""Score of videos: by the official script, and for a rehearsal by a simple substitute.

VBench's six networks take gigabytes and say nothing about generated prompts. In a rehearsal the frames are compared
with those that the library itself made of the same prompt, on a scale on which they score what the reference model
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.wan_2_2.prompts import REFERENCES
from harness.benchmarks.wan_2_2.videos import SUFFIX, decode_video
from harness.errors import HarnessError

METRIC = "vbench_score"
REFERENCE_SCORE = 70.48  # percent, of the reference model in bf16
_NEAR = 8  # of 255: rounding on another machine, and what a codec makes of it


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """vbench_score of a rehearsal. Raises HarnessError for real prompts: the official script scores."""
    if not (dataset / REFERENCES).is_dir():
        raise HarnessError(
            "videos are scored with the networks of VBench, by the official script",
            "input",
            "declare it as harness.score.command (`reconcile benchmarks show wan-2.2-t2v-a14b` says how); the accuracy "
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
    """The share of values that are nearly the same. Raises HarnessError where a video is of another size."""
    if found.shape != wanted.shape:
        problem = f"the answer to sample {index} is a video of {list(found.shape)}, not {list(wanted.shape)}"
        raise HarnessError(problem, "input", "run accuracy again")
    return float((np.abs(found.astype(np.int16) - wanted) <= _NEAR).mean())
