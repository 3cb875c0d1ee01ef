"""Convert a model from fp32 to fp16 or bf16, and refuse one that does not compute in the declared precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization.onnx_model import ONNXModel
from onnxruntime.transformers.float16 import convert_float_to_float16

from harness.backends import Tensor
from harness.contract import BACKENDS
from harness.errors import HarnessError
from harness.quantization.onnx_files import load, save

_LOW = {"int8", "fp8"}
_HALVES = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}


def make_typed_model(model: Path, folder: Path, precision: str, *, half_inputs: bool = False) -> Path:
    """Return a model with float arithmetic in this precision: itself, or a converted copy in ``folder``.

    Inputs and outputs keep their types, but float inputs become float16 with ``half_inputs``. int8 and fp8 must already
    be part of the model. Raises HarnessError if they are not, or if the model computes in another precision.
    """
    loaded = load(model, weights=precision in _HALVES)
    require_precision(loaded, precision)
    if precision not in _HALVES or list_float_types(loaded) - {TensorProto.FLOAT}:
        return model
    converted = lower_precision(loaded, bfloat=precision == "bf16", half_inputs=half_inputs)
    path = folder / model.name
    save(converted, path)
    return path


def lower_precision(model: Any, *, bfloat: bool, half_inputs: bool = False) -> Any:
    """Convert to float16 or bfloat16 internally; outputs stay float32, as do inputs without ``half_inputs``."""
    kept = [value.name for value in model.graph.output]
    if not half_inputs or bfloat:
        kept += [value.name for value in model.graph.input]
    converted = convert_float_to_float16(model, keep_io_types=kept, disable_shape_infer=False)
    ONNXModel(converted).topological_sort()  # the casts of inputs are appended at the end of the graph
    return relabel_float16(converted) if bfloat else converted


def relabel_float16(model: Any) -> Any:
    """Replace float16 by bfloat16 everywhere in a float16 model."""
    graph = model.graph
    for tensor in graph.initializer:
        _widen(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i == TensorProto.FLOAT16:
                attribute.i = TensorProto.BFLOAT16
            if attribute.HasField("t"):
                _widen(attribute.t)
    for value in graph.value_info:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.BFLOAT16
    return model


def _widen(tensor: Any) -> None:
    if tensor.data_type == TensorProto.FLOAT16:
        values = numpy_helper.to_array(tensor).astype(np.float32).astype(ml_dtypes.bfloat16)
        tensor.CopyFrom(
            onnx.helper.make_tensor(tensor.name, TensorProto.BFLOAT16, values.shape, values.tobytes(), raw=True)
        )


def list_float_types(model: Any) -> set[int]:
    floats = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}
    return {tensor.data_type for tensor in model.graph.initializer if tensor.data_type in floats}


def require_precision(model: Any, precision: str) -> None:
    """Raise HarnessError if an engine of this model would not compute in the declared precision."""
    quantized = find_quantized_type(model)
    if quantized == "int4":
        able = " or ".join(name for name, facts in BACKENDS.items() if quantized in facts.weights)
        raise HarnessError("the model has 4-bit weights, which are not supported", "input", f"choose {able}")
    if precision in _LOW and not quantized:
        fix = f"set model.settings.precision: {precision}, or use a model that is already quantized"
        raise HarnessError(f"the model has no Q/DQ pairs for an engine in {precision}", "input", fix)
    own = {TensorProto.FLOAT, _HALVES.get(precision, TensorProto.FLOAT)}
    halves = {name for name, kind in _HALVES.items() if kind in list_float_types(model) - own}
    found = quantized or ("" if precision in _LOW else min(halves, default=""))
    if found not in ("", precision):
        problem = f"the model is already {found}; cannot build an engine in {precision}"
        raise HarnessError(problem, "input", f"set engine.precision: {found}, or use a float32 model")


def find_quantized_type(model: Any) -> str:
    """Return "int8" or "fp8" if the model contains Q/DQ pairs, "int4" if its weights have four bits, else ""."""
    if not any(node.op_type == "DequantizeLinear" for node in model.graph.node):
        return ""
    if any(tensor.data_type in (TensorProto.INT4, TensorProto.UINT4) for tensor in model.graph.initializer):
        return "int4"
    eighths = {TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2}
    return "fp8" if any(tensor.data_type in eighths for tensor in model.graph.initializer) else "int8"


def save_typed(model: Path, path: Path, precision: str, *, half_inputs: bool = False) -> None:
    """Save the result of ``make_typed_model`` as a single file at ``path``."""
    typed = make_typed_model(model, path.parent, precision, half_inputs=half_inputs)
    if typed != path:
        save(load(typed), path)


def list_tensors(model: Path) -> tuple[list[tuple[int, Tensor]], list[tuple[int, Tensor]]]:
    """List inputs and outputs: batch axis (-1 if it is free) and the rest."""
    graph = load(model, weights=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [_describe_tensor(value) for value in graph.input if value.name not in weights]
    return inputs, [_describe_tensor(value) for value in graph.output]


def find_batch(model: Path, free: int) -> int:
    """Return the model's fixed batch size; ``free`` if it accepts any."""
    sizes = [batch for batch, _ in list_tensors(model)[0] if batch > 0]
    return sizes[0] if sizes else free


def _describe_tensor(value: Any) -> tuple[int, Tensor]:
    kind = value.type.tensor_type
    if not kind.shape.dim:
        fix = "export the model with a batch axis first in every input and output (onnx.shape_inference infers shapes)"
        raise HarnessError(f"{value.name} of the model has no batch axis, or no shape at all", "input", fix)
    sizes = [axis.dim_value if axis.HasField("dim_value") else -1 for axis in kind.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
    return sizes[0], Tensor(value.name, tuple(sizes[1:]), dtype)
