"""Call compiled packages through AOTInductor's C interface, which takes addresses and a stream and returns tensor
handles.

The interface is declared in torch/csrc/inductor/aoti_runtime/interface.h and aoti_torch/c/shim.h, which PyTorch keeps
compatible. Calls release the interpreter lock.
"""

from __future__ import annotations

import ctypes
import json
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.backends import BackendEngine, BuildPlan, Tensor, collect_library_facts
from harness.contract import Fact
from harness.errors import HarnessError
from harness.machine.facts import find_distribution_version

_LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_cuda.so")
_KINDS = {"cpu": 0, "cuda": 1}
Blob = tuple[int, tuple[int, ...], str]
"""Address, shape and numpy dtype name of a C-contiguous array."""


def find_version() -> str:
    """Return the version from the distribution's metadata, so that keys match the version read by planning."""
    return find_distribution_version("torch")


def describe_library() -> dict[str, Fact]:
    folder = Path(torch.__file__).parent / "lib"
    used = [folder / name for name in _LIBRARIES if (folder / name).is_file()]
    return collect_library_facts(find_version(), folder, used)


def name_package(size: int) -> str:
    """Name the file for batches of ``size``, 0 for any."""
    return f"model-{size}.pt2" if size else "model.pt2"


def list_missing_operators(path: Path) -> list[str]:
    """List operators that a package would call in Python, which the C interface cannot do."""
    found: set[str] = set()
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                document = json.loads(archive.read(name))
                nodes = document.get("nodes", []) if isinstance(document, dict) else []
                found |= {str(node.get("node", {}).get("target", node.get("name"))) for node in nodes}
    return sorted(found)


