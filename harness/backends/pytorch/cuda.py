"""The backend "pytorch-cuda": compiled programs in the CUDA pipeline, over its buffers, streams and graphs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.backends import BackendEngine, BuildPlan, LoadPlan, Outputs, Tensor
from harness.backends.pytorch.building import build_engine
from harness.backends.pytorch.cpu import read_engine
from harness.backends.pytorch.fused import FILE, FusedModel
from harness.backends.pytorch.packages import Blob, CompiledModel, describe_library, find_version, name_package
from harness.backends.pytorch.packed import PackedCudaSession
from harness.backends.streams import StreamSession
from harness.catalog import CudaRunOptions, PytorchCudaEngineOptions
from harness.contract import Fact, as_evidence
from harness.cuda.driver import Device, DeviceMemory, DeviceMemoryError, Stream, copy
from harness.cuda.nvml import collect_device_evidence
from harness.cuda.pipeline import CudaSession, choose_devices
from harness.errors import HarnessError
from harness.machine.facts import find_distribution_version
from harness.run.qsl import Rows, count_rows

NAME = "pytorch-cuda"
Shape = tuple[int, ...]


def facts() -> dict[str, Fact]:
    compiler = as_evidence({"triton.version": find_distribution_version("triton")})
    return describe_library() | compiler | collect_device_evidence()


def build(plan: BuildPlan) -> BackendEngine:
    if not torch.cuda.is_available():
        fix = "check nvidia-smi, and that this PyTorch is a CUDA build: torch.version.cuda"
        raise HarnessError(f"PyTorch {find_version()} finds no NVIDIA GPU", "missing", fix)
    return build_engine(NAME, "cuda", plan)


def load(plan: LoadPlan) -> CudaSession | CollatedCudaSession | PackedCudaSession:
    folder = plan.require_engine("PyTorch")
    if not torch.cuda.is_available():
        raise HarnessError("PyTorch finds no NVIDIA GPU", "missing", "install a CUDA build of PyTorch")
    if plan.collate is not None:
        return CollatedCudaSession(plan, folder, NAME)
    engine = read_engine(folder, NAME)
    engine.require_batch(plan.batch_size)
    if engine.settings.get("packed"):
        devices = choose_devices(CudaRunOptions(plan.options).devices)
        session = PackedCudaSession(plan, engine, folder, devices)
        session.notes = {**session.notes, "devices": [Device(device).bus for device in devices]}
        return session
    return CudaSession(plan, partial(LoadedProgram, engine, folder))


class LoadedProgram:
    """An engine on one device. All streams share one copy of the weights, since batches are enqueued one by one."""

    capturable = True

    def __init__(self, engine: BackendEngine, folder: Path, device: Device) -> None:
        self._engine, self._device = engine, device
        # Library code such as cuDNN, which is called rather than compiled, reads this at call time.
        tf32 = PytorchCudaEngineOptions(engine.settings).tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True  # each size runs once before it is used or captured
        torch.cuda.set_device(device.index)
        torch.cuda.init()
        self.models: Mapping[int, CompiledModel | FusedModel]
        if engine.settings.get("fused"):
            self.models = {0: FusedModel(torch.export.load(folder / FILE), f"cuda:{device.index}")}
        else:
            self.models = {
                size: CompiledModel(folder / name_package(size), "cuda", index=device.index)
                for size in engine.batch_sizes or (0,)
            }
        device.activate()
        self.batch_size, self.batch_sizes = engine.batch_size, engine.batch_sizes
        self.inputs: Sequence[Tensor] = engine.inputs
        self._pools: dict[int, Any] = {}
        self.notes: Mapping[str, Any] = {"precision": engine.precision}

    def list_outputs(self, inputs: Sequence[Shape]) -> Sequence[Tensor]:
        """List the outputs. Their free axes are those of the first input, as if each token had an answer."""
        found = []
        for tensor in self._engine.outputs:
            first = inputs[0]
            shape = (first[axis] if n < 0 and axis < len(first) else n for axis, n in enumerate(tensor.shape))
            found.append(Tensor(tensor.name, tuple(shape), tensor.dtype))
        return found

    def estimate_memory(self, inputs: Sequence[Shape]) -> int:
        """Estimate from the sizes of the samples, since PyTorch allocates as it runs."""
        return self.batch_size * sum(4 * prod(shape) for shape in inputs)

    def open(
        self, shapes: Sequence[Shape], inputs: Sequence[DeviceMemory], outputs: Sequence[DeviceMemory], stream: Stream
    ) -> BoundProgram:
        if int(stream) not in self._pools:
            self._pools[int(stream)] = _make_pool()
        taken = [*zip(self.inputs, shapes, inputs, strict=True)]
        given = [*zip(self.list_outputs(shapes), outputs, strict=True)]
        return BoundProgram(self, self._device.index, taken, given, stream, self._pools[int(stream)])


class BoundProgram:
    """The buffers of one lane. A captured graph's memory belongs to its stream's pool and stays allocated."""

    def __init__(
        self,
        program: LoadedProgram,
        device: int,
        inputs: Sequence[tuple[Tensor, Shape, DeviceMemory]],
        outputs: Sequence[tuple[Tensor, DeviceMemory]],
        stream: Stream,
        pool: Any,
    ) -> None:
        self._program, self._device, self._inputs, self._outputs = program, device, inputs, outputs
        self._stream, self._pool = stream, pool

    def prepare(self, size: int) -> Callable[[], None]:
        model = self._program.models[size if self._program.batch_sizes else 0]
        blobs: list[Blob] = [(memory.address, (size, *shape), tensor.dtype) for tensor, shape, memory in self._inputs]
        sizes = [size * prod(tensor.shape) * np.dtype(tensor.dtype).itemsize for tensor, _ in self._outputs]
        stream = int(self._stream)

        def enqueue() -> None:
            with torch.cuda.use_mem_pool(self._pool, self._device):
                before = _count_refusals(self._device)
                try:
                    answers = model.run(blobs, stream)
                except HarnessError as error:
                    if _count_refusals(self._device) > before:
                        raise DeviceMemoryError("CUDA_ERROR_OUT_OF_MEMORY", "PyTorch's allocator") from error
                    raise
                for (address, _), (_, memory), count in zip(
                    answers.list_addresses(), self._outputs, sizes, strict=True
                ):
                    copy(memory.address, address, count, self._stream)
                answers.release()

        return enqueue


def _make_pool() -> Any:
    """Create a memory pool that is never freed, since captured graphs compute in it, and PyTorch aborts if it is
    collected while another pool is in use, or during a capture."""
    pool = torch.cuda.MemPool()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))
    return pool


def _count_refusals(device: int) -> int:
    return int(torch.cuda.memory_stats(device).get("num_ooms", 0))


# Compiled programs on GPUs, with batches that are created during the run. Their shapes differ, so there are no
# permanent buffers and no graphs. Each stream's thread creates a batch, copies it and waits for its outputs; while one
# thread creates a batch, another's is computed.


class CollatedCudaSession(StreamSession):
    """Each device has one copy of the weights, and ``streams`` streams."""

    def __init__(self, plan: LoadPlan, folder: Path, name: str) -> None:
        engine = read_engine(folder, name)
        devices = choose_devices(CudaRunOptions(plan.options).devices)
        super().__init__(plan, engine, workers=plan.streams * len(devices))
        tf32 = PytorchCudaEngineOptions(engine.settings).tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        self._models = [
            CompiledModel(folder / name_package(0), "cuda", index=device, at_once=plan.streams) for device in devices
        ]
        self._queues = [torch.cuda.Stream(device) for device in devices for _ in range(plan.streams)]
        self.notes = {**self.notes, "devices": [Device(device).bus for device in devices]}

    def close(self) -> None:
        super().close()
        for model in self._models:
            model.close()

    def _run(self, stream: int, rows: Rows) -> Outputs:
        arrays = self._staging[stream].batch(rows)
        queue = self._queues[stream]
        with torch.cuda.stream(queue):  # which also selects its device
            given = [torch.from_numpy(array).to(queue.device) for array in arrays]
            blobs = [(g.data_ptr(), array.shape, array.dtype.name) for g, array in zip(given, arrays, strict=True)]
            answers = self._models[queue.device.index].run(blobs, queue.cuda_stream)
            try:
                outputs = []
                for (address, elements), tensor in zip(answers.list_addresses(), self._engine.outputs, strict=True):
                    found = np.empty(elements, tensor.dtype)
                    copy(found.ctypes.data, address, found.nbytes, queue.cuda_stream)
                    outputs.append(found.reshape(-1, *tensor.shape))
                queue.synchronize()
            finally:
                answers.release()
        return [found[: count_rows(rows)] for found in outputs]
