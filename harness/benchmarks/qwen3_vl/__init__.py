"""Qwen3-VL 235B determines a product's category, its brand and whether it is second-hand, from its picture and texts;
the score is the hierarchical F1 of the categories.

Prompts go to a server with the chat protocol, and answers are logged as in the reference: the bytes of their text.
"""

from __future__ import annotations

from harness.benchmarks import TokenBenchmark
from harness.benchmarks.qwen3_vl.catalogue import build_dataset, load_samples
from harness.benchmarks.qwen3_vl.scoring import score, write_text


class Qwen3Vl(TokenBenchmark):
    response_dtype = "uint8"
    # From the checkpoint's generation_config.json, to which the reference leaves the sampling; settings missing there
    # (penalties, min_p) are neutral. The model decides where an answer ends.
    generation = {"max_new_tokens": 0, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "seed": -1}
    build_dataset = staticmethod(build_dataset)
    load_samples = staticmethod(load_samples)
    write_text = staticmethod(write_text)
    score = staticmethod(score)


BENCHMARK = Qwen3Vl()
