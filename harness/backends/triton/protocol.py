"""Requests and answers of KServe's inference protocol, version 2, over HTTP with binary tensors."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from harness.backends import Tensor
from harness.errors import HarnessError

DATATYPES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
}
DTYPES = {name: dtype for dtype, name in DATATYPES.items()}
HEADER_LENGTH = "Inference-Header-Content-Length"


def make_request_head(
    host: str,
    model: str,
    inputs: Sequence[Tensor],
    shapes: Sequence[tuple[int, ...]],
    outputs: Sequence[Tensor],
    parts: Sequence[SharedPart] = (),
) -> bytes:
    """Encode a request without the bytes of its inputs, which follow in order unless ``parts`` locates them in shared
    memory. ``shapes``: of the inputs, with the batch axis."""
    sizes = [
        int(np.prod(shape)) * np.dtype(tensor.dtype).itemsize for tensor, shape in zip(inputs, shapes, strict=True)
    ]
    formats: list[dict[str, object]] = [{"binary_data_size": size} for size in sizes]
    if parts:
        formats = [
            {
                "shared_memory_region": part.region,
                "shared_memory_offset": part.offset,
                "shared_memory_byte_size": part.size,
            }
            for part in parts
        ]
    following = 0 if parts else sum(sizes)
    asked = [
        {"name": tensor.name, "shape": list(shape), "datatype": DATATYPES[tensor.dtype], "parameters": how}
        for tensor, shape, how in zip(inputs, shapes, formats, strict=True)
    ]
    wanted = [{"name": tensor.name, "parameters": {"binary_data": True}} for tensor in outputs]
    document = json.dumps({"inputs": asked, "outputs": wanted}).encode()
    head = (
        f"POST /v2/models/{quote(model, safe='')}/infer HTTP/1.1\r\nHost: {host}\r\n"
        f"Content-Type: application/octet-stream\r\n{HEADER_LENGTH}: {len(document)}\r\n"
        f"Content-Length: {len(document) + following}\r\n\r\n"
    )
    return head.encode() + document


def find_shape(tensor: Tensor, given: tuple[int, ...]) -> tuple[int, ...]:
    """Find the shape of an input as sent: a single value per sample gets its own axis."""
    return given if tensor.shape else (*given, 1)


def read_outputs(document: bytes, data: memoryview, outputs: Sequence[Tensor], count: int) -> list[np.ndarray]:
    """Return views of ``data``, in the order of ``outputs``; ``count``: requested rows. Raises HarnessError if the
    answer has other tensors, rows or types."""
    found: dict[str, np.ndarray] = {}
    at = 0
    try:
        for said in json.loads(document)["outputs"]:
            size, shape = int(said["parameters"]["binary_data_size"]), tuple(said["shape"])
            dtype = DTYPES[said["datatype"]]
            found[said["name"]] = np.frombuffer(data[at : at + size], dtype).reshape(shape)
            at += size
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        shown = document[:120].decode(errors="replace")
        problem = f"not a KServe response ({type(error).__name__}: {error}): {shown}"
        raise HarnessError(problem, "backend", "check the address: is it Triton's HTTP port?") from error
    return [take_output(found, tensor, count) for tensor in outputs]


def take_output(found: Mapping[str, np.ndarray], tensor: Tensor, count: int) -> np.ndarray:
    """Take an output by its name. Raises HarnessError if it differs from the request."""
    array = found.get(tensor.name)
    if array is None:
        problem = f"the answer has no output {tensor.name}; it has {', '.join(found) or 'none'}"
        raise HarnessError(problem, "backend", "check which model the server serves")
    if len(array) != count or array.dtype.name != tensor.dtype:
        problem = (
            f"output {tensor.name} of the answer is {array.dtype.name} {list(array.shape)}; "
            f"{tensor.dtype} with {count} rows was expected"
        )
        raise HarnessError(problem, "backend", "check which model the server serves")
    return array if tensor.shape else array.reshape(count)


def find_differences(metadata: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> str:
    """Describe how a server's model differs from the engine; "" if it fits. Either may leave axes of a shape open
    (-1)."""
    for part, tensors in (("inputs", inputs), ("outputs", outputs)):
        said = {item["name"]: item for item in metadata.get(part, ())}
        for tensor in tensors:
            item = said.get(tensor.name)
            if item is None:
                return f"it has no {part[:-1]} {tensor.name}, but {', '.join(said) or 'none'}"
            shape = tuple(int(size) for size in item["shape"][1:])
            wanted = tensor.shape or (1,)
            fits = len(shape) == len(wanted) and all(
                -1 in (have, want) or have == want for have, want in zip(shape, wanted, strict=True)
            )
            if not fits or item["datatype"] != DATATYPES[tensor.dtype]:
                return (
                    f"its {part[:-1]} {tensor.name} is {item['datatype']} {list(shape)} per sample, "
                    f"that of the engine {DATATYPES[tensor.dtype]} {list(wanted)}"
                )
        if part == "inputs" and (more := sorted(set(said) - {tensor.name for tensor in tensors})):
            return f"it also takes {more[0]}"
    return ""


# Inputs in shared memory, which a server on this machine reads without a transfer.

SHARED = Path("/dev/shm")  # noqa: S108 - POSIX shared memory
_ALIGNED = 64  # bytes


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Part of a region for one input, and its bytes used by a request."""

    region: str
    offset: int
    size: int


class SharedInputs:
    """Inputs of one stream: a region with room for a batch of every input, as ``arrays``."""

    def __init__(self, name: str, samples: Sequence[np.ndarray], batch_size: int, folder: Path = SHARED) -> None:
        """Create the region. ``samples``: resident ones, for shapes and types. Raises OSError if there is no room:
        containers often have little shared memory."""
        self.name = name
        shapes = [(batch_size, *array.shape[1:]) for array in samples]
        sizes = [int(np.prod(shape)) * array.itemsize for shape, array in zip(shapes, samples, strict=True)]
        steps = [-(-size // _ALIGNED) * _ALIGNED for size in sizes]
        self._offsets = [sum(steps[:number]) for number in range(len(steps))]
        self.size = max(sum(steps), 1)
        self._path = folder / name
        descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self.size)  # else running out of memory kills the process
            self._memory = mmap.mmap(descriptor, self.size)
        except OSError:
            self._path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        self.arrays = [
            np.frombuffer(self._memory, array.dtype, int(np.prod(shape)), offset).reshape(shape)
            for array, shape, offset in zip(samples, shapes, self._offsets, strict=True)
        ]

    def write(self, batch: Sequence[np.ndarray]) -> list[SharedPart]:
        """Write the arrays that are not already in the region."""
        parts = []
        for array, own, offset in zip(batch, self.arrays, self._offsets, strict=True):
            if not np.may_share_memory(array, own):
                own[: len(array)] = array
            parts.append(SharedPart(self.name, offset, array.nbytes))
        return parts

    def close(self) -> None:
        """Close the region; its arrays remain valid while referenced."""
        self._path.unlink(missing_ok=True)
