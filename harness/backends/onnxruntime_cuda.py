"""ONNX Runtime's CUDA provider in the CUDA pipeline: the same buffers and streams, through I/O binding.

The engine file is the model in its float type; ONNX Runtime optimises the graph for the device when it loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from harness.backends import BackendEngine, BuildPlan, LoadPlan, Tensor, collect_library_facts, find_backend_version
from harness.catalog import OnnxruntimeCudaEngineOptions, OnnxruntimeCudaRunOptions
from harness.contract import Fact, show_install
from harness.cuda.driver import Device, DeviceMemory, DeviceMemoryError, Stream
from harness.cuda.nvml import collect_device_evidence
from harness.cuda.pipeline import CudaSession
from harness.errors import HarnessError
from harness.quantization.floats import list_tensors, save_typed

NAME = "onnxruntime-cuda"
ENGINE_FILE = "model.onnx"
_PROVIDER = "CUDAExecutionProvider"
_FREE = -1
_TRACED = 2  # runs until its memory is allocated, which is not possible during graph capture

Shape = tuple[int, ...]
_find_version = partial(find_backend_version, NAME)


def facts() -> dict[str, Fact]:
    libraries = Path(ort.__file__).parent / "capi"
    return collect_library_facts(_find_version(), libraries, libraries.glob("*.so*")) | collect_device_evidence()


def build(plan: BuildPlan) -> BackendEngine:
    save_typed(
        plan.model,
        plan.output / ENGINE_FILE,
        plan.precision,
        half_inputs=OnnxruntimeCudaEngineOptions(plan.options).half_inputs,
    )
    inputs, outputs = list_tensors(plan.output / ENGINE_FILE)
    fixed = {batch for batch, _ in inputs if batch != _FREE}
    plan.refuse_fixed_batch(fixed)
    ins, outs = ([tensor for _, tensor in tensors] for tensors in (inputs, outputs))
    return plan.describe_engine(NAME, _find_version(), ENGINE_FILE, ins, outs, fixed)


def load(plan: LoadPlan) -> CudaSession:
    folder = plan.require_engine("ONNX Runtime")
    if _PROVIDER not in ort.get_available_providers():
        problem = f"this ONNX Runtime ({_find_version()}) has no CUDA provider"
        raise HarnessError(problem, "missing", f"pip uninstall onnxruntime, then {show_install('cuda')}")
    engine = BackendEngine.read(folder, NAME)
    engine.require_batch(plan.batch_size)
    return CudaSession(plan, partial(LoadedModel, engine, plan))


class LoadedModel:
    """A model on one device. It has one session per stream, since a session computes on only one stream.

    A captured graph refers to the kernels that the session created for one batch size and releases for the next size,
    so graphs need a session per size.
    """

    def __init__(self, engine: BackendEngine, plan: LoadPlan, device: Device) -> None:
        self._engine, self._path = engine, plan.require_engine("ONNX Runtime") / engine.file
        self._options, self._device = OnnxruntimeCudaRunOptions(plan.options), device
        self._sessions: dict[tuple[int, int], Any] = {}
        self.capturable = self._options.capture
        self.batch_size, self.batch_sizes = engine.batch_size, engine.batch_sizes
        if plan.scenario in ("Server", "Offline"):
            # ONNX Runtime plans convolutions again whenever the batch shape changes, which takes longer than padding.
            self.batch_sizes = self.batch_sizes or (min(plan.batch_size, engine.batch_size),)
        self.inputs: Sequence[Tensor] = engine.inputs
        self.notes: Mapping[str, Any] = {"precision": engine.precision}

    def list_outputs(self, inputs: Sequence[Shape]) -> Sequence[Tensor]:
        """List the outputs. Their free axes are those of the first input, as if each token had an answer."""
        return [Tensor(t.name, _fill_shape(t.shape, inputs[0]), t.dtype) for t in self._engine.outputs]

    def estimate_memory(self, inputs: Sequence[Shape]) -> int:
        """Estimate from the sizes of the samples; ONNX Runtime allocates memory as it runs."""
        return self.batch_size * sum(4 * prod(shape) for shape in inputs)

    def open(
        self, shapes: Sequence[Shape], inputs: Sequence[DeviceMemory], outputs: Sequence[DeviceMemory], stream: Stream
    ) -> BoundModel:
        taken = [*zip(self.inputs, shapes, inputs, strict=True)]
        named = self.list_outputs(shapes)
        given = [*zip(named, [tensor.shape for tensor in named], outputs, strict=True)]
        warm_up = _TRACED if self.capturable else 0
        return BoundModel(partial(self._find_session, int(stream)), self._device.index, taken, given, warm_up)

    def _find_session(self, stream: int, size: int) -> Any:
        key = stream, size if self.capturable else 0
        if key not in self._sessions:
            self._sessions[key] = self._load(stream)
        return self._sessions[key]

    def _load(self, stream: int) -> Any:
        options = ort.SessionOptions()
        options.log_severity_level = 3
        # Without TF32 it also rejects cuDNN's plans for fp16, and their replacements are slow at most sizes.
        half = self._engine.precision == "fp16"
        choices = {
            "device_id": str(self._device.index),
            "user_compute_stream": str(stream),
            "prefer_nhwc": "1" if self._options.prefer_nhwc else "0",
            "use_tf32": "1" if half or self._options.tf32 else "0",
            "cudnn_conv_algo_search": self._options.convolution_search.upper(),
        }
        if self._options.fused_bias:  # unknown to older versions
            choices["fuse_conv_bias"] = "1"
        if self.capturable:  # refuses models that would be partly computed on the host
            choices["enable_cuda_graph"] = "1"
        try:
            session = ort.InferenceSession(str(self._path), options, providers=[(_PROVIDER, choices)])
        except Exception as error:  # its exceptions share no base class
            raise _explain_error(error, f"ONNX Runtime {_find_version()} cannot load {self._path.name}") from error
        if session.get_providers()[0] != _PROVIDER:
            fix = "install the CUDA and cuDNN libraries listed in the child's log"
            raise HarnessError("ONNX Runtime fell back to the CPU: its CUDA provider does not load", "missing", fix)
        return session


class BoundModel:
    """Bindings to the buffers of one lane, one for each batch size."""

    def __init__(
        self,
        session: Callable[[int], Any],
        device: int,
        inputs: Sequence[tuple[Tensor, Shape, DeviceMemory]],
        outputs: Sequence[tuple[Tensor, Shape, DeviceMemory]],
        warm_up: int,
    ) -> None:
        self._session, self._device, self._inputs, self._outputs = session, device, inputs, outputs
        self._warm_up = warm_up

    def prepare(self, size: int) -> Callable[[], None]:
        session = self._session(size)
        binding = session.io_binding()
        for bind, tensors in ((binding.bind_input, self._inputs), (binding.bind_output, self._outputs)):
            for tensor, shape, memory in tensors:
                bind(tensor.name, "cuda", self._device, np.dtype(tensor.dtype), (size, *shape), memory.address)
        options = ort.RunOptions()
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        options.add_run_config_entry("gpu_graph_id", "-1")  # disables its own graphs, which are per thread
        run = session.run_with_iobinding

        def enqueue() -> None:
            try:
                run(binding, options)
            except Exception as error:  # its exceptions share no base class
                raise _explain_error(error, "ONNX Runtime rejected a batch") from error

        for _ in range(self._warm_up):
            enqueue()
        return enqueue


def _explain_error(error: Exception, what: str) -> Exception:
    text = str(error)
    if "graph capture feature" in text:
        return HarnessError(f"{what} as a CUDA graph: {text}", "backend", "set run.options.capture: false")
    if "out of memory" in text.lower() or "Failed to allocate memory" in text:
        return DeviceMemoryError("CUDA_ERROR_OUT_OF_MEMORY", text.splitlines()[0])
    return HarnessError(
        f"{what}: {text}",
        "backend",
        "check the model with onnx.checker; unsupported operators may need another opset or backend",
    )


def _fill_shape(shape: Shape, sample: Shape) -> Shape:
    return tuple(
        sample[axis] if size == _FREE and axis < len(sample) else max(size, 1) for axis, size in enumerate(shape)
    )
