"""The model: an ONNX file or a program as it is, or the reference's sharded checkpoint, written as either."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.benchmarks import copy_model
from harness.benchmarks.dlrm_v2.checkpoint import Checkpoint, open_checkpoint
from harness.benchmarks.dlrm_v2.layers import Shape, list_weights, name_bottom, name_cross, name_table, name_top
from harness.contract import Counter
from harness.errors import HarnessError

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
    shape = find_shape(checkpoint)
    if wanted == "onnx":
        from harness.benchmarks.dlrm_v2.network import write_network

        write_network(checkpoint, shape, output, counter)
    else:
        from harness.benchmarks.dlrm_v2.program import write_program

        write_program(checkpoint, shape, output, counter)


def find_shape(checkpoint: Checkpoint) -> Shape:
    """As deep as the reference's, as wide as the checkpoint's. Raises HarnessError where weights do not fit."""
    shapes, reference = checkpoint.shapes, Shape()
    layers = len(reference.top)
    shape = Shape(
        rows=tuple(shapes[name_table(number)][0] for number in range(len(reference.rows))),
        width=shapes[name_table(0)][-1],
        bottom=tuple(shapes[f"{name_bottom(layer)}.bias"][0] for layer in range(len(reference.bottom))),
        rank=shapes[name_cross("V_kernels", 0)][0],
        top=tuple(shapes[f"{name_top(layer, layers)}.bias"][0] for layer in range(layers)),
    )
    for name, wanted in list_weights(shape).items():
        if shapes[name] != wanted:
            problem = f"{name} of the checkpoint is {list(shapes[name])}, beside the others it should be {list(wanted)}"
            raise HarnessError(problem, "input", "use the reference's checkpoint of DLRM-DCNv2")
    return shape
