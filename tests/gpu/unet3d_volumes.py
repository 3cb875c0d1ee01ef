"""The sliding window of 3D-UNet over volumes as large as KiTS19's, with the network of tests.gpu.unet3d.

Volumes contain noise and have the sizes of the benchmark's 43 cases after preprocessing, computed from the shapes and
spacings in the headers of KiTS19's published labels. A benchmark file like a user's (see harness.benchmarks). Dataset
settings: dtype, volumes (number, from the smallest).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.unet3d import AT_ONCE, OUTPUTS, SIDE, STEP_THREADS, loop
from harness.run.qsl import Ragged
from tests.gpu.resnet import convert, save_samples
from tests.gpu.unet3d import CALIBRATION, build_model, score

SYNTHETIC = True
RESPONSE_DTYPE = "uint8"
REUSE_OUTPUTS = True
SIZES = {  # (depth, height and width) in units of 64: number of cases. One more is 128 x 192 x 320.
    (2, 5): 4, (2, 7): 1, (3, 5): 3, (3, 6): 8, (4, 4): 2, (4, 5): 3, (4, 7): 1, (5, 4): 1, (5, 5): 5, (5, 6): 4,
    (5, 7): 3, (6, 4): 1, (6, 5): 1, (6, 6): 2, (7, 5): 3,
}  # fmt: skip


def list_volumes() -> list[tuple[int, int, int]]:
    """List the cases' sizes, the smallest first."""
    square = [(depth * 64, side * 64, side * 64) for (depth, side), count in SIZES.items() for _ in range(count)]
    return sorted([(128, 192, 320), *square], key=np.prod)


VOLUMES = len(list_volumes())


def build_dataset(_source: Path | None, settings: Mapping[str, Any], output: Path, counter: Any) -> None:
    rng, dtype = np.random.default_rng(1), str(settings.get("dtype", "float32"))
    block = convert(rng.standard_normal((64, 64, 64), np.float32), dtype)
    for number, shape in enumerate(list_volumes()[: int(settings.get("volumes", VOLUMES))]):
        np.save(output / f"volume-{number:02}.npy", np.tile(block, [size // 64 for size in shape])[None])
        counter.bump(1)
    save_samples((16, 1, SIDE, SIDE, SIDE), settings, output, CALIBRATION)


def load_samples(dataset: Path) -> Mapping[str, Any]:
    return {"input": Ragged([np.load(path, mmap_mode="r") for path in sorted(dataset.glob("volume-*.npy"))])}


__all__ = [
    "AT_ONCE",
    "OUTPUTS",
    "RESPONSE_DTYPE",
    "REUSE_OUTPUTS",
    "STEP_THREADS",
    "SYNTHETIC",
    "build_dataset",
    "build_model",
    "load_samples",
    "loop",
    "score",
]
