"""MLPerf's language benchmarks: their published files, the default sampling if a round defines none, and the scoring of
the official scripts.

Facts for planning are in ``../NAME/benchmark.yaml``; ``rehearsing`` generates rows for a rehearsal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from harness.benchmarks import Metrics, Settings, TokenBenchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.language.prompt_sets import PromptSet, build_prompt_set, load_prompts
from harness.benchmarks.language.scoring import (
    score_long_texts,
    score_mixed,
    score_reasoning,
    score_repeated_questions,
    score_summaries,
)
from harness.benchmarks.sources import require_source
from harness.contract import Counter
from harness.run.qsl import Arrays

_PERFORMANCE = "performance"  # folder for performance run prompts in a prepared dataset


class LanguageBenchmark(TokenBenchmark):
    """A benchmark with prompts as token ids, and reference texts for the answers.

    ``published``: the prompts of accuracy runs. ``performed``: those of performance runs, if different. ``compliance``:
    those of a compliance test; a spec then names their file. ``score``: scores an accuracy log, given a dataset and a
    folder.
    """

    load_samples = staticmethod(load_prompts)

    def __init__(
        self,
        published: PromptSet,
        generation: Mapping[str, Any],
        score: Callable[[AnswerLog, Path, Path], Metrics],
        *,
        performed: PromptSet | None = None,
        compliance: PromptSet | None = None,
    ) -> None:
        self.published, self.performed, self.compliance = published, performed, compliance
        self.generation = generation
        self._score = score

    def build_dataset(self, source: Path | None, settings: Settings, output: Path, counter: Counter, /) -> None:
        """Write the prompts of accuracy runs, and those of performance runs in a separate folder. ``settings``: as for
        ``build_prompt_set``."""
        source = require_source(source, self.published.within or self.published.files[0])
        if self.compliance is not None and source.is_file():
            build_prompt_set(self.compliance, source, settings, output, counter)
            return
        build_prompt_set(self.published, source, settings, output, counter)
        if self.performed is not None:
            (output / _PERFORMANCE).mkdir()
            build_prompt_set(self.performed, source, settings, output / _PERFORMANCE, counter)

    def load_performance_samples(self, dataset: Path, /) -> Arrays:
        own = dataset / _PERFORMANCE
        return load_prompts(own if own.is_dir() else dataset)

    def score(self, log: AnswerLog, dataset: Path, output: Path, /) -> Metrics:
        return self._score(log, dataset, output)

    def write_rehearsal(
        self, data: Path, models: Path, /, *, count: int, seed: int, size: str, counter: Counter
    ) -> None:
        from harness.benchmarks.language.rehearsing import write_rehearsal

        sets = [found for found in (self.published, self.performed, self.compliance) if found is not None]
        write_rehearsal(self.name, sets, data, models, count=count, seed=seed, size=size, counter=counter)


_LONGEST_ARTICLE = 1919  # tokens; longer prompts are truncated
# The text of the reference's prompt, which every submission sends (language/gpt-j/dataset.py).
_ARTICLE_PROMPT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:"
)


def _encode_article(tokenizer: Tokenizer, row: Mapping[str, Any]) -> list[int]:
    """Encode exactly as the reference does."""
    tokens: list[int] = tokenizer.encode(_ARTICLE_PROMPT.format_map(row)).ids
    return tokens[:_LONGEST_ARTICLE]


_LLAMA_8B = PromptSet(
    name="llama3.1-8b",
    files=("cnn_eval.json",),
    samples=13368,
    vocabulary=128_256,
    references=("output",),
    checkpoints=("Llama-3.1-8B-Instruct", "Meta-Llama-3.1-8B-Instruct", "Llama3.1-8B/Meta-Llama-3.1-8B-Instruct"),
)
_LLAMA_8B_GENERATION = {"min_new_tokens": 1, "max_new_tokens": 128}
# As in evaluation.py of language/gpt-j and language/llama3.1-8b, where the tokenizers remove blanks before punctuation.
_SCORE_NEWS = partial(score_summaries, cleans=True, quoted=True)

_GPT_OSS = PromptSet(
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

BENCHMARKS: Mapping[str, LanguageBenchmark] = {
    # Summaries of news from CNN and the Daily Mail. An answer is the best of four beams.
    "gptj": LanguageBenchmark(
        PromptSet(
            name="gptj",
            files=("cnn_eval.json",),
            samples=13368,
            vocabulary=50_400,
            longest=_LONGEST_ARTICLE,
            asked=("instruction", "input"),
            encode=_encode_article,
            references=("output",),
            checkpoints=("gpt-j/checkpoint-final", "GPTJ-6B/checkpoint-final", "gpt-j-6b"),
        ),
        {"min_new_tokens": 30, "max_new_tokens": 128, "beams": 4},
        _SCORE_NEWS,
    ),
    "llama3_1_8b": LanguageBenchmark(_LLAMA_8B, _LLAMA_8B_GENERATION, _SCORE_NEWS),
    "llama3_1_8b_edge": LanguageBenchmark(
        replace(
            _LLAMA_8B, name="llama3.1-8b-edge", files=("sample_cnn_eval_5000.json", "cnn_eval_5000.json"), samples=5000
        ),
        _LLAMA_8B_GENERATION,
        _SCORE_NEWS,
    ),
    # OpenOrca's questions. Each prompt ends with token 29871, since the model would otherwise begin every answer with
    # it.
    "llama2_70b": LanguageBenchmark(
        PromptSet(
            name="llama2-70b",
            files=("open_orca_gpt4_tokenized_llama.sampled_24576.pkl", "processed-data.pkl"),
            samples=24576,
            vocabulary=32_000,
            longest=1024,
            references=("output",),
            checkpoints=("Llama-2-70b-chat-hf", "Llama2/Llama-2-70b-chat-hf"),
        ),
        {"min_new_tokens": 1, "max_new_tokens": 1024},
        partial(score_summaries, cleans=False),  # as in evaluate-accuracy.py of language/llama2-70b
    ),
    # Questions from OpenOrca and GSM8K, and programs (MBXP). As in the reference (postProcess of
    # language/mixtral-8x7b/dataset.py), a program ends with the fence after it.
    "mixtral_8x7b": LanguageBenchmark(
        PromptSet(
            name="mixtral-8x7b",
            files=("09292024_mixtral_15k_mintoken2_v1.pkl",),
            samples=15_000,
            vocabulary=32_000,
            references=("dataset", "gt_output"),
            numeric=frozenset({"gt_output"}),
            stops={"MBXP": 1},
            checkpoints=("Mixtral-8x7B-Instruct-v0.1", "mixtral/mixtral-8x7b-instruct-v0.1"),
        ),
        {"min_new_tokens": 2, "max_new_tokens": 1024, "stop_sequences": (("\n```\n", (13, 13940, 28832, 13)),)},
        score_mixed,
    ),
    # Questions about long texts. Each prompt names its answer's metric.
    "llama3_1_405b": LanguageBenchmark(
        PromptSet(
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
        ),
        {"min_new_tokens": 2, "max_new_tokens": 20_000},
        score_long_texts,
    ),
    # Mathematics, science and programs. Prompts include the chat template.
    "deepseek_r1": LanguageBenchmark(
        PromptSet(
            name="deepseek-r1",
            files=("mlperf_deepseek_r1_dataset_4388_fp8_eval.pkl",),
            samples=4388,
            vocabulary=129_280,
            longest=3140,  # 3,136 for a question, and four for the template
            references=("dataset", "ground_truth"),
            numeric=frozenset({"ground_truth"}),
            checkpoints=("DeepSeek-R1", "deepseek-r1"),
            sentences=False,
        ),
        {"min_new_tokens": 1, "max_new_tokens": 20_000},
        score_reasoning,
    ),
    # The same with longer answers. There is no seed, since each question is repeated and each answer counts.
    "gpt_oss_120b": LanguageBenchmark(
        _GPT_OSS,
        {"min_new_tokens": 1, "max_new_tokens": 32_768, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "seed": -1},
        score_repeated_questions,
        performed=replace(
            _GPT_OSS, files=("perf_eval_ref.parquet", "perf_eval_ref.pkl"), within="perf", samples=6396, references=()
        ),
        compliance=replace(
            _GPT_OSS, files=("acc_eval_compliance_gpqa.parquet", "acc_eval_compliance_gpqa.pkl"), samples=990
        ),
    ),
}
