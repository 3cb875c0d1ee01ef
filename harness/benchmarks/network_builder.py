"""Builders of ONNX graphs: networks for rehearsals, with weights drawn from a seed, and networks with published
weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from harness.run.row_batches import Steps

Tensors = Mapping[str, tuple[str, Sequence[int | str]]]
"""Name -> (dtype, complete shape; a word means a free axis)."""


class NetworkBuilder:
    """A graph under construction. Methods return the names of values, which begin with ``prefix``."""

    def __init__(self, rng: np.random.Generator, prefix: str = "") -> None:
        self._rng, self._prefix = rng, prefix
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def node(self, kind: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Add an operator with one output; ``output`` is its name, "" generates one."""
        name = output or f"{self._prefix}value{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def nodes(self, kind: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Add an operator with several outputs."""
        names = [f"{self._prefix}value{len(self._nodes)}_{part}" for part in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def split(self, source: str, sizes: Sequence[int], *, axis: int) -> list[str]:
        """Split a value along an axis into parts of these sizes."""
        return self.nodes("Split", [source, self.constant(sizes, "int64")], len(sizes), axis=axis)

    def add_stored(self, shape: Sequence[int], location: str, start: int) -> str:
        """Add float32 values from a file next to the graph, from byte ``start`` on."""
        name = f"weight{len(self._weights)}"
        tensor = onnx.TensorProto(name=name, dims=shape, data_type=onnx.TensorProto.FLOAT)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        size = math.prod(shape) * np.dtype(np.float32).itemsize
        for key, value in {"location": location, "offset": start, "length": size}.items():
            tensor.external_data.add(key=key, value=str(value))
        self._weights.append(tensor)
        return name

    def constant(self, value: Any, dtype: str = "float32", *, name: str = "") -> str:
        name = name or f"{self._prefix}weight{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, shape: Sequence[int], deviation: float) -> str:
        """Draw a weight from a normal distribution around zero."""
        return self.constant(self._rng.standard_normal(tuple(shape), np.float32) * np.float32(deviation))

    def convolution(
        self, source: str, channels: int, width: int, size: int, stride: int = 1, *, axes: int = 2, active: bool = True
    ) -> str:
        """Add a convolution whose deviation preserves the scale of values from layer to layer."""
        kernel = self.weight((width, channels, *[size] * axes), (2 / (channels * size**axes)) ** 0.5)
        shift = self.weight((width,), 0.1)
        made = self.node(
            "Conv",
            [source, kernel, shift],
            kernel_shape=[size] * axes,
            strides=[stride] * axes,
            pads=[(size - 1) // 2] * (2 * axes),
        )
        return self.node("Relu", [made]) if active else made

    def dense(self, source: str, width: int, out: int) -> str:
        """Map [..., width] to [..., out]."""
        product = self.node("MatMul", [source, self.weight((width, out), width**-0.5)])
        return self.node("Add", [product, self.weight((out,), 0.1)])

    def extend(self, graph: Any) -> None:
        """Add the operators to the end of another graph."""
        graph.node.extend(self._nodes)
        graph.initializer.extend(self._weights)

    def save(self, path: Path, name: str, inputs: Tensors, outputs: Tensors) -> None:
        """Save with an old opset and format version, which every runtime in the supported range reads."""
        graph = helper.make_graph(self._nodes, name, _declare(inputs), _declare(outputs), self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.save_model(model, path)
        onnx.checker.check_model(str(path))


def _declare(tensors: Tensors) -> list[Any]:
    return [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape))
        for name, (dtype, shape) in tensors.items()
    ]


def run_loop(steps: Steps, compute: Callable[[Any], Sequence[np.ndarray]]) -> np.ndarray:
    """Return the answer of a benchmark's loop. ``compute``: maps the inputs that it yields to the outputs."""
    asked = next(steps)
    while True:
        try:
            asked = steps.send(compute(asked))
        except StopIteration as end:
            answer: np.ndarray = end.value
            return answer


class NetworkSession:
    """A network's own answers in fp32, which are the ground truth of a rehearsal."""

    def __init__(self, path: Path) -> None:
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def compute(self, feed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        outputs: list[np.ndarray] = self._session.run(None, dict(feed))
        return outputs
