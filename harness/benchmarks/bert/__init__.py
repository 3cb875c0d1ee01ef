"""BERT-Large on SQuAD v1.1: the F1 of the answers that start and end logits point at.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and what becomes of it: ``squad``; what is
sent back for a sample: ``answers``; from logits to text: ``spans``; the score: ``scoring``; the network: ``model``,
``program`` and, with any weights, ``network``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.benchmarks import TensorBenchmark, copy_model
from harness.benchmarks.bert.answers import OUTPUTS, PACKING, RESPONSE_DTYPE, postprocess
from harness.benchmarks.bert.scoring import score
from harness.benchmarks.bert.squad import build_dataset, load_calibration, load_samples
from harness.contract import Counter
from harness.errors import HarnessError

FORMATS = ("onnx", "pt2")


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """``settings``: format, as which the ONNX file is written: "onnx", or "pt2" for the PyTorch backends."""
    wanted = str(settings.get("format", FORMATS[0]))
    if wanted not in FORMATS:
        problem = f"model.settings.format is {wanted!r}"
        raise HarnessError(problem, "input", f"use one of {', '.join(FORMATS)}")
    if source is None or source.suffix != ".onnx" or wanted == "onnx":
        copy_model(source, settings, inputs, output, counter)
        return
    from harness.benchmarks.bert.program import write_program

    write_program(source, output / "model.pt2")


class BertLarge(TensorBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    packing = PACKING
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    load_calibration = staticmethod(load_calibration)
    postprocess = staticmethod(postprocess)
    score = staticmethod(score)


BENCHMARK = BertLarge()
