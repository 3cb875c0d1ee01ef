"""Measure the overhead of LoadGen and the harness over an engine of tokens: ``python -m tests.benchmarks.tokens
[--json] [--rounds N]``.

Offline samples/s of a LoadGen run relative to a plain loop of the same library with the same prompts, 16 tokens each,
and the same for samples per second of processor time, which is more reliable on a shared machine:

- openvino-genai: a small network with random weights.
- vllm: a small Llama with random weights, if vLLM is installed.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.contract import Benchmark
from tests.benchmarks import token_prompts
from tests.benchmarks.children import bare, build, run
from tests.benchmarks.rounds import Measure, compare, run_parts
from tests.passes.llama import draw_weights, write_checkpoint

REPEATS = 8  # of each prompt
COUNT, LENGTH = REPEATS * token_prompts.COUNT, 16
GOAL = 0.95
PROMPTS = Benchmark(name="token_prompts", path=token_prompts.__file__)


def measure(folder: Path, backend: str, model: Path, rounds: int, **settings: Any) -> list[Measure]:
    dataset = build(folder, "Dataset", PROMPTS)
    busy: dict[str, list[float]] = {"bare": [], "harness": []}  # seconds of processor time for each sample

    def alone() -> float:
        reported = {"model": str(model), "dataset": str(dataset), "repeats": REPEATS, "tokens": LENGTH, **settings}
        found = bare(backend.replace("-", "_"), reported, folder)
        busy["bare"].append(found["busy"])
        return float(found["rate"])

    def harness() -> float:
        log = run(
            folder,
            "Offline",
            benchmark=PROMPTS,
            backend=backend,
            dataset=dataset,
            model=model,
            model_key="llama3_1-8b",
            conf={"min_duration": 0, "min_query_count": COUNT, "target_qps": 1},
            settings={"precision": "fp32", "min_new_tokens": LENGTH, "max_new_tokens": LENGTH, **settings},
        )
        busy["harness"].append(log["telemetry.processor_seconds"] / COUNT)
        return float(log["result_samples_per_second"])

    offline = compare(f"Offline, {backend}", {"bare": alone, "harness": harness}, rounds, GOAL)
    own, ours = (statistics.median(busy[name]) for name in ("bare", "harness"))
    detail = f"bare {own * 1e6:,.0f}, harness {ours * 1e6:,.0f} µs for each sample"
    return [offline, Measure(f"processor time, {backend}", own / ours, GOAL, detail=detail)]


def measure_openvino(folder: Path, rounds: int) -> list[Measure]:
    from harness.benchmarks.language.rehearsing import DecoderShape, write_decoder

    model = folder / "decoder"
    model.mkdir()
    write_decoder(DecoderShape(vocabulary=token_prompts.WORDS), model, np.random.default_rng(1), end=0)
    return measure(folder, "openvino-genai", model, rounds)


def measure_vllm(folder: Path, rounds: int) -> list[Measure]:
    if importlib.util.find_spec("vllm") is None:
        return []
    write_checkpoint(folder / "llama", draw_weights(), end=7)
    offline, _ = measure(folder, "vllm", folder / "llama", rounds, graphs=False)
    return [offline]  # a run reports its own process, and vLLM computes in another


PARTS: dict[str, Callable[[Path, int], list[Measure]]] = {"openvino-genai": measure_openvino, "vllm": measure_vllm}


if __name__ == "__main__":
    sys.exit(run_parts("tokens", __doc__ or "", PARTS))
