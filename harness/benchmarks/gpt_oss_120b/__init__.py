"""GPT-OSS 120B reasons about mathematics, science and programs: right answers, and tokens on average.

Facts that planning needs are in ``benchmark.yaml``. Accuracy and performance have prompts of their own, and TEST07 a
third set, which a spec names by its file. Programs have to be run to be judged: where a set has any, as that of the
published accuracy run has, the official script scores.
"""

from __future__ import annotations

from collections import Counter as CompletionCounter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.prompt_sets import PromptSet, build_prompt_set, load_references
from harness.benchmarks.language.prompts import load_prompts as load_samples
from harness.benchmarks.language.reasoning import (
    AnswerJudge,
    choose_judge,
    find_final_letter,
    find_whole_number,
    leave_to_script,
)
from harness.benchmarks.language.scoring import RESPONSE_DTYPE, count_mean_tokens, read_texts
from harness.benchmarks.sources import require_source
from harness.contract import Counter
from harness.run.qsl import Ragged

TOKENS = True
# Without a seed: the same question is asked several times, and each answer counts.
GENERATION = {"min_new_tokens": 1, "max_new_tokens": 32_768, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "seed": -1}
PERFORMANCE = "performance"  # the folder of the prompts of performance runs, in a prepared dataset
PUBLISHED = PromptSet(
    name="gpt-oss-120b",
    files=tuple(f"acc_eval_{name}.{kind}" for kind in ("parquet", "pkl") for name in ("ref", "tokenized", "inputs")),
    within="acc",
    samples=4395,
    vocabulary=201_088,
    also={"tok_input": "input_tokens"},
    references=("dataset", "ground_truth"),
    numeric=frozenset({"ground_truth"}),
    checkpoints=("gpt-oss-120b",),
    sentences=False,
)
COMPLIANCE = replace(PUBLISHED, files=("acc_eval_compliance_gpqa.parquet", "acc_eval_compliance_gpqa.pkl"), samples=990)
PERFORMED = replace(
    PUBLISHED, files=("perf_eval_ref.parquet", "perf_eval_ref.pkl"), within="perf", samples=6396, references=()
)
REPEATS = {"aime25": 8, "gpqa_diamond": 5, "livecodebench_v6": 3}  # times that a question of a set is asked
_LETTERS, _MORE = "ABCD", "ABCDEFGHIJ"
JUDGES: Mapping[str, AnswerJudge] = {
    "gpqa": AnswerJudge(partial(find_final_letter, last="D"), _LETTERS),
    "mmlu_pro": AnswerJudge(partial(find_final_letter, last="J"), _MORE),
    "aime": AnswerJudge(find_whole_number),
    "mmlu": AnswerJudge(partial(find_final_letter, last="J"), _MORE),
}


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """The prompts of accuracy runs, with those of performance runs in a folder of their own; of a file its prompts
    alone, which are TEST07's. ``settings``: as of ``build_prompt_set``."""
    source = require_source(source, "acc and perf")
    if source.is_file():
        build_prompt_set(COMPLIANCE, source, settings, output, counter)
        return
    build_prompt_set(PUBLISHED, source, settings, output, counter)
    (output / PERFORMANCE).mkdir()
    build_prompt_set(PERFORMED, source, settings, output / PERFORMANCE, counter)


def load_performance_samples(dataset: Path) -> Mapping[str, Ragged]:
    own = dataset / PERFORMANCE
    return load_samples(own if own.is_dir() else dataset)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """As eval_mlperf_accuracy.py of language/gpt-oss-120b, of sets without programs; and tokens on average, which it
    does not print and the rounds bound."""
    references = load_references(dataset)
    indices = log.indices.tolist()
    names = [references["dataset"][index].lower() for index in indices]
    leave_to_script(names)
    texts = read_texts(log, dataset, cleans=False, marks=True)
    wanted = [references["ground_truth"][index] for index in indices]
    asked = CompletionCounter(names)
    right = CompletionCounter(
        name
        for name, text, answer in zip(names, texts, wanted, strict=True)
        if choose_judge(JUDGES, name).is_right(text, answer)
    )
    points, most = (sum(tally[name] / REPEATS.get(name, 1) for name in sorted(asked)) for tally in (right, asked))
    found = {"exact_match": f"{points / most * 100:.3f}", "tokens_per_sample": count_mean_tokens(log)}
    lines = f"'exact_match': {found['exact_match']}\n{{'tokens_per_sample': {found['tokens_per_sample']}}}\n"
    (output / "accuracy.txt").write_text(lines, encoding="ascii")
    return {**found, "exact_match": float(str(found["exact_match"]))}


__all__ = [
    "GENERATION",
    "PUBLISHED",
    "RESPONSE_DTYPE",
    "TOKENS",
    "build_dataset",
    "load_performance_samples",
    "load_samples",
    "score",
]
