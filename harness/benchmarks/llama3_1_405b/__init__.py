"""Llama 3.1 405B answers questions about long texts: ROUGE-L of summaries, exact matches of needles and answers.

Facts that planning needs are in ``benchmark.yaml``. Each prompt names what its answer is judged by.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.exact import compare_any, compare_needles
from harness.benchmarks.language.prompt_sets import PromptSet, build_prompt_set, load_references
from harness.benchmarks.language.prompts import load_prompts as load_samples
from harness.benchmarks.language.scoring import RESPONSE_DTYPE, compare_longest, read_texts, write_counted
from harness.benchmarks.language.texts import load_sentence_splitter
from harness.errors import HarnessError

TOKENS = True
GENERATION = {"min_new_tokens": 2, "max_new_tokens": 20_000}
_METRICS = {"rouge": "rougeL", "niah_em": "exact_match", "qa_em": "exact_match"}  # of a prompt -> as it is printed
PUBLISHED = PromptSet(
    name="llama3.1-405b",
    files=("mlperf_llama3.1_405b_dataset_8313_processed_fp16_eval.pkl",),
    samples=8313,
    vocabulary=128_256,
    references=("gt_output", "metric"),
    checkpoints=(
        "Llama-3.1-405B-Instruct",
        "Meta-Llama-3.1-405B-Instruct",
        "Llama3.1-405B/Meta-Llama-3.1-405B-Instruct",
    ),
)

build_dataset = partial(build_prompt_set, PUBLISHED)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """As evaluate-accuracy.py of language/llama3.1-405b."""
    references = load_references(dataset)
    split = load_sentence_splitter(dataset)
    answers = [split(text.strip()) for text in read_texts(log, dataset, cleans=True)]
    judge = {"rouge": compare_longest, "niah_em": compare_needles, "qa_em": compare_any}
    found: dict[str, list[float]] = {}
    for index, answer in zip(log.indices.tolist(), answers, strict=True):
        metric, wanted = references["metric"][index], split(references["gt_output"][index].strip())
        if metric not in judge:
            raise HarnessError(f"sample {index} is judged by {metric!r}", "input", f"known are {', '.join(judge)}")
        found.setdefault(_METRICS[metric], []).append(judge[metric](answer, wanted))
    return write_counted(log, {name: float(np.mean(values)) for name, values in found.items()}, answers, output)


__all__ = ["GENERATION", "PUBLISHED", "RESPONSE_DTYPE", "TOKENS", "build_dataset", "load_samples", "score"]
