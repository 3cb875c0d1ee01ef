"""Requests and answers of KServe's inference protocol, version 2, as gRPC messages.

The messages are declared here, since the generated classes of NVIDIA's client need a protobuf release that onnx does
not support.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from harness.backends import Tensor
from harness.backends.triton.protocol import DATATYPES, DTYPES, SharedPart, take_output
from harness.errors import HarnessError

METHOD = "/inference.GRPCInferenceService/ModelInfer"
_RAW_INPUT = 7

# As in grpc_service.proto: message -> field -> (number, type). All but texts and numbers may be repeated. A size is not
# negative.
_TENSOR = {"name": (1, "string"), "datatype": (2, "string"), "shape": (3, "uint64")}
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Value": {"int64_param": (2, "int64"), "string_param": (3, "string")},
    "Parameter": {"key": (1, "string"), "value": (2, "Value")},
    "Input": {**_TENSOR, "parameters": (4, "Parameter")},
    "Output": _TENSOR,
    "Request": {"model_name": (1, "string"), "inputs": (5, "Input"), "outputs": (6, "Output")},
    "Response": {"outputs": (5, "Output"), "raw_output_contents": (6, "bytes")},
}
_REPEATED = ("shape", "parameters", "inputs", "outputs", "raw_output_contents")


@cache
def _make_class(message: str) -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="kserve", package="kserve", syntax="proto3")
    for called, fields in _MESSAGES.items():
        made = file.message_type.add(name=called)
        chosen = {"oneof_index": 0} if called == "Value" else {}  # sent even if it is 0
        if chosen:
            made.oneof_decl.add(name="parameter_choice")
        for name, (number, kind) in fields.items():
            label = kinds.LABEL_REPEATED if name in _REPEATED else kinds.LABEL_OPTIONAL
            nested = {"type": kinds.TYPE_MESSAGE, "type_name": f".kserve.{kind}"} if kind in _MESSAGES else {}
            made.field.add(
                name=name, number=number, label=label, **nested or {"type": f"TYPE_{kind.upper()}"}, **chosen
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"kserve.{message}"))


def make_request_head(
    model: str,
    inputs: Sequence[Tensor],
    shapes: Sequence[tuple[int, ...]],
    outputs: Sequence[Tensor],
    parts: Sequence[SharedPart] = (),
) -> bytes:
    """Encode a request without the bytes of its inputs, which follow (``make_input``) unless ``parts`` locates them in
    shared memory. ``shapes``: the shapes of the inputs, with the batch axis."""
    request = _make_class("Request")(model_name=model, outputs=[{"name": tensor.name} for tensor in outputs])
    for number, (tensor, shape) in enumerate(zip(inputs, shapes, strict=True)):
        said = request.inputs.add(name=tensor.name, datatype=DATATYPES[tensor.dtype], shape=shape)
        if parts:
            part = parts[number]
            said.parameters.add(key="shared_memory_region", value={"string_param": part.region})
            said.parameters.add(key="shared_memory_offset", value={"int64_param": part.offset})
            said.parameters.add(key="shared_memory_byte_size", value={"int64_param": part.size})
    return bytes(request.SerializeToString())


def make_input(array: np.ndarray) -> list[Any]:
    """Encode an input's bytes without copying them, as parts to be joined: the field, the number of bytes in groups of
    seven bits, and the bytes."""
    head, left = bytearray([_RAW_INPUT << 3 | 2]), array.nbytes
    while left > 127:
        head.append(left & 127 | 128)
        left >>= 7
    head.append(left)
    return [head, array.data.cast("B") if array.nbytes else b""]


def read_outputs(message: bytes, outputs: Sequence[Tensor], count: int) -> list[np.ndarray]:
    """Return the outputs in the order of ``outputs``; ``count``: requested rows. Raises HarnessError if the answer has
    other tensors, rows or types."""
    try:
        answer = _make_class("Response").FromString(message)
        found = {
            said.name: np.frombuffer(data, DTYPES[said.datatype]).reshape(tuple(said.shape))
            for said, data in zip(answer.outputs, answer.raw_output_contents, strict=True)
        }
    except (DecodeError, ValueError, KeyError, TypeError, OverflowError) as error:
        problem = f"not a KServe response ({type(error).__name__}: {error})"
        raise HarnessError(problem, "backend", "check run.options.grpc_port: is it Triton's gRPC port?") from error
    return [take_output(found, tensor, count) for tensor in outputs]
