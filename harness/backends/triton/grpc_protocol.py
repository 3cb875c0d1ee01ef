"""Requests and answers of KServe's inference protocol, version 2, as gRPC messages.

The two messages are encoded here, without the generated classes of NVIDIA's client, which need a protobuf release that
onnx does not support. Field numbers are from ``grpc_service.proto``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from harness.backends import Tensor
from harness.backends.triton.protocol import DATATYPES, DTYPES, SharedPart, take_output
from harness.errors import HarnessError

METHOD = "/inference.GRPCInferenceService/ModelInfer"
_NUMBER, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # encodings of fields
# Fields of ModelInferRequest, of its inputs and outputs, of their parameters; then of ModelInferResponse.
_MODEL, _INPUTS, _OUTPUTS, _RAW_INPUT = 1, 5, 6, 7
_NAME, _DATATYPE, _SHAPE, _PARAMETERS = 1, 2, 3, 4
_KEY, _VALUE = 1, 2
_INTEGER, _STRING = 2, 3
_ANSWERED, _RAW_OUTPUT = 5, 6
_BITS = 63  # bits of a number: sizes are not negative


def make_request_head(
    model: str,
    inputs: Sequence[Tensor],
    shapes: Sequence[tuple[int, ...]],
    outputs: Sequence[Tensor],
    parts: Sequence[SharedPart] = (),
) -> bytes:
    """Encode a request without the bytes of its inputs, which follow (``make_input``) unless ``parts`` locates them in
    shared memory. ``shapes``: of the inputs, with the batch axis."""
    found = [_bytes(_MODEL, model.encode())]
    for number, (tensor, shape) in enumerate(zip(inputs, shapes, strict=True)):
        said = [
            _bytes(_NAME, tensor.name.encode()),
            _bytes(_DATATYPE, DATATYPES[tensor.dtype].encode()),
            _bytes(_SHAPE, b"".join(_varint(size) for size in shape)),
            *(_parameters(parts[number]) if parts else ()),
        ]
        found.append(_bytes(_INPUTS, b"".join(said)))
    found += [_bytes(_OUTPUTS, _bytes(_NAME, tensor.name.encode())) for tensor in outputs]
    return b"".join(found)


def make_input(array: np.ndarray) -> list[Any]:
    """Encode an input's bytes, as parts to be joined."""
    return [_tag(_RAW_INPUT, _BYTES) + _varint(array.nbytes), array.data.cast("B") if array.nbytes else b""]


def read_outputs(message: bytes, outputs: Sequence[Tensor], count: int) -> list[np.ndarray]:
    """Return views of ``message``, in the order of ``outputs``; ``count``: requested rows. Raises HarnessError if the
    answer has other tensors, rows or types."""
    try:
        fields = list(_read(memoryview(message)))
        raw = [value for number, value in fields if number == _RAW_OUTPUT]
        said = [_describe(value) for number, value in fields if number == _ANSWERED]
        found = {
            name: np.frombuffer(data, DTYPES[datatype]).reshape(shape)
            for (name, datatype, shape), data in zip(said, raw, strict=True)
        }
    except (ValueError, KeyError, IndexError, TypeError) as error:
        problem = f"not a KServe response ({type(error).__name__}: {error})"
        raise HarnessError(problem, "backend", "check run.options.grpc_port: is it Triton's gRPC port?") from error
    return [take_output(found, tensor, count) for tensor in outputs]


def _describe(message: memoryview) -> tuple[str, str, tuple[int, ...]]:
    """Read the name, type and shape of an output."""
    name = datatype = ""
    shape: list[int] = []
    for number, value in _read(message):
        if number == _NAME:
            name = _decode(value)
        elif number == _DATATYPE:
            datatype = _decode(value)
        elif number == _SHAPE:
            shape += [value] if isinstance(value, int) else _read_varints(value)
    return name, datatype, tuple(shape)


def _decode(value: Any) -> str:
    if not isinstance(value, memoryview):
        raise ValueError("a number instead of a text")
    return value.tobytes().decode()


def _parameters(part: SharedPart) -> Iterator[bytes]:
    region = _bytes(_STRING, part.region.encode())
    said = {"shared_memory_region": region}
    said |= {
        f"shared_memory_{name}": _tag(_INTEGER, _NUMBER) + _varint(value)
        for name, value in (("offset", part.offset), ("byte_size", part.size))
    }
    for name, value in said.items():
        yield _bytes(_PARAMETERS, _bytes(_KEY, name.encode()) + _bytes(_VALUE, value))


def _tag(number: int, how: int) -> bytes:
    return _varint(number << 3 | how)


def _bytes(number: int, data: bytes) -> bytes:
    return _tag(number, _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Encode seven bits per byte, the lowest first."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _take_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Decode a value and its end. Raises ValueError if it is larger than any in our messages."""
    value = shift = 0
    while True:
        byte = data[at]
        if shift >= _BITS:
            raise ValueError("a number is too large")
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _read_varints(data: memoryview) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value, at = _take_varint(data, at)
        found.append(value)
    return found


def _read(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message in order: a number, or the bytes of a text, a list or a message."""
    at = 0
    while at < len(data):
        tag, at = _take_varint(data, at)
        number, how = tag >> 3, tag & 7
        if how == _NUMBER:
            value, at = _take_varint(data, at)
            yield number, value
            continue
        size = {_EIGHT: 8, _FOUR: 4}.get(how)
        if how == _BYTES:
            size, at = _take_varint(data, at)
        if size is None or at + size > len(data):
            raise ValueError(f"field {number} ends behind the message")
        yield number, data[at : at + size]
        at += size
