"""Places of Q/DQ pairs, as TensorRT fuses them best.

Inputs of convolutions and matrix products are quantized, their outputs are not: what follows (bias, activation, a
residual sum) is fused into the same kernel and works on its accumulator. Of a residual sum the *other* branch is
quantized, so that the kernel reads it as int8; where that tensor feeds a convolution as well, both share one pair. The
last sum before a pooling over everything is quantized for the pooling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

from onnx import helper, numpy_helper

KINDS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
POOLINGS = ("GlobalAveragePool",)
MARK = "Identity"  # onnxruntime quantizes the input even of an operator that it does not know
_PREFIX = "residual_mark"


def mark_residuals(model: Any) -> int:
    """Put a marked Identity on the other branch of each residual sum; how many."""
    graph = model.graph
    makers = {output: node for node in graph.node for output in node.output}
    weights = {tensor.name for tensor in graph.initializer}
    marked = []
    for node in graph.node:
        if node.op_type != "Add" or len(node.input) != 2 or weights & set(node.input):
            continue
        branch = _other_branch(node, makers, weights)
        if branch is not None:
            marked.append((node, branch))
    for number, (node, branch) in enumerate(marked):
        name = f"{_PREFIX}_{number}"
        place = list(graph.node).index(node)
        graph.node.insert(place, helper.make_node(MARK, [node.input[branch]], [name], name=name))
        node.input[branch] = name
    return len(marked)


def remove_marks(model: Any) -> None:
    """Take the marked Identities out again."""
    graph = model.graph
    marks = [node for node in graph.node if node.op_type == MARK and node.name.startswith(_PREFIX)]
    renamed = {node.output[0]: node.input[0] for node in marks}
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name in renamed:
                node.input[position] = renamed[name]
    for node in marks:
        graph.node.remove(node)


def drop_identities(model: Any) -> None:
    """Every Identity that is there before the marks, except one that makes an output of the model."""
    graph = model.graph
    outputs = {value.name for value in graph.output}
    for node in [node for node in graph.node if node.op_type == MARK and node.output[0] not in outputs]:
        for other in graph.node:
            for position, name in enumerate(other.input):
                if name == node.output[0]:
                    other.input[position] = node.input[0]
        graph.node.remove(node)


def quantize_inputs(model: Any) -> dict[str, float]:
    """Let the model take quantized samples: input name -> scale. An input that is used unquantized too is left."""
    graph = model.graph
    scales: dict[str, float] = {}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for value in graph.input:
        users = [node for node in graph.node if value.name in node.input]
        if len(users) != 1 or users[0].op_type != "QuantizeLinear":
            continue
        quantize = users[0]
        for node in _users(graph, quantize.output[0]):
            node.input[list(node.input).index(quantize.output[0])] = value.name
        value.type.tensor_type.elem_type = constants[quantize.input[2]].data_type
        scales[value.name] = float(numpy_helper.to_array(constants[quantize.input[1]]).reshape(-1)[0])
        graph.node.remove(quantize)
    return scales


def _users(graph: Any, name: str) -> Iterator[Any]:
    return (node for node in graph.node if name in node.input)


def _other_branch(node: Any, makers: Mapping[str, Any], weights: Set[str]) -> int | None:
    """Which input of a sum does not come straight from a kernel that could take the sum over; None for no such sum."""
    match [_from_kernel(name, makers, weights) for name in node.input]:
        case [True, _]:
            return 1
        case [False, True]:
            return 0
    return None


def _from_kernel(name: str, makers: Mapping[str, Any], weights: Set[str]) -> bool:
    """A matrix product and the sum with its bias count as one."""
    node = makers.get(name)
    if node is not None and node.op_type == "Add" and weights & set(node.input):
        node = next((makers[given] for given in node.input if given in makers), None)
    return node is not None and node.op_type in KINDS
