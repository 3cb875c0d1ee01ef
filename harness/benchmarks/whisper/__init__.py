"""Whisper large v3 on LibriSpeech: what people say, by word error rate.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder: ``librispeech``; the score: ``scoring``. Any
backend that transcribes gives the text, which is logged letter by letter as the reference does.
"""

from __future__ import annotations

from harness.benchmarks import TokenBenchmark
from harness.benchmarks.whisper.letters import write_text
from harness.benchmarks.whisper.librispeech import build_dataset, load_samples
from harness.benchmarks.whisper.scoring import score


class Whisper(TokenBenchmark):
    response_dtype = "int64"
    generation = {"min_new_tokens": 1, "max_new_tokens": 200}
    build_dataset = staticmethod(build_dataset)
    load_samples = staticmethod(load_samples)
    write_text = staticmethod(write_text)
    score = staticmethod(score)


BENCHMARK = Whisper()
