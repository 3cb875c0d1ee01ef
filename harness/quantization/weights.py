"""Weights with fewer bits, and half-sparse weights: changes to a model that need no samples.

Four bits: int4 with a scale for each output channel, or for each ``weight_block`` rows of a matrix, read by
DequantizeLinear; arithmetic is unchanged. 2:4: of each four consecutive weights along the summed axis, the input
channels of a convolution, at least two are zero, as sparse tensor cores require. A model trained in this way is
unchanged; otherwise the two largest of each four are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, version_converter

from harness.errors import HarnessError
from harness.quantization.settings import read_count

BITS, SPARSITY = "weights", "sparsity"  # names of fields in model.settings
INT4, PATTERN = "int4", "2:4"
_KINDS = ("Conv", "Gemm", "MatMul")
_OPSET = 21  # the first opset with weights of four bits
_IR = 10
_LEAST, _MOST = -7, 7  # symmetric
_GROUP, _KEPT = 4, 2
Weights = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Weight:
    """The weights of a node. ``output`` and ``summed``: the axis of output channels, and the axis that is summed
    over."""

    tensor: Any
    node: Any
    output: int
    summed: int

    def read(self) -> Weights:
        read: Weights = numpy_helper.to_array(self.tensor).astype(np.float32)
        return read


def read_changes(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the changes requested in model.settings, by setting. Raises HarnessError for an unknown one."""
    found = {}
    for name, known in ((BITS, INT4), (SPARSITY, PATTERN)):
        if name in settings:
            if str(settings[name]) != known:
                raise HarnessError(f"no model.settings.{name} {settings[name]!r}", "input", f'write "{known}"')
            found[name] = known
    if BITS in found and str(settings.get("precision", "fp32")) != "fp32":
        problem = f"model.settings.{BITS} {INT4} does not change the arithmetic, but precision does"
        raise HarnessError(problem, "input", "remove one of them")
    return found


