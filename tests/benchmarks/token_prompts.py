"""A benchmark that consists only of prompts, drawn from a seed, for engines whose answers are not scored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.language.prompt_sets import load_prompts, write_prompts

TOKENS = True
COUNT, WORDS, SHORTEST, LONGEST = 192, 256, 12, 40


def build_dataset(_source: object, _settings: Mapping[str, Any], output: Path, _counter: object) -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(SHORTEST, LONGEST + 1, COUNT)
    write_prompts(output, [rng.integers(8, WORDS, length).tolist() for length in lengths])


load_samples = load_prompts
