"""Requests and answers of KServe's inference protocol, version 2, over HTTP with binary tensors."""

from __future__ import annotations

import contextlib
import http.client
import json
import mmap
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from harness.backends import Tensor
from harness.errors import HarnessError

# A persistent connection to a server; the caller waits for each answer.

_DIGITS = 18
_END = b"\r\n\r\n"
_PIECE = 1 << 16
_LONGEST_MESSAGE = 64 << 20  # bytes of a server's description
_MOST_ANSWERED = 1 << 32  # bytes of an answer: a batch of images has some hundred million


@dataclass(frozen=True, slots=True)
class InferenceAnswer:
    """``document``: the JSON part, or all of it; ``data``: the bytes after it, valid until the next request."""

    status: int
    document: bytes
    data: memoryview


class Connection:
    """Not thread-safe."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._address, self._timeout = (host, port), timeout
        self._socket: socket.socket | None = None
        self._memory = bytearray(_PIECE)

    def ask(self, head: bytes, arrays: Sequence[np.ndarray]) -> InferenceAnswer:
        """Send a request. Raises OSError (also if the server closes the connection), or ValueError for invalid HTTP."""
        reused = self._socket is not None
        try:
            return self._exchange(head, arrays)
        except ConnectionError:
            self.close()
            if not reused:
                raise
        # An idle connection may have been closed; repeating the request has no side effects.
        return self._exchange(head, arrays)

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def _exchange(self, head: bytes, arrays: Sequence[np.ndarray]) -> InferenceAnswer:
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, self._timeout)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _send(self._socket, [memoryview(head), *(array.data.cast("B") for array in arrays if array.nbytes)])
            return self._receive(self._socket)
        except BaseException:
            self.close()
            raise

    def _receive(self, source: socket.socket) -> InferenceAnswer:
        filled, end = 0, -1
        while end < 0:
            if filled == len(self._memory):
                raise ValueError("not an HTTP response: incomplete header")
            filled += self._read(source, filled, len(self._memory))
            end = self._memory.find(_END, 0, filled)
        end += len(_END)
        status, fields = read_head(bytes(self._memory[:end]))
        whole = end + read_size(fields, "content-length", 0, _MOST_ANSWERED)
        if len(self._memory) < whole:  # a reference to the last answer keeps its memory alive
            self._memory = self._memory[:filled] + bytearray(whole - filled)
        while filled < whole:
            filled += self._read(source, filled, whole)
        if fields.get("connection", "").lower() == "close":
            self.close()
        split = end + read_size(fields, "inference-header-content-length", whole - end, whole - end)
        view = memoryview(self._memory)
        return InferenceAnswer(status, bytes(view[end:split]), view[split:whole])

    def _read(self, source: socket.socket, start: int, end: int) -> int:
        count = source.recv_into(memoryview(self._memory)[start:end])
        if not count:
            raise ConnectionResetError("the server closed the connection")
        return count


def read_head(data: bytes) -> tuple[int, dict[str, str]]:
    """Return the status and header fields of an answer. Raises ValueError for invalid HTTP."""
    first, *lines = data.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
        raise ValueError(f"not an HTTP response: {first[:80]}")
    pairs = (line.partition(":") for line in lines if line)
    return int(words[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


def read_size(fields: Mapping[str, str], name: str, default: int, most: int) -> int:
    """Read the size in a header field. Raises ValueError for an impossible size, which could not be allocated."""
    text = fields.get(name, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS and int(text) <= most):
        raise ValueError(f"the server says {name}: {text[:40]}")
    return int(text) if text else default


def _send(target: socket.socket, parts: list[memoryview]) -> None:
    while parts:
        sent = target.sendmsg(parts)
        while parts and sent >= parts[0].nbytes:
            sent -= parts.pop(0).nbytes
        if sent:
            parts[0] = parts[0][sent:]


def get(host: str, port: int, path: str, timeout: float) -> tuple[int, str]:
    """Return the status and text. Raises OSError."""
    return _ask(host, port, "GET", path, None, timeout)


def _ask(host: str, port: int, method: str, path: str, body: str | None, timeout: float) -> tuple[int, str]:
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read(_LONGEST_MESSAGE + 1)
        if len(content) > _LONGEST_MESSAGE:
            raise ConnectionError(f"an answer of more than {_LONGEST_MESSAGE:,} bytes")
        return answer.status, content.decode(errors="replace")
    except http.client.HTTPException as error:
        raise ConnectionError(f"not an HTTP response: {error}") from error
    finally:
        connection.close()


def post(host: str, port: int, path: str, document: object, timeout: float) -> tuple[int, str]:
    """Return the status and text. Raises OSError."""
    return _ask(host, port, "POST", path, json.dumps(document), timeout)


def read_problem(document: bytes) -> str:
    try:
        found: Any = json.loads(document)
        return str(found["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return document[:300].decode(errors="replace").strip()


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
    memory. ``shapes``: the shapes of the inputs, with the batch axis."""
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
    """Find the shape in which an input is sent; a single value per sample gets its own axis."""
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
    """The part of a region that belongs to one input, and the number of bytes that a request uses."""

    region: str
    offset: int
    size: int


class SharedInputs:
    """Inputs of one stream: a region with room for a batch of every input, as ``arrays``."""

    def __init__(self, name: str, samples: Sequence[np.ndarray], batch_size: int, folder: Path = SHARED) -> None:
        """Create the region. ``samples``: the resident samples, for their shapes and types. Raises OSError if there is
        no room, since containers often have little shared memory."""
        self.name = name
        shapes = [(batch_size, *array.shape[1:]) for array in samples]
        sizes = [int(np.prod(shape)) * array.itemsize for shape, array in zip(shapes, samples, strict=True)]
        steps = [-(-size // _ALIGNED) * _ALIGNED for size in sizes]
        self._offsets = [sum(steps[:number]) for number in range(len(steps))]
        self.size = max(sum(steps), 1)
        self._path = folder / name
        descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self.size)  # otherwise running out of memory would kill the process
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
