"""The published ONNX files with the inputs and outputs of engines.

front and side: images uint8 [N, height, width, 3] -> scores [N, 19, height, width]. detection: pillars [1, n, 20, 11],
cells int64 [1, n, 4] and counts int32 [1, n] -> boxes [1, 4096, 11]; the file processes one cloud at a time, and its
inputs and outputs have no batch axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.benchmarks.pointpainting.boxes import COLUMNS, FOUND
from harness.benchmarks.pointpainting.points import DEVIATION, MEAN, MOST_PILLARS, MOST_POINTS, PAINTED, SEEN
from harness.errors import HarnessError
from harness.quantization import onnx_files

MODEL = "model.onnx"
_OWN = "engine_"  # prefix of names, so that they differ from the network's
_TAKEN = {"pillars": (TensorProto.FLOAT, 3), "cells": (TensorProto.INT64, 2), "counts": (TensorProto.INT32, 1)}
Sizes = Sequence[int | str]


def write_segmentation(source: Path, folder: Path, size: tuple[int, int] | None) -> None:
    """Write the segmentation network. ``size``: height and width of all pictures, None for any."""
    model = _load(source, 1)
    (given,) = _list_inputs(model)
    _require(source, given.type.tensor_type, TensorProto.FLOAT, 4)
    height, width = size or ("height", "width")
    made = [helper.make_node("Cast", ["images"], [f"{_OWN}float"], to=TensorProto.FLOAT)]
    last = f"{_OWN}float"
    for kind, value in (("Div", 255.0), ("Sub", MEAN), ("Div", DEVIATION)):
        name = f"{_OWN}{len(made)}"
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), f"{name}_by"))
        made.append(helper.make_node(kind, [last, f"{name}_by"], [name]))
        last = name
    made.append(helper.make_node("Transpose", [last], [given.name], perm=[0, 3, 1, 2]))
    images = helper.make_tensor_value_info("images", TensorProto.UINT8, ["N", height, width, 3])
    _finish(model, made, [images], "scores", ["N", SEEN, height, width], folder)


def write_detection(source: Path, folder: Path, *, fixed: bool) -> None:
    """Write the detection network. ``fixed``: the number of pillars is always the maximum, otherwise free."""
    model = _load(source, len(_TAKEN))
    count: int | str = MOST_PILLARS if fixed else "count"
    inner: dict[str, Sizes] = {"pillars": [MOST_POINTS, PAINTED], "cells": [4], "counts": []}
    made, inputs = [], []
    for given, (name, (kind, axes)) in zip(_list_inputs(model), _TAKEN.items(), strict=True):
        _require(source, given.type.tensor_type, kind, axes)
        inputs.append(helper.make_tensor_value_info(name, kind, [1, count, *inner[name]]))
        shape = numpy_helper.from_array(np.array([-1, *inner[name]], np.int64), f"{_OWN}{name}")
        model.graph.initializer.append(shape)
        made.append(helper.make_node("Reshape", [name, shape.name], [given.name]))
    _finish(model, made, inputs, "boxes", [1, FOUND, COLUMNS], folder)


def _load(source: Path, count: int) -> Any:
    model = onnx_files.load(source)
    found = len(_list_inputs(model))
    if found != count or len(model.graph.output) != 1:
        what = f"{found} inputs and {len(model.graph.output)} outputs, the published one has {count} and 1"
        raise HarnessError(f"{source} has {what}", "input", "use the published network")
    return model


def _list_inputs(model: Any) -> list[Any]:
    """List the inputs; old files include their weights in them."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [given for given in model.graph.input if given.name not in weights]


def _require(source: Path, given: Any, kind: int, axes: int) -> None:
    if given.elem_type != kind or len(given.shape.dim) != axes:
        what = f"{TensorProto.DataType.Name(given.elem_type)} of {len(given.shape.dim)} axes"
        wanted = f"{TensorProto.DataType.Name(kind)} of {axes}"
        raise HarnessError(f"an input of {source} is {what}, not {wanted}", "input", "use the published network")


def _finish(model: Any, made: Sequence[Any], inputs: Sequence[Any], output: str, shape: Sizes, folder: Path) -> None:
    graph = model.graph
    given = graph.output[0].name
    if shape[0] == 1:  # the published boxes have no batch axis
        graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), f"{_OWN}shape"))
        last = helper.make_node("Reshape", [given, f"{_OWN}shape"], [output])
    else:
        last = helper.make_node("Identity", [given], [output])
    nodes = [*made, *graph.node, last]
    del graph.node[:], graph.input[:], graph.output[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, list(shape)))
    onnx_files.save(model, folder / MODEL)
    onnx.checker.check_model(str(folder / MODEL))
