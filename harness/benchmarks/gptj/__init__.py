"""GPT-J summarizes news of CNN and the Daily Mail: the ROUGE of its summaries.

Facts that planning needs are in ``benchmark.yaml``. Prompts are made of the articles here, token for token as the
reference makes them; an answer is the best of four beams.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.prompt_sets import PromptSet, build_prompt_set
from harness.benchmarks.language.prompts import load_prompts as load_samples
from harness.benchmarks.language.scoring import RESPONSE_DTYPE, score_summaries

TOKENS = True
GENERATION = {"min_new_tokens": 30, "max_new_tokens": 128, "beams": 4}
LONGEST = 1919  # tokens; what is behind them of a longer prompt is cut off
# The words of the reference's prompt, which every submission sends (language/gpt-j/dataset.py).
_PROMPT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
)


def encode(tokenizer: Tokenizer, row: Mapping[str, Any]) -> list[int]:
    tokens: list[int] = tokenizer.encode(_PROMPT.format_map(row)).ids
    return tokens[:LONGEST]


PUBLISHED = PromptSet(
    name="gptj",
    files=("cnn_eval.json",),
    samples=13368,
    vocabulary=50_400,
    longest=LONGEST,
    asked=("instruction", "input"),
    encode=encode,
    references=("output",),
    checkpoints=("gpt-j/checkpoint-final", "GPTJ-6B/checkpoint-final", "gpt-j-6b"),
)

build_dataset = partial(build_prompt_set, PUBLISHED)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """As evaluation.py of language/gpt-j, whose tokenizer takes blanks before signs away."""
    return score_summaries(log, dataset, output, reference="output", cleans=True, quoted=True)


__all__ = ["GENERATION", "PUBLISHED", "RESPONSE_DTYPE", "TOKENS", "build_dataset", "load_samples", "score"]
