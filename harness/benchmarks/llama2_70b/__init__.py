"""Llama 2 70B answers questions of OpenOrca: the ROUGE of its answers.

Facts that planning needs are in ``benchmark.yaml``. Prompts come as a pickled frame with their token ids; each ends
with token 29871, with which the model would begin every answer.
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
GENERATION = {"min_new_tokens": 1, "max_new_tokens": 1024}
PUBLISHED = PromptSet(
    name="llama2-70b",
    files=("open_orca_gpt4_tokenized_llama.sampled_24576.pkl", "processed-data.pkl"),
    samples=24576,
    vocabulary=32_000,
    longest=1024,
    references=("output",),
    checkpoints=("Llama-2-70b-chat-hf", "Llama2/Llama-2-70b-chat-hf"),
)

build_dataset = partial(build_prompt_set, PUBLISHED)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """As evaluate-accuracy.py of language/llama2-70b."""
    return score_summaries(log, dataset, output, reference="output", cleans=False)


__all__ = ["GENERATION", "PUBLISHED", "RESPONSE_DTYPE", "TOKENS", "build_dataset", "load_samples", "score"]
