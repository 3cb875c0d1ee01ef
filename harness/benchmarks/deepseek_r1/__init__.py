"""DeepSeek-R1 reasons about mathematics, science and programs: right answers, and tokens on average.

Facts that planning needs are in ``benchmark.yaml``. Prompts come with the chat template around them. Programs have to
be run to be judged, and formulas simplified: where the dataset has any, as the published one has, the official script
scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.benchmarks.accuracy import AnswerLog, write_scores
from harness.benchmarks.language.prompt_sets import PromptSet, build_prompt_set, load_references
from harness.benchmarks.language.prompts import load_prompts as load_samples
from harness.benchmarks.language.reasoning import (
    AnswerJudge,
    choose_judge,
    find_last_letter,
    find_whole_number,
    leave_to_script,
)
from harness.benchmarks.language.scoring import RESPONSE_DTYPE, count_mean_tokens, read_texts

TOKENS = True
GENERATION = {"min_new_tokens": 1, "max_new_tokens": 20_000}
PUBLISHED = PromptSet(
    name="deepseek-r1",
    files=("mlperf_deepseek_r1_dataset_4388_fp8_eval.pkl",),
    samples=4388,
    vocabulary=129_280,
    longest=3140,  # 3,136 of a question, and four of the template
    references=("dataset", "ground_truth"),
    numeric=frozenset({"ground_truth"}),
    checkpoints=("DeepSeek-R1", "deepseek-r1"),
    sentences=False,
)
JUDGES: Mapping[str, AnswerJudge] = {
    "gpqa": AnswerJudge(partial(find_last_letter, last="D"), "ABCD"),
    "mmlu_pro": AnswerJudge(partial(find_last_letter, last="J"), "ABCDEFGHIJ"),
    "aime": AnswerJudge(find_whole_number),
}

build_dataset = partial(build_prompt_set, PUBLISHED)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """As eval_accuracy.py of language/deepseek-r1, of sets without programs and formulas."""
    references = load_references(dataset)
    indices = log.indices.tolist()
    names = [references["dataset"][index] for index in indices]
    leave_to_script(names)
    texts = read_texts(log, dataset, cleans=False)
    wanted = [references["ground_truth"][index] for index in indices]
    right = sum(
        choose_judge(JUDGES, name).is_right(text, answer)
        for name, text, answer in zip(names, texts, wanted, strict=True)
    )
    scores = {"exact_match": 100.0 * right / len(indices), "tokens_per_sample": count_mean_tokens(log)}
    return write_scores({**scores, "num-samples": len(indices)}, output)


__all__ = ["GENERATION", "PUBLISHED", "RESPONSE_DTYPE", "TOKENS", "build_dataset", "load_samples", "score"]
