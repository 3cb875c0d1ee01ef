"""Mixtral 8x7B answers questions of OpenOrca (ROUGE) and GSM8K (numbers), and writes programs (MBXP).

Facts that planning needs are in ``benchmark.yaml``. Programs have to be run to be judged, in a sandbox: where the
dataset has any, as the published one has, the official script scores. As in the reference (postProcess of
language/mixtral-8x7b/dataset.py), a program ends with the fence behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.exact import is_right_number
from harness.benchmarks.language.prompt_sets import PromptSet, build_prompt_set, load_references
from harness.benchmarks.language.prompts import load_prompts as load_samples
from harness.benchmarks.language.scoring import RESPONSE_DTYPE, read_texts, refuse_programs, score_mixed
from harness.benchmarks.language.texts import load_sentence_splitter

TOKENS = True
_FENCE = ("\n```\n", (13, 13940, 28832, 13))
GENERATION = {"min_new_tokens": 2, "max_new_tokens": 1024, "stop_sequences": (_FENCE,)}
PUBLISHED = PromptSet(
    name="mixtral-8x7b",
    files=("09292024_mixtral_15k_mintoken2_v1.pkl",),
    samples=15_000,
    vocabulary=32_000,
    references=("dataset", "gt_output"),
    numeric=frozenset({"gt_output"}),
    stops={"MBXP": 1},
    checkpoints=("Mixtral-8x7B-Instruct-v0.1", "mixtral/mixtral-8x7b-instruct-v0.1"),
)

build_dataset = partial(build_prompt_set, PUBLISHED)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """As evaluate-accuracy.py of language/mixtral-8x7b, of sets without programs."""
    references = load_references(dataset)
    kinds = [references["dataset"][index] for index in log.indices.tolist()]
    refuse_programs("MBXP" in kinds, "MBXP")
    wanted = [references["gt_output"][index] for index in log.indices.tolist()]
    texts = read_texts(log, dataset, cleans=False)
    summaries = [place for place, kind in enumerate(kinds) if kind == "OpenOrca"]
    numbers = [place for place, kind in enumerate(kinds) if kind == "GSM8K"]
    right = sum(is_right_number(texts[place], wanted[place]) for place in numbers)
    exact = {"gsm8k": 100.0 * right / max(1, len(numbers)), "mbxp": 0}
    split = load_sentence_splitter(dataset)
    return score_mixed(log, _pick(texts, summaries), _pick(wanted, summaries), split, exact, output)


def _pick(texts: Sequence[Any], places: Sequence[int]) -> list[str]:
    return [str(texts[place]) for place in places]


__all__ = ["GENERATION", "PUBLISHED", "RESPONSE_DTYPE", "TOKENS", "build_dataset", "load_samples", "score"]
