"""Noise with the lengths of a dataset's utterances. A benchmark file like a user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.speech import load_waveforms
from harness.benchmarks.whisper import write_text as write_text
from harness.run.tokens import SOUND_RATE, SOUNDS

TOKENS = True
RESPONSE_DTYPE = "int64"


def build_dataset(_source: object, settings: Mapping[str, Any], output: Path, _counter: object) -> None:
    """Settings: count, seconds (per sound)."""
    count, length = settings["count"], round(settings["seconds"] * SOUND_RATE)
    noise = np.random.default_rng(1).standard_normal(count * length, np.float32)
    np.save(output / "samples.npy", (noise / 10).clip(-1, 1))
    np.save(output / "bounds.npy", np.arange(count + 1) * length)


def load_samples(dataset: Path) -> dict[str, Any]:
    return {SOUNDS: load_waveforms(dataset)}
