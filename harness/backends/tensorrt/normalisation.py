"""Instance normalisation, as in 3D U-Net, for versions of TensorRT that compute it only with a cuDNN 8 plug-in.

It is rewritten as its defining operators, which every version supports. They compute in fp32 whatever the engine's
precision, since fp16 is not accurate enough for a mean over millions of positions, or for squared differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from harness.errors import HarnessError
from harness.quantization.onnx_files import load, save

OPERATOR = "InstanceNormalization"
_STEPS = ("mean", "centred", "squared", "variance", "above", "spread", "factor", "scaled", "shifted")
_INTO = ("ReduceMean", "Sub", "Mul", "Add", "Sqrt", "Div")
_AXES_AS_INPUT = 18  # the first opset in which ReduceMean takes its axes as an input
_EPSILON = 1e-5  # the node's default
_HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """``nodes``: names of the nodes that now compute instance normalisation. ``last``: those with results that the rest
    of the network reads."""

    model: Path
    count: int = 0
    nodes: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()

    def describe(self) -> dict[str, Any]:
        """Return the facts for the record; empty if nothing was rewritten."""
        if not self.count:
            return {}
        return {OPERATOR: {"nodes": self.count, "into": list(_INTO), "precision": "fp32"}}


def rewrite_instances(model: Path, folder: Path) -> Rewritten:
    """Return the model itself if it has no instance normalisation, otherwise a copy in ``folder`` without any."""
    loaded = load(model, weights=False)
    if not any(_is_instance(node) for node in loaded.graph.node):
        return Rewritten(model)
    loaded = load(model)
    writing = _Writing(loaded)
    path = folder / f"rewritten-{model.name}"
    save(writing.model, path)
    return Rewritten(path, writing.count, frozenset(writing.names), frozenset(writing.last))


def keep_in_fp32(trt: Any, network: Any, config: Any, rewritten: Rewritten) -> None:
    """Set the layers of rewritten nodes to fp32 if the builder may choose their type. Raises HarnessError if the parser
    renamed them, since they would silently compute in a lower precision."""
    found = set()
    for number in range(network.num_layers):
        layer = network.get_layer(number)
        if layer.name in rewritten.nodes:
            found.add(layer.name)
            layer.precision = trt.float32
            if layer.name not in rewritten.last:  # the last result may be stored in lower precision
                layer.set_output_type(0, trt.float32)
    if missing := sorted(rewritten.nodes - found):
        problem = f"TensorRT has no layer {missing[0]} for a node of this name, so it cannot be kept in fp32"
        raise HarnessError(problem, "backend", "build with precision: fp32")
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)


class _Writing:
    """A model under construction, whose instance normalisations are replaced one by one."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.count = 0
        self.names: list[str] = []
        self.last: list[str] = []
        self._opset = next((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), 0)
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self._types = _find_types(model)
        self._nodes: list[Any] = []
        for node in model.graph.node:
            if _is_instance(node):
                self._replace(node)
                self.count += 1
            else:
                self._nodes.append(node)
        del model.graph.node[:]
        model.graph.node.extend(self._nodes)

    def _replace(self, node: Any) -> None:
        source, scale, shift = node.input
        kind, rank = self._types.get(source, (0, 0))
        if rank < 3:
            problem = f"instance normalisation {node.name or node.output[0]}: the number of axes of {source} is unknown"
            fix = "export the model with the shapes of its inputs (onnx.shape_inference infers the others)"
            raise HarnessError(problem, "input", fix)
        name = f"instance_normalisation_{self.count}"
        axes = list(range(2, rank))
        half = kind in _HALVES
        top = self._cast(source, TensorProto.FLOAT, f"{name}/widened") if half else source
        epsilon = next((attribute.f for attribute in node.attribute if attribute.name == "epsilon"), _EPSILON)
        mean = self._add_mean(top, axes, f"{name}/mean")
        centred = self._add("Sub", [top, mean], f"{name}/centred")
        squared = self._add("Mul", [centred, centred], f"{name}/squared")
        variance = self._add_mean(squared, axes, f"{name}/variance")
        least = self._add_constant(np.full([1] * rank, epsilon, np.float32), f"{name}/epsilon")
        spread = self._add("Sqrt", [self._add("Add", [variance, least], f"{name}/above")], f"{name}/spread")
        factor = self._add("Div", [self._reshape_channels(scale, rank, f"{name}/scale"), spread], f"{name}/factor")
        scaled = self._add("Mul", [centred, factor], f"{name}/scaled")
        added = self._reshape_channels(shift, rank, f"{name}/shift")
        output = f"{name}/shifted" if half else node.output[0]
        self._add("Add", [scaled, added], f"{name}/shifted", output)
        self.names += [f"{name}/{step}" for step in _STEPS]
        self.last.append(f"{name}/shifted")
        if half:
            self._cast(output, kind, f"{name}/narrowed", node.output[0])

    def _add(self, operator: str, inputs: list[str], name: str, output: str = "", **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output or name], name, **attributes))
        return output or name

    def _cast(self, source: str, kind: int, name: str, output: str = "") -> str:
        return self._add("Cast", [source], name, output, to=kind)

    def _add_mean(self, source: str, axes: list[int], name: str) -> str:
        if self._opset < _AXES_AS_INPUT:
            return self._add("ReduceMean", [source], name, axes=axes, keepdims=1)
        return self._add("ReduceMean", [source, self._add_constant(np.array(axes, np.int64), f"{name}/axes")], name)

    def _add_constant(self, value: np.ndarray, name: str) -> str:
        self.model.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def _reshape_channels(self, source: str, rank: int, name: str) -> str:
        """Reshape [channels] to float32 [1, channels, 1, …]."""
        shape = [1, -1, *[1] * (rank - 2)]
        if source in self._tensors:
            values = numpy_helper.to_array(self._tensors[source]).astype(np.float32)
            return self._add_constant(values.reshape(shape), name)
        kind, _ = self._types.get(source, (TensorProto.FLOAT, 1))
        wide = self._cast(source, TensorProto.FLOAT, f"{name}/widened") if kind in _HALVES else source
        return self._add("Reshape", [wide, self._add_constant(np.array(shape, np.int64), f"{name}/shape")], name)


def _is_instance(node: Any) -> bool:
    return node.op_type == OPERATOR and node.domain in ("", "ai.onnx")


def _find_types(model: Any) -> dict[str, tuple[int, int]]:
    """Find the element type and number of axes of each value, if known."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = [*graph.input, *graph.value_info, *graph.output]
    typed = ((value.name, value.type.tensor_type) for value in values)
    return {name: (kind.elem_type, len(kind.shape.dim)) for name, kind in typed if kind.HasField("shape")}
