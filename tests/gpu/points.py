"""Samples of 64 bytes, to measure the pipeline itself. A benchmark file like a user's (see harness.benchmarks)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

SYNTHETIC = True
COUNT = 65536


def build_dataset(_source: Path | None, _settings: Mapping[str, Any], output: Path, counter: Any) -> None:
    np.save(output / "samples.npy", np.random.default_rng(1).standard_normal((COUNT, 16), dtype=np.float32))
    np.save(output / "labels.npy", np.zeros(COUNT, np.int64))
    counter.bump(COUNT)


def postprocess(outputs: Any) -> np.ndarray:
    return outputs[0].astype(np.int32)
