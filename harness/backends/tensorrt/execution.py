"""Run a built engine in the CUDA pipeline: contexts, profiles, shapes and addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.backends import BackendEngine, LoadPlan, Tensor
from harness.backends.tensorrt.building import FREE, Profile, find_profile, load_plugins
from harness.backends.tensorrt.versions import Flavour, Here, empty_log, refuse_misfit
from harness.catalog import TensorrtEngineOptions
from harness.cuda.driver import Device, DeviceMemory, DeviceMemoryError, Stream
from harness.cuda.pipeline import CudaSession
from harness.errors import HarnessError

Shape = tuple[int, ...]
_LEAST = 64 << 20  # bytes; with fewer, CUDA's own allocations fail with misleading errors


def open_engine(flavour: Flavour, plan: LoadPlan) -> CudaSession:
    folder = plan.require_engine("TensorRT")
    engine = BackendEngine.read(folder, flavour.name)

    def load(device: Device) -> TensorRTEngine:
        here = Here(flavour.name, flavour.version, device.capability, device.name)
        refuse_misfit(engine, here, plan.batch_size)
        return TensorRTEngine(flavour, engine, folder / engine.file, device)

    return CudaSession(plan, load)


class TensorRTEngine:
    """An engine on one device. Contexts that never compute at the same time share memory."""

    def __init__(self, flavour: Flavour, engine: BackendEngine, path: Path, device: Device) -> None:
        self._flavour, self._device, self._log = flavour, device, empty_log(flavour.trt, quiet=True)
        made = engine.settings.get("tensorrt", {})
        load_plugins(flavour, self._log, TensorrtEngineOptions(engine.settings))
        self._runtime = flavour.trt.Runtime(self._log.logger)
        if made.get("version_compatible") and hasattr(self._runtime, "engine_host_code_allowed"):
            self._runtime.engine_host_code_allowed = True
        self._engine = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if self._engine is None:
            problem = f"TensorRT {flavour.version} cannot load {path.name}: {self._log.last_error}"
            raise HarnessError(problem, "backend", "build the engine again")
        self.batch_size, self.batch_sizes = engine.batch_size, engine.batch_sizes
        self.inputs: Sequence[Tensor] = engine.inputs
        self._outputs = engine.outputs
        self._profiles = [Profile(batch, length) for batch, length in made["profiles"]]
        self._shared: dict[int, DeviceMemory] = {}
        self.capturable = True
        self.notes: Mapping[str, Any] = {"precision": engine.precision, "profiles": made["profiles"]}

    def list_outputs(self, inputs: Sequence[Shape]) -> Sequence[Tensor]:
        context = self.create_context(self.choose_profile(1, inputs), None)
        self.set_shapes(context, 1, inputs)
        shapes = {tensor.name: tuple(context.get_tensor_shape(tensor.name)) for tensor in self._outputs}
        for name, shape in shapes.items():
            if FREE in shape:
                problem = f"the shape of output {name} depends on the samples' values: {list(shape)}"
                raise HarnessError(problem, "input", "pad it to a fixed shape in the model")
        return [Tensor(tensor.name, shapes[tensor.name][1:], tensor.dtype) for tensor in self._outputs]

    def estimate_memory(self, inputs: Sequence[Shape]) -> int:
        return max(self._flavour.get_context_bytes(self._engine, number) for number in self._list_profiles(inputs))

    def open(
        self, shapes: Sequence[Shape], inputs: Sequence[DeviceMemory], outputs: Sequence[DeviceMemory], stream: Stream
    ) -> BoundEngine:
        if int(stream) not in self._shared:
            self._shared[int(stream)] = self._device.allocate(self.estimate_memory(shapes))
        named = [*zip(self.inputs, inputs, strict=True), *zip(self._outputs, outputs, strict=True)]
        addresses = {tensor.name: memory.address for tensor, memory in named}
        return BoundEngine(self, shapes, addresses, int(stream), self._shared[int(stream)])

    def create_context(self, profile: int, memory: DeviceMemory | None, stream: int = 0) -> Any:
        """Create a context. With ``memory`` None it can only be queried for shapes."""
        context = self._flavour.create_context(self._engine)
        if context is None:
            starved = self._device.get_free_memory() < _LEAST
            if starved or any("memory" in error.lower() for error in self._log.errors):
                raise DeviceMemoryError("CUDA_ERROR_OUT_OF_MEMORY", self._log.last_error)
            raise HarnessError(f"no execution context: {self._log.last_error}", "backend", "see the child's log")
        if context.active_optimization_profile != profile:
            context.set_optimization_profile_async(profile, stream)
        if memory is not None:
            self._flavour.give_memory(context, memory.address, memory.size)
        return context

    def set_shapes(self, context: Any, size: int, inputs: Sequence[Shape]) -> None:
        for tensor, sample in zip(self.inputs, inputs, strict=True):
            if FREE in self._add_batch_axis(tensor):
                context.set_input_shape(tensor.name, (size, *sample))

    def choose_profile(self, size: int, inputs: Sequence[Shape]) -> int:
        """Find the profile. Raises HarnessError if the engine was not built for such samples."""
        found = find_profile(self._profiles, size, [self._add_batch_axis(tensor) for tensor in self.inputs], inputs)
        if found < 0:
            profiles = ", ".join(
                f"batch {p.batch}" + (f" length {p.length}" if p.length else "") for p in self._profiles
            )
            raise HarnessError(
                f"a batch of {size} samples of {[list(shape) for shape in inputs]} is outside "
                f"its profiles ({profiles})",
                "input",
                "rebuild with larger sequence_lengths or batch_size, or fix preprocessing",
            )
        return found

    def explain_refusal(self) -> HarnessError:
        return HarnessError(f"TensorRT rejected a batch: {self._log.last_error}", "backend", "see the log of this run")

    def _list_profiles(self, inputs: Sequence[Shape]) -> set[int]:
        sizes = self.batch_sizes or [profile.batch for profile in self._profiles]
        return {self.choose_profile(size, inputs) for size in sizes}

    def _add_batch_axis(self, tensor: Tensor) -> Shape:
        return (self.batch_sizes[0] if self.batch_sizes else FREE, *tensor.shape)


class BoundEngine:
    """Contexts for the buffers of one lane, one per batch size, since a captured graph continues to use its context."""

    def __init__(
        self,
        engine: TensorRTEngine,
        shapes: Sequence[Shape],
        addresses: Mapping[str, int],
        stream: int,
        memory: DeviceMemory,
    ) -> None:
        self._engine, self._shapes, self._addresses = engine, shapes, addresses
        self._stream, self._memory = stream, memory

    def prepare(self, size: int) -> Callable[[], None]:
        engine, stream = self._engine, self._stream
        context = engine.create_context(engine.choose_profile(size, self._shapes), self._memory, stream)
        engine.set_shapes(context, size, self._shapes)
        for name, address in self._addresses.items():
            context.set_tensor_address(name, address)
        execute = context.execute_async_v3

        def enqueue() -> None:
            if not execute(stream):
                raise engine.explain_refusal()

        return enqueue
