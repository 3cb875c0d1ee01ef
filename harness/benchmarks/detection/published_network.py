"""Published networks return boxes, scores and labels of all objects found in one image.

Engines return one row per sample, so the three outputs become one, [1, most, 6], of xmin, ymin, xmax, ymax, score and
label, padded with zeros. A network with other outputs is unchanged. A network converted from TensorFlow is rejected,
since it expects channels last.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.benchmarks import copy_model
from harness.benchmarks.detection import FOUND
from harness.contract import Counter
from harness.errors import HarnessError

OUTPUT = "detections"
_BOXES = ("boxes", "bboxes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """A published network's signature, and its benchmark. ``image_name``: a pattern with a place for the image's
    number; ``boxes``: the name of the output with boxes; ``scale``: the end coordinate of a box of the entire image;
    ``batched``: outputs have a batch axis, of size 1; ``categories``: their ids, in label order from ``first_label``
    on."""

    benchmark: str
    image_name: str
    file: str
    input: str
    boxes: str
    side: int
    scale: int
    batched: bool
    first_label: int
    categories: Sequence[int]


def build_model(
    source: Path | None,
    settings: Mapping[str, Any],
    inputs: Mapping[str, Path],
    output: Path,
    counter: Counter,
    *,
    most: int,
) -> None:
    """Write model.onnx from an ONNX file. ``most``: objects to keep per image; the published networks return no
    more."""
    if source is None or source.suffix != ".onnx":
        copy_model(source, settings, inputs, output, counter)
    else:
        _write_joined(source, output / "model.onnx", most)


def _write_joined(source: Path, target: Path, most: int) -> None:
    model = onnx.load(source)
    _require_channels_first(source, model)
    given = {output.name for output in model.graph.output}
    boxes = next((name for name in _BOXES if name in given), "")
    if not boxes or not {"scores", "labels"} <= given:
        shutil.copyfile(source, target)
        return
    model.graph.node.extend(_join(boxes, most))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [1, most, FOUND]))
    onnx.save_model(model, target)


def _require_channels_first(source: Path, model: Any) -> None:
    initial = {item.name for item in model.graph.initializer}
    image = next((item for item in model.graph.input if item.name not in initial), None)
    sizes = [dim.dim_value for dim in image.type.tensor_type.shape.dim] if image is not None else []
    if image is not None and len(sizes) == 4 and sizes[3] == 3 != sizes[1]:
        problem = f"{source} takes channels last, {image.name} {sizes[1:]}, as networks converted from TensorFlow do"
        fix = "use the reference's ONNX file converted from PyTorch; `reconcile fetch` downloads it"
        raise HarnessError(problem, "input", fix)


def _join(boxes: str, most: int) -> list[Any]:
    """Join the outputs with operators of every opset since 7, and constants as nodes, which old formats require."""
    constants = {
        "four": np.array([-1, 4]),
        "one": np.array([-1, 1]),
        "whole": np.array([1, most, FOUND]),
        "first": np.arange(most),
        "zeros": np.zeros((most, FOUND), np.float32),
    }
    nodes = [
        helper.make_node("Constant", [], [_make_name(name)], value=numpy_helper.from_array(value, _make_name(name)))
        for name, value in constants.items()
    ]
    steps: tuple[tuple[str, tuple[str, ...], str, dict[str, Any]], ...] = (
        ("Reshape", (boxes, _make_name("four")), "boxes", {}),
        ("Reshape", ("scores", _make_name("one")), "scores", {}),
        ("Cast", ("labels",), "float", {"to": TensorProto.FLOAT}),
        ("Reshape", (_make_name("float"), _make_name("one")), "labels", {}),
        ("Concat", tuple(map(_make_name, ("boxes", "scores", "labels"))), "rows", {"axis": 1}),
        ("Concat", (_make_name("rows"), _make_name("zeros")), "filled", {"axis": 0}),
        ("Gather", (_make_name("filled"), _make_name("first")), "kept", {"axis": 0}),
    )
    nodes += [helper.make_node(kind, list(taken), [_make_name(name)], **how) for kind, taken, name, how in steps]
    nodes.append(helper.make_node("Reshape", [_make_name("kept"), _make_name("whole")], [OUTPUT]))
    return nodes


def _make_name(part: str) -> str:
    """Make a name that no published network uses."""
    return f"{OUTPUT}/{part}"
