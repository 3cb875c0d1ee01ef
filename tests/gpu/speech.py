"""Measure Whisper through vLLM: ``python -m tests.gpu.speech [--size full] [--only PART,…] [--json FILE]``.

The published shape with random weights; noise of 29 s replaces utterances, which are packed to about that length, and
each transcript has 75 tokens, the mean of Red Hat's published result of v6.0 (36,396 tokens/s at 485.6 samples/s).

- whole: only LoadGen's Offline samples/s.
- offline: LoadGen's Offline samples/s through the ``vllm`` backend, relative to ``LLM.generate`` of the same sounds in
  one process before and one after it. Both encode each waveform again. The report also breaks down the time:
  ``hearing_seconds`` of processor time in ``listeners`` processes, ``hearing_span`` until the last sound was encoded,
  and ``answering_span`` until the last was answered. At most twice ``sequences`` sounds are encoded but not answered,
  so if the engine is slower, both spans are nearly equal while hearing_seconds / listeners is short.

``--size small`` runs on any machine.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from harness.contract import Benchmark
from tests.benchmarks.children import bare, build, run
from tests.gpu import speech_sounds
from tests.gpu.cases import WORK
from tests.gpu.parts import Figures, add_options, measure_parts
from tests.speech_checkpoints import MARKS, PROMPT, write_checkpoint

LENGTH = 75  # tokens of a transcript


@dataclass(frozen=True)
class SpeechSize:
    """``layers``: of the encoder and of the decoder; ``engine``: options of the backend."""

    width: int
    heads: int
    layers: int
    words: int
    count: int
    seconds: float
    engine: Figures = field(default_factory=dict)


SIZES = {
    "full": SpeechSize(1280, 20, 32, 51_866, 1200, 29.0, {"precision": "bf16", "sequences": 256, "memory_percent": 85}),
    "small": SpeechSize(64, 2, 1, 600, 24, 5.0, {"precision": "fp32", "sequences": 8, "graphs": False}),
}
STAGES = [f"backend.{name}" for name in ("listeners", "sounds_heard", "hearing_seconds", "hearing_span")]
DTYPES = {"bf16": "bfloat16", "fp32": "float32"}


class SpeechCase:
    def __init__(self, name: str, count: int, queries: int) -> None:
        self.size = replace(SIZES[name], count=count or SIZES[name].count)
        self.queries = queries or self.size.count
        self.folder = WORK / f"speech-{name}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.benchmark = Benchmark(name="gpu_speech", path=speech_sounds.__file__)

    @cached_property
    def dataset(self) -> Path:
        return build(
            self.folder, "Dataset", self.benchmark, settings={"count": self.size.count, "seconds": self.size.seconds}
        )

    @cached_property
    def model(self) -> Path:
        size = self.size
        shape = {"d_model": size.width, "vocab_size": size.words}
        for part in ("encoder", "decoder"):
            shape |= {f"{part}_layers": size.layers, f"{part}_attention_heads": size.heads}
            shape |= {f"{part}_ffn_dim": 4 * size.width}
        write_checkpoint(self.folder / "checkpoint", shape)
        return self.folder / "checkpoint"

    def bare(self) -> list[float]:
        """Samples/s of ``LLM.generate``, twice in one process; the first after four sounds of warm-up."""
        engine = self.size.engine
        arguments = {
            "dtype": DTYPES[engine["precision"]],
            "load_format": "dummy",
            "max_num_seqs": engine["sequences"],
            "mm_processor_cache_gb": 0,
            "limit_mm_per_prompt": {"audio": 1},
        }
        if memory := engine.get("memory_percent"):
            arguments["gpu_memory_utilization"] = memory / 100
        reported = {
            "model": str(self.model),
            "dataset": str(self.dataset),
            "sounds": [MARKS.index(mark) for mark in PROMPT],
            "tokens": LENGTH,
            "graphs": engine.get("graphs", True),
            "arguments": arguments,
            "passes": 2,
        }
        rates: list[float] = bare("vllm", reported, self.folder)["rates"]
        return rates

    def offline(self) -> Figures:
        lengths = {"min_new_tokens": LENGTH, "max_new_tokens": LENGTH}
        log = run(
            self.folder,
            "Offline",
            benchmark=self.benchmark,
            backend="vllm",
            dataset=self.dataset,
            model=self.model,
            model_key="whisper",
            conf={"min_duration": 0, "min_query_count": self.queries, "target_qps": 1},
            settings={"random_weights": True, **self.size.engine, **lengths},
        )
        rate = log["result_samples_per_second"]
        stages = {name.removeprefix("backend."): value for name, value in log.items() if name in STAGES}
        tokens = round(rate * LENGTH, 1)
        return {"rate": rate, "tokens": tokens, "answering_span": round(self.queries / rate, 3), **stages}


def measure_whole(case: SpeechCase) -> Figures:
    return case.offline()


def measure_offline(case: SpeechCase) -> Figures:
    before, found, after = case.bare(), case.offline(), case.bare()
    best = max(before[-1], after[-1])
    return {"bare": [before, after], "harness": found, "over_bare": round(found["rate"] / best, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--count", type=int, default=0, help="of sounds; 0 for the size's own")
    parser.add_argument("--queries", type=int, default=0, help="of Offline; 0 for as many as there are sounds")
    add_options(parser, ("offline", "whole"), ("offline",))
    options = parser.parse_args()
    case = SpeechCase(options.size, options.count, options.queries)
    parts = {"offline": partial(measure_offline, case), "whole": partial(measure_whole, case)}
    measure_parts("tests.gpu.speech", f"speech-{options.size}", parts, options)


if __name__ == "__main__":
    main()
