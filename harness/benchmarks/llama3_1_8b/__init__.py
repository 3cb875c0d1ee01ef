"""Llama 3.1 8B summarizes news of CNN and the Daily Mail: the ROUGE of its summaries.

Facts that planning needs are in ``benchmark.yaml``. Prompts come with their token ids, with the instruction around
each article: ``language.prompt_sets``; what is scored: ``language.scoring``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.prompt_sets import PromptSet, build_prompt_set
from harness.benchmarks.language.prompts import load_prompts as load_samples
from harness.benchmarks.language.scoring import RESPONSE_DTYPE, score_summaries

TOKENS = True
GENERATION = {"min_new_tokens": 1, "max_new_tokens": 128}
PUBLISHED = PromptSet(
    name="llama3.1-8b",
    files=("cnn_eval.json",),
    samples=13368,
    vocabulary=128_256,
    references=("output",),
    checkpoints=("Llama-3.1-8B-Instruct", "Meta-Llama-3.1-8B-Instruct", "Llama3.1-8B/Meta-Llama-3.1-8B-Instruct"),
)

build_dataset = partial(build_prompt_set, PUBLISHED)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """As evaluation.py of language/llama3.1-8b: the checkpoint asks for blanks before signs to go."""
    return score_summaries(log, dataset, output, reference="output", cleans=True, quoted=True)


__all__ = [
    "GENERATION",
    "PUBLISHED",
    "RESPONSE_DTYPE",
    "TOKENS",
    "build_dataset",
    "load_samples",
    "score",
]
