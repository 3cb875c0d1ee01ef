"""Qwen3-VL 235B says of a product, by its picture and its texts, which category it is of, of which brand, and whether
it is second-hand: the hierarchical F1 of the categories.

A server of the chat protocol is asked, and its answer is logged as the reference logs it: the bytes of its text.
"""

from __future__ import annotations

from harness.benchmarks import TokenBenchmark
from harness.benchmarks.qwen3_vl.catalogue import build_dataset, load_samples
from harness.benchmarks.qwen3_vl.scoring import score, write_text


class Qwen3Vl(TokenBenchmark):
    response_dtype = "uint8"
    # From generation_config.json of the checkpoint, which the reference leaves the choice of tokens to; anything it
    # does not name (penalties, min_p) is neutral. An answer ends where the model ends it.
    generation = {"max_new_tokens": 0, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "seed": -1}
    build_dataset = staticmethod(build_dataset)
    load_samples = staticmethod(load_samples)
    write_text = staticmethod(write_text)
    score = staticmethod(score)


BENCHMARK = Qwen3Vl()