def list_inputs(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Map the names of a program's inputs, in their order, to tensors of their shapes and types."""
    nodes = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    return {name: nodes[name] for name in program.graph_signature.user_inputs}


def describe_tensor(name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return Tensor(name, tuple(shape), str(dtype).removeprefix("torch."))


def save_program(
    name: str,
    plan: BuildPlan,
    program: torch.export.ExportedProgram,
    file: str,
    inputs: Sequence[Tensor],
    compute: Callable[[], Sequence[torch.Tensor]],
    **settings: Any,
) -> BackendEngine:
    """Build an engine that is the unchanged program, after ``compute`` has computed one batch as a test. Raises
    HarnessError if that fails."""
    plan.counter.stage("building", 1)
    try:
        answers = compute()
    except Exception as error:  # its exceptions share no base class
        problem = f"PyTorch {find_version()} cannot compute {plan.model.name}: {str(error)[:2000]}"
        raise HarnessError(problem, "backend", "check the program with torch.export.load(…).module()") from error
    (plan.output / file).write_bytes(plan.model.read_bytes())
    plan.counter.bump(1)
    names = program.graph_signature.user_outputs
    outputs = [describe_tensor(str(names[n]), answer.shape[1:], answer.dtype) for n, answer in enumerate(answers)]
    return plan.describe_engine(name, find_version(), file, inputs, outputs, **settings)


class Answers:
    """A batch's output tensors, which own their memory until ``release``."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self._handles = handles

    def list_addresses(self) -> list[tuple[int, int]]:
        """List the address and the number of elements of each tensor."""
        found = []
        for handle in self._handles:
            address, count = ctypes.c_void_p(), ctypes.c_int64()
            _check_call(_load_torch().aoti_torch_get_data_ptr(handle, ctypes.byref(address)), "the answers of a batch")
            _check_call(_load_torch().aoti_torch_get_numel(handle, ctypes.byref(count)), "the answers of a batch")
            found.append((address.value or 0, count.value))
        return found

    def release(self) -> None:
        for handle in self._handles:
            _load_torch().aoti_torch_delete_tensor_object(handle)


class CompiledModel:
    """A package on one device. ``at_once``: maximum number of threads in ``run`` at the same time; 0 if the caller
    prevents overlapping calls, as the capture of a CUDA graph requires."""

    def __init__(self, path: Path, kind: str, *, index: int = 0, at_once: int = 0) -> None:
        self._kind, self._index, self._single = kind, index if kind == "cuda" else 0, not at_once
        self._folder = tempfile.TemporaryDirectory(prefix="package-")
        library = _unpack(path, Path(self._folder.name))
        device = f"cuda:{index}" if kind == "cuda" else "cpu"
        self._container = ctypes.c_void_p()
        _share_runtime()
        try:
            self._library = ctypes.CDLL(str(library))
            create = self._library.AOTInductorModelContainerCreateWithDevice
        except (OSError, AttributeError) as error:
            raise _make_load_error(path, str(error)) from error
        models = ctypes.c_size_t(max(at_once, 1))
        folder = str(library.parent).encode()
        if create(ctypes.byref(self._container), models, device.encode(), folder):
            raise _make_load_error(path, "see the child's log")
        single = "SingleThreaded" if self._single else ""
        self._run = getattr(self._library, f"AOTInductorModelContainerRun{single}")
        count = ctypes.c_size_t()
        failed = self._library.AOTInductorModelContainerGetNumOutputs(self._container, ctypes.byref(count))
        _check_call(failed, path.name)
        self._outputs = count.value

    def run(self, inputs: Sequence[Blob], stream: int = 0) -> Answers:
        """Run one batch. The arrays must exist until the device has read them. Raises HarnessError."""
        given = (ctypes.c_void_p * len(inputs))(*(self._make_tensor(blob) for blob in inputs))
        made = (ctypes.c_void_p * self._outputs)()
        failed = self._run(
            self._container,
            given,
            ctypes.c_size_t(len(inputs)),
            made,
            ctypes.c_size_t(self._outputs),
            ctypes.c_void_p(stream),
            None,
        )
        _check_call(failed, "a batch")
        return Answers([ctypes.c_void_p(handle) for handle in made])

    def close(self) -> None:
        self._library.AOTInductorModelContainerDelete(self._container)
        self._folder.cleanup()

    def _make_tensor(self, blob: Blob) -> int | None:
        """Create a handle, which the run then owns."""
        address, shape, dtype = blob
        sizes = (ctypes.c_int64 * len(shape))(*shape)
        strides = (ctypes.c_int64 * len(shape))(*(prod(shape[axis + 1 :]) for axis in range(len(shape))))
        handle = ctypes.c_void_p()
        made = _load_torch().aoti_torch_create_tensor_from_blob(
            ctypes.c_void_p(address),
            ctypes.c_int64(len(shape)),
            sizes,
            strides,
            ctypes.c_int64(0),
            ctypes.c_int32(_find_dtype(dtype)),
            ctypes.c_int32(_KINDS[self._kind]),
            ctypes.c_int32(self._index),
            ctypes.byref(handle),
        )
        _check_call(made, "an input")
        return handle.value


def read_host(address: int, count: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Copy host memory into an array."""
    size = count * np.dtype(dtype).itemsize
    view = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
    return view.view(dtype).reshape(shape).copy()


@cache
def _share_runtime() -> None:
    """Make packages use this process's C++ library. If the compiler had only the static library, a package contains a
    copy whose locales do not match the process's, and its first regular expression crashes."""
    with suppress(OSError):  # libc++, or everything static
        ctypes.CDLL("libstdc++.so.6", ctypes.RTLD_GLOBAL)


@cache
def _load_torch() -> ctypes.CDLL:
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib/libtorch_cpu.so"))


@cache
def _find_dtype(name: str) -> int:
    return int(getattr(_load_torch(), f"aoti_torch_dtype_{name}")())


def _unpack(path: Path, folder: Path) -> Path:
    """Unpack the library of a package, with the kernels that it loads next to it."""
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    except (OSError, zipfile.BadZipFile) as error:
        raise _make_load_error(path, str(error)) from error
    libraries = sorted(folder.rglob("*.so"))
    if len(libraries) != 1:
        raise _make_load_error(path, f"it contains {len(libraries)} libraries")
    return libraries[0]


def _make_load_error(path: Path, why: str) -> HarnessError:
    return HarnessError(f"PyTorch {find_version()} cannot load {path.name}: {why}", "backend", "build the engine again")


def _check_call(failed: int, what: str) -> None:
    if failed:
        raise HarnessError(f"PyTorch refuses {what}", "backend", "see the child's log")
