"""ONNX Runtime's CUDA provider in the CUDA pipeline: the same buffers and streams, through I/O binding.

The engine file is the model in its float type; ONNX Runtime rewrites the graph for the device when it loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from harness.backends import BackendEngine, BuildPlan, LoadPlan, Tensor
from harness.contract import BACKENDS, Fact, installing
from harness.cuda.driver import Device, DeviceMemory, DeviceMemoryError, Stream
from harness.cuda.nvml import device_evidence
from harness.cuda.pipeline import CudaSession
from harness.digests import hash_files
from harness.errors import HarnessError
from harness.machine import find_distribution_version
from harness.quantization.floats import save_typed, tensors_of

NAME = "onnxruntime-cuda"
ENGINE_FILE = "model.onnx"
_PROVIDER = "CUDAExecutionProvider"
_FREE = -1

Shape = tuple[int, ...]


def facts() -> dict[str, Fact]:
    libraries = Path(ort.__file__).parent / "capi"
    values = {
        "backend.version": _version(),
        "backend.digest": hash_files(libraries, libraries.glob("*.so*")),
    }
    return {name: Fact(value=value, role="evidence") for name, value in values.items()} | device_evidence()


def build(plan: BuildPlan) -> BackendEngine:
    save_typed(
        plan.model,
        plan.output / ENGINE_FILE,
        plan.precision,
        half_inputs=bool(plan.options.get("half_inputs", False)),
    )
    inputs, outputs = tensors_of(plan.output / ENGINE_FILE)
    fixed = {batch for batch, _ in inputs if batch != _FREE}
    if fixed and fixed != {plan.batch_size}:
        raise HarnessError(
            f"{plan.model.name} has a fixed batch of {sorted(fixed)}, not {plan.batch_size}",
            "input",
            "export the model with a free batch axis, or set batch_size to the model's",
        )
    return BackendEngine(
        backend=NAME,
        version=_version(),
        file=ENGINE_FILE,
        precision=plan.precision,
        batch_size=plan.batch_size,
        batch_sizes=tuple(fixed),
        inputs=tuple(tensor for _, tensor in inputs),
        outputs=tuple(tensor for _, tensor in outputs),
        settings=dict(plan.options),
    )


def load(plan: LoadPlan) -> CudaSession:
    folder = plan.require_engine("ONNX Runtime")
    if _PROVIDER not in ort.get_available_providers():
        raise HarnessError(
            f"this ONNX Runtime ({_version()}) has no CUDA provider",
            "missing",
            f"pip uninstall onnxruntime, then {installing('cuda')}",
        )
    engine = BackendEngine.read(folder, NAME)
    if plan.batch_size > engine.batch_size:
        raise HarnessError(
            f"the engine does not fit: the run wants batches of {plan.batch_size}, it takes {engine.batch_size}",
            "input",
            "lower run.batch_size, or build with a larger engine.batch_size",
        )
    return CudaSession(plan, partial(LoadedModel, engine, plan))


class LoadedModel:
    """A model on one device: one session per stream, since a session computes on one stream only."""

    capturable = False  # its own graphs wait for their end at each replay

    def __init__(self, engine: BackendEngine, plan: LoadPlan, device: Device) -> None:
        self._engine, self._path = engine, plan.require_engine("ONNX Runtime") / engine.file
        self._options, self._device = plan.options, device
        self._sessions: dict[int, Any] = {}
        self.batch_size, self.batch_sizes = engine.batch_size, engine.batch_sizes
        if plan.scenario in ("Server", "Offline"):
            # It plans its convolutions again whenever the shape of a batch changes, which takes longer than padding.
            self.batch_sizes = self.batch_sizes or (min(plan.batch_size, engine.batch_size),)
        self.inputs: Sequence[Tensor] = engine.inputs
        self.notes: Mapping[str, Any] = {"precision": engine.precision}

    def outputs(self, inputs: Sequence[Shape]) -> Sequence[Tensor]:
        """Free axes of an output are those of the first input, as where each token has an answer."""
        return [Tensor(t.name, _filled(t.shape, inputs[0]), t.dtype) for t in self._engine.outputs]

    def wanted(self, inputs: Sequence[Shape]) -> int:
        """A guess from the sizes of the samples; ONNX Runtime plans its memory as it runs."""
        return self.batch_size * sum(4 * prod(shape) for shape in inputs)

    def open(
        self, shapes: Sequence[Shape], inputs: Sequence[DeviceMemory], outputs: Sequence[DeviceMemory], stream: Stream
    ) -> BoundModel:
        session = self._sessions.get(int(stream))
        if session is None:
            session = self._sessions[int(stream)] = self._session(int(stream))
        taken = [*zip(self.inputs, shapes, inputs, strict=True)]
        named = self.outputs(shapes)
        given = [*zip(named, [tensor.shape for tensor in named], outputs, strict=True)]
        return BoundModel(session, self._device.index, taken, given)

    def _session(self, stream: int) -> Any:
        options = ort.SessionOptions()
        options.log_severity_level = 3
        choices = {
            "device_id": str(self._device.index),
            "user_compute_stream": str(stream),
            "prefer_nhwc": "1" if self._options.get("prefer_nhwc", True) else "0",
            "use_tf32": "1" if self._options.get("tf32", False) else "0",
            "cudnn_conv_algo_search": str(self._options.get("convolution_search", "exhaustive")).upper(),
        }
        try:
            session = ort.InferenceSession(str(self._path), options, providers=[(_PROVIDER, choices)])
        except Exception as error:  # its exceptions share no base class
            raise _problem(error, f"ONNX Runtime {_version()} cannot load {self._path.name}") from error
        if session.get_providers()[0] != _PROVIDER:
            raise HarnessError(
                "ONNX Runtime fell back to the CPU: its CUDA provider does not load",
                "missing",
                "install the CUDA and cuDNN libraries that it names in the child's log",
            )
        return session


class BoundModel:
    """Bindings to the buffers of one lane, one for each batch size."""

    def __init__(
        self,
        session: Any,
        device: int,
        inputs: Sequence[tuple[Tensor, Shape, DeviceMemory]],
        outputs: Sequence[tuple[Tensor, Shape, DeviceMemory]],
    ) -> None:
        self._session, self._device, self._inputs, self._outputs = session, device, inputs, outputs

    def prepare(self, size: int) -> Callable[[], None]:
        binding = self._session.io_binding()
        for bind, tensors in ((binding.bind_input, self._inputs), (binding.bind_output, self._outputs)):
            for tensor, shape, memory in tensors:
                bind(tensor.name, "cuda", self._device, np.dtype(tensor.dtype), (size, *shape), memory.address)
        options = ort.RunOptions()
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        run = self._session.run_with_iobinding

        def enqueue() -> None:
            try:
                run(binding, options)
            except Exception as error:  # its exceptions share no base class
                raise _problem(error, "ONNX Runtime refuses a batch") from error

        return enqueue


def _problem(error: Exception, what: str) -> Exception:
    text = str(error)
    if "out of memory" in text.lower() or "Failed to allocate memory" in text:
        return DeviceMemoryError("CUDA_ERROR_OUT_OF_MEMORY", text.splitlines()[0])
    return HarnessError(
        f"{what}: {text}",
        "backend",
        "check the model with onnx.checker; an operator that is not supported may need another opset or backend",
    )


def _filled(shape: Shape, sample: Shape) -> Shape:
    return tuple(
        sample[axis] if size == _FREE and axis < len(sample) else max(size, 1) for axis, size in enumerate(shape)
    )


def _version() -> str:
    return find_distribution_version(*BACKENDS[NAME].distributions)
