"""Prompts of random tokens for Wan 2.2 at its published shape. A benchmark file like a user's. Answers are digests, so
that encoding videos is not measured."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.backends import Outputs
from harness.benchmarks import keep_checkpoint as build_model

SYNTHETIC = True
RESPONSE_DTYPE = "uint8"
PIPELINE = {"steps": 20, "guidance": 4.0, "guidance_2": 3.0, "boundary": 0.875}
LENGTH, END = 512, 1
NAMES = ("input_ids", "attention_mask")


def build_dataset(_source: object, settings: Mapping[str, Any], output: Path, _counter: object) -> None:
    """Settings: count, words (of the vocabulary), latents (their shape)."""
    rng = np.random.default_rng(1)
    for name, rows in zip(NAMES, draw_tokens(rng, settings["count"], settings["words"]), strict=True):
        np.save(output / f"{name}.npy", rows)
    against: dict[str, Any] = dict(zip(NAMES, draw_tokens(rng, 1, settings["words"]), strict=True))
    np.savez(output / "negative.npz", **against)
    np.save(output / "latents.npy", rng.standard_normal(settings["latents"], np.float32))


def draw_tokens(rng: np.random.Generator, count: int, words: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw tokens like those of prompts: about a dozen words and the end token."""
    ids, mask = np.zeros((count, LENGTH), np.int64), np.zeros((count, LENGTH), np.int64)
    for row, belongs in zip(ids, mask, strict=True):
        length = int(rng.integers(6, 20))
        row[:length] = rng.integers(3, words, length)
        row[length] = END
        belongs[: length + 1] = 1
    return ids, mask


def load_samples(dataset: Path) -> Mapping[str, np.ndarray]:
    return {name: np.load(dataset / f"{name}.npy") for name in NAMES}


def load_shared(dataset: Path) -> Mapping[str, np.ndarray]:
    against = np.load(dataset / "negative.npz")
    return {"latents": np.load(dataset / "latents.npy"), **{f"negative_{name}": against[name] for name in NAMES}}


def postprocess(outputs: Outputs) -> np.ndarray:
    return np.stack([np.frombuffer(hashlib.sha256(video.data).digest(), np.uint8) for video in outputs[0]])


__all__ = ["PIPELINE", "RESPONSE_DTYPE", "SYNTHETIC", "build_dataset", "build_model", "load_samples", "load_shared"]
