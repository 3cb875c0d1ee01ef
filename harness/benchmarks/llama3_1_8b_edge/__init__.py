"""Llama 3.1 8B summarizes news on an edge system: 5,000 of the articles of ``llama3_1_8b``, scored alike.

Facts that planning needs are in ``benchmark.yaml``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from harness.benchmarks.language.prompt_sets import build_prompt_set
from harness.benchmarks.llama3_1_8b import (
    GENERATION,
    RESPONSE_DTYPE,
    TOKENS,
    load_samples,
    score,
)
from harness.benchmarks.llama3_1_8b import PUBLISHED as WHOLE

PUBLISHED = replace(
    WHOLE, name="llama3.1-8b-edge", files=("sample_cnn_eval_5000.json", "cnn_eval_5000.json"), samples=5000
)

build_dataset = partial(build_prompt_set, PUBLISHED)

__all__ = [
    "GENERATION",
    "PUBLISHED",
    "RESPONSE_DTYPE",
    "TOKENS",
    "build_dataset",
    "load_samples",
    "score",
]
