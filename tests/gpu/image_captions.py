"""Captions of random tokens for Stable Diffusion XL at its published shape. A benchmark file like a user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.backends import Outputs
from harness.benchmarks import keep_checkpoint as build_model

SYNTHETIC = True
RESPONSE_DTYPE = "uint8"
PIPELINE = {"steps": 20, "guidance": 8.0}
LENGTH, WORDS, BEGIN, END = 77, 49_406, 49_406, 49_407
NAMES = ("input_ids", "input_ids_2")


def build_dataset(_source: object, settings: Mapping[str, Any], output: Path, _counter: object) -> None:
    """Settings: count, side (pixels)."""
    rng = np.random.default_rng(1)
    np.save(output / "input_ids.npy", draw_tokens(rng, settings["count"]))
    np.save(output / "negative.npy", draw_tokens(rng, 1))
    side = settings["side"] // 8
    np.save(output / "latents.npy", rng.standard_normal((1, 4, side, side), np.float32))


def draw_tokens(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw tokens like those of captions: about a dozen words between the start and end tokens, padded with end
    tokens."""
    rows = np.full((count, LENGTH), END, np.int64)
    rows[:, 0] = BEGIN
    for row in rows:
        words = int(rng.integers(8, 16))
        row[1 : 1 + words] = rng.integers(1000, WORDS, words)
    return rows


def load_samples(dataset: Path) -> Mapping[str, np.ndarray]:
    rows = np.load(dataset / "input_ids.npy")
    return dict.fromkeys(NAMES, rows)


def load_shared(dataset: Path) -> Mapping[str, np.ndarray]:
    against = np.load(dataset / "negative.npy")
    return {"latents": np.load(dataset / "latents.npy"), **{f"negative_{name}": against for name in NAMES}}


def postprocess(outputs: Outputs) -> np.ndarray:
    return outputs[0].reshape(len(outputs[0]), -1)


__all__ = ["PIPELINE", "RESPONSE_DTYPE", "SYNTHETIC", "build_dataset", "build_model", "load_samples", "load_shared"]
