"""Whisper large v3 on LibriSpeech: what people say, by word error rate.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder: ``librispeech``; the score: ``scoring``. Any
backend that transcribes gives the text, which is logged letter by letter as the reference does.
"""

from __future__ import annotations

from harness.benchmarks.whisper.letters import write_text
from harness.benchmarks.whisper.librispeech import build_dataset, load_samples
from harness.benchmarks.whisper.scoring import score

TOKENS = True
RESPONSE_DTYPE = "int64"
GENERATION = {"min_new_tokens": 1, "max_new_tokens": 200}

__all__ = ["GENERATION", "RESPONSE_DTYPE", "TOKENS", "build_dataset", "load_samples", "score", "write_text"]
