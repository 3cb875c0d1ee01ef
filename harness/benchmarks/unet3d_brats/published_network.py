"""The published network: one of its five outputs is the benchmark's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from harness.benchmarks import copy_model
from harness.contract import Counter

OUTPUT = "output"


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """model.onnx of an ONNX file, of whose outputs only the benchmark's is kept: the others are never read."""
    copy_model(source, settings, inputs, output, counter)
    path = output / "model.onnx"
    if not path.is_file():
        return
    model = onnx.load(str(path))
    others = [item for item in model.graph.output if item.name != OUTPUT]
    if 0 < len(others) < len(model.graph.output):
        for item in others:
            model.graph.output.remove(item)
        onnx.save(model, str(path))
