"""Samples for image and video pipelines: the tokens of each sample, and the data that all samples share.

All images or videos start from the same latents and have the same negative prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks import TensorBenchmark, keep_checkpoint
from harness.errors import HarnessError

_LATENTS, _AGAINST = "latents.npy", "negative.npz"


def save_shared(output: Path, latents: NDArray[np.float32], against: Mapping[str, Any]) -> None:
    """Save the shared data. ``against``: the tokens of the negative prompt, named like the samples' tokens."""
    np.savez(output / _AGAINST, **against)
    np.save(output / _LATENTS, latents)


def find_file(folder: Path, names: Sequence[str], fix: str) -> Path:
    """Find the first existing file. Raises HarnessError naming the usual one."""
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise HarnessError(f"{folder} has no {names[0]}", "missing", fix)
    return found


class PipelineBenchmark(TensorBenchmark):
    """A benchmark whose checkpoint is a pipeline. ``tokens``: names of the samples' tokens."""

    response_dtype = "uint8"
    tokens: ClassVar[Sequence[str]]
    build_model = staticmethod(keep_checkpoint)

    def load_samples(self, dataset: Path, /) -> Mapping[str, Any]:
        return {name: np.load(dataset / f"{name}.npy", mmap_mode="r") for name in self.tokens}

    def load_shared(self, dataset: Path, /) -> Mapping[str, np.ndarray]:
        """Load "latents", which begin with an axis of 1, and "negative_…" for each token name."""
        against = np.load(dataset / _AGAINST)
        return {"latents": np.load(dataset / _LATENTS), **{f"negative_{name}": against[name] for name in self.tokens}}
