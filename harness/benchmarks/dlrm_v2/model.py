"""The model: an ONNX file or a program as it is, or the reference's sharded checkpoint, written as either."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.benchmarks import copy_model
from harness.benchmarks.dlrm_v2.checkpoint import open_checkpoint
from harness.benchmarks.dlrm_v2.layers import Shape, find_shape, list_weights
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Arrays

FORMATS = ("onnx", "pt2")


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """``settings``: format, as which a checkpoint is written: "onnx", or "pt2" for the PyTorch backends."""
    if source is None or not source.is_dir():
        copy_model(source, settings, inputs, output, counter)
        return
    wanted = str(settings.get("format", FORMATS[0]))
    if wanted not in FORMATS:
        problem = f"model.settings.format is {wanted!r}"
        raise HarnessError(problem, "input", f"use one of {', '.join(FORMATS)}")
    checkpoint = open_checkpoint(source, list(list_weights(Shape())))
    shape = find_shape(checkpoint.shapes)
    if wanted == "onnx":
        from harness.benchmarks.dlrm_v2.network import write_network

        write_network(checkpoint, shape, output, counter)
    else:
        from harness.benchmarks.dlrm_v2.program import write_program

        write_program(checkpoint, shape, output, counter)


def lower_program(
    path: Path, settings: Mapping[str, Any], samples: Arrays, counter: Counter, *, compare: int
) -> dict[str, Any]:
    """In fp8 (``lowered``)."""
    from harness.benchmarks.dlrm_v2 import lowered

    return lowered.lower_program(path, settings, samples, counter, compare=compare)
