"""The network: the reference's ONNX file as it is, or a program of PyTorch that computes no padding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.benchmarks import copy_model
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