def change_weights(model: Any, settings: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the model with the weights requested in ``settings``, and each change's facts for the record."""
    changes, results = read_changes(settings), {}
    if SPARSITY in changes:
        results[SPARSITY] = prune(model)
    if BITS in changes:
        model, results[BITS] = store_in_four_bits(model, read_count(settings, "weight_block"))
    return model, results


def list_weights(model: Any) -> Iterator[Weight]:
    """List the weights of products: each tensor only once, and no tensor that other operators also read."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type == TensorProto.FLOAT}
    readers = [name for node in model.graph.node for name in node.input]
    for node in model.graph.node:
        if node.op_type not in _KINDS or len(node.input) < 2 or node.input[1] not in tensors:
            continue
        tensor = tensors[node.input[1]]
        if readers.count(tensor.name) > 1:
            continue
        transposed = node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute)
        if node.op_type == "Conv" or transposed:
            yield Weight(tensor, node, output=0, summed=1)
        elif len(tensor.dims) == 2:
            yield Weight(tensor, node, output=1, summed=0)


def prune(model: Any) -> dict[str, Any]:
    """Prune to the pattern, in place. Raises HarnessError if no weight can have it."""
    tensors = changed = zeroed = left = 0
    for weight in list_weights(model):
        before = weight.read()
        if before.shape[weight.summed] % _GROUP:
            left += 1
            continue
        after = keep_largest(before, weight.summed)
        require_pattern(after, weight.summed, weight.tensor.name)
        tensors, zeroed = tensors + 1, zeroed + int((before != after).sum())
        if not np.array_equal(before, after):
            changed += 1
            weight.tensor.CopyFrom(numpy_helper.from_array(after, weight.tensor.name))
    if not tensors:
        problem = f"the model has no weights that can be {PATTERN} sparse in groups of {_GROUP} summands"
        raise HarnessError(problem, "input", f"remove model.settings.{SPARSITY}")
    return {"pattern": PATTERN, "tensors": tensors, "pruned": changed, "zeroed": zeroed, "dense": left}


def keep_largest(weights: Weights, axis: int) -> Weights:
    """Keep the two largest magnitudes of each four along the axis; ties go to the first. The axis's length is a
    multiple of four."""
    groups = _cut(weights, axis)
    smallest = np.argsort(-np.abs(groups), axis=-1, kind="stable")[..., _KEPT:]
    kept = groups.copy()
    np.put_along_axis(kept, smallest, 0, axis=-1)
    moved = np.moveaxis(weights, axis, -1).shape
    return np.ascontiguousarray(np.moveaxis(kept.reshape(moved), -1, axis))


def require_pattern(weights: Weights, axis: int, name: str) -> None:
    """Raise HarnessError if more than two of four along the axis are not zero."""
    full = int(((_cut(weights, axis) != 0).sum(axis=-1) > _KEPT).sum())
    if full:
        problem = f"{full} groups of {_GROUP} in {name} have more than {_KEPT} non-zero weights"
        raise HarnessError(problem, "input", f"set model.settings.{SPARSITY}, or train the model with this sparsity")


def _cut(weights: Weights, axis: int) -> Weights:
    moved = np.moveaxis(weights, axis, -1)
    return moved.reshape(*moved.shape[:-1], -1, _GROUP)


def store_in_four_bits(model: Any, block: int) -> tuple[Any, dict[str, Any]]:
    """Store weights in four bits. ``block``: how many rows of a matrix share a scale, 0 for all. A matrix whose rows it
    does not divide has one scale per channel. Raises HarnessError if there are no weights of products."""
    if next((item.version for item in model.opset_import if item.domain == ""), 0) < _OPSET:
        model = version_converter.convert_version(model, _OPSET)
    model.ir_version = max(model.ir_version, _IR)
    found = list(list_weights(model))
    if not found:
        problem = "the model has no matrix multiplication weights"
        raise HarnessError(problem, "input", f"leave model.settings.{BITS} out")
    before = after = 0
    for weight in found:
        given = weight.read()
        rows = given.shape[weight.summed]
        size = block if block and given.ndim == 2 and rows % block == 0 else 0
        steps, scales = round_weights(given, weight, size)
        _read_by_dequantizing(model.graph, weight, steps, scales, size)
        before, after = before + given.nbytes, after + steps.size // 2 + scales.nbytes
    made = {"precision": INT4, "tensors": len(found), "block": block, "bytes_before": before, "bytes": after}
    return model, made


def round_weights(given: Weights, weight: Weight, block: int) -> tuple[NDArray[np.int8], Weights]:
    """Round to the nearest of fifteen steps; return these, and the scale of each channel or block."""
    if block:
        shape = [*given.shape]
        shape[weight.summed : weight.summed + 1] = [given.shape[weight.summed] // block, block]
        largest = np.abs(given.reshape(shape)).max(axis=weight.summed + 1)
        scales = _scale(largest)
        spread = scales.repeat(block, axis=weight.summed)
    else:
        others = tuple(axis for axis in range(given.ndim) if axis != weight.output)
        scales = _scale(np.abs(given).max(axis=others))
        spread = scales.reshape([-1 if axis == weight.output else 1 for axis in range(given.ndim)])
    return np.clip(np.rint(given / spread), _LEAST, _MOST).astype(np.int8), scales


def _scale(largest: NDArray[np.float32]) -> Weights:
    return np.where(largest > 0, largest / _MOST, 1).astype(np.float32)


def _read_by_dequantizing(graph: Any, weight: Weight, steps: NDArray[np.int8], scales: Weights, block: int) -> None:
    name = weight.tensor.name
    how = {"axis": weight.summed, "block_size": block} if block else {"axis": weight.output}
    read = helper.make_node("DequantizeLinear", [name, f"{name}/scale"], [f"{name}/read"], f"{name}/dequantize", **how)
    graph.node.insert(list(graph.node).index(weight.node), read)
    weight.node.input[1] = f"{name}/read"
    weight.tensor.CopyFrom(helper.make_tensor(name, TensorProto.INT4, steps.shape, steps.ravel().tolist()))
    graph.initializer.append(numpy_helper.from_array(scales, f"{name}/scale"))
