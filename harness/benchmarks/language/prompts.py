"""Prompts as a prepared dataset holds them: rows of token ids of any length, one after the other in one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import HarnessError
from harness.run.qsl import Arrays, Ragged
from harness.run.tokens import PROMPTS, STOP_SEQUENCE

_TOKENS, _ENDS, _STOPS = "prompts.npy", "prompt_ends.npy", "stop_sequences.npy"


def write_prompts(output: Path, prompts: Sequence[Sequence[int]], stops: Sequence[int] = ()) -> None:
    """``stops``: ``STOP_SEQUENCE`` of each. Raises HarnessError for an empty prompt: no server answers one."""
    lengths = [len(prompt) for prompt in prompts]
    if not lengths or 0 in lengths:
        where = f"prompt {lengths.index(0)} is empty" if lengths else "there is no prompt"
        raise HarnessError(where, "input", "see the file of the dataset")
    np.save(output / _TOKENS, np.concatenate([np.asarray(prompt, np.int32) for prompt in prompts]))
    np.save(output / _ENDS, np.cumsum(lengths))
    if any(stops):
        np.save(output / _STOPS, np.array(stops, np.int8))


def load_prompts(dataset: Path) -> Arrays:
    """Load the samples of a run: views of a memory map."""
    tokens = np.load(dataset / _TOKENS, mmap_mode="r")
    ends = np.load(dataset / _ENDS).tolist()
    found: dict[str, Any] = {PROMPTS: Ragged([tokens[start:end] for start, end in zip([0, *ends], ends, strict=False)])}
    if (path := dataset / _STOPS).is_file():
        found[STOP_SEQUENCE] = np.load(path)
    return found


def draw_lengths(rng: np.random.Generator, count: int, mean: int, longest: int) -> list[int]:
    """Many short ones and a few long ones, as published prompts are: logarithms are spread evenly around."""
    spread = 0.6
    drawn = rng.lognormal(np.log(mean) - spread**2 / 2, spread, count)
    found: list[int] = np.clip(drawn, 4, longest).astype(int).tolist()
    return found
