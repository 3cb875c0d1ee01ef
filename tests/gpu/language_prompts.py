"""Prompts of random tokens with the lengths of a dataset. A benchmark file like a user's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.language.prompt_sets import draw_lengths, load_prompts, write_prompts

TOKENS = True


def build_dataset(_source: object, settings: Mapping[str, Any], output: Path, _counter: object) -> None:
    """Settings: count, mean, longest (tokens), words (of the vocabulary)."""
    rng = np.random.default_rng(1)
    lengths = draw_lengths(rng, settings["count"], settings["mean"], settings["longest"])
    write_prompts(output, [rng.integers(8, settings["words"], length).tolist() for length in lengths])


load_samples = load_prompts
