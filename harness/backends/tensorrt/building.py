"""Build an engine file from an ONNX file."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.backends import FREE_BATCH, BackendEngine, BuildPlan, Tensor
from harness.backends.tensorrt.normalisation import Rewritten, keep_in_fp32, rewrite_instances
from harness.backends.tensorrt.versions import Flavour, Log, empty_log
from harness.catalog import TensorrtEngineOptions
from harness.child.digests import hash_file
from harness.cuda.driver import Device, count_devices
from harness.cuda.faults import explain_errors
from harness.errors import HarnessError
from harness.machine.facts import count_usable_cores
from harness.quantization.floats import make_typed_model

# Optimisation profiles: the shapes that an engine is built for, and the profile that a batch uses.

FREE = -1


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile tuned for its maximum shape: ``batch`` samples with ``length`` along each free axis (0: no free
    axis)."""

    batch: int
    length: int = 0

    def list_shapes(self, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return the smallest, best and largest shape of an input; FREE marks varying axes."""
        least = tuple(1 if size == FREE else size for size in shape)
        most = tuple(self._limit_size(axis, size) for axis, size in enumerate(shape))
        return least, most, most

    def _limit_size(self, axis: int, size: int) -> int:
        return size if size != FREE else self.batch if axis == 0 else self.length

    def holds(self, batch: int, shape: Sequence[int], sample: Sequence[int]) -> bool:
        """Return True if ``batch`` samples of this shape fit an input."""
        most = self.list_shapes(shape)[2]
        free = zip(shape[1:], most[1:], sample, strict=True)
        return batch <= most[0] and all(have <= limit if size == FREE else have == limit for size, limit, have in free)


def plan_profiles(
    inputs: Mapping[str, Sequence[int]], batch_size: int, options: TensorrtEngineOptions
) -> tuple[Profile, ...]:
    """Plan the profiles. ``inputs``: name -> shape with its batch axis. Raises HarnessError if the model and the
    options contradict each other."""
    fixed = {name: shape[0] for name, shape in inputs.items() if shape and shape[0] not in (FREE, batch_size)}
    if fixed:
        name, size = next(iter(fixed.items()))
        raise HarnessError(f"input {name} has a fixed batch of {size}, not {batch_size}", "input", FREE_BATCH)
    batches = parse_numbers("profiles", options.profiles) or [batch_size]
    if batches[-1] != batch_size:
        problem = f"the last of profiles {options.profiles} is not batch_size {batch_size}"
        raise HarnessError(problem, "input", "make them equal")
    if len(batches) > 1 and not any(FREE in shape[:1] for shape in inputs.values()):
        problem = f"profiles {options.profiles}: the model has a fixed batch"
        raise HarnessError(problem, "input", "export it with a dynamic batch axis, or remove engine.options.profiles")
    lengths = parse_numbers("sequence_lengths", options.sequence_lengths)
    varying = [name for name, shape in inputs.items() if FREE in shape[1:]]
    if varying and not lengths:
        problem = f"input {varying[0]} has a dynamic axis other than the batch: {list(inputs[varying[0]])}"
        raise HarnessError(problem, "input", "set engine.options.sequence_lengths, such as 384 or 128,384")
    return tuple(Profile(batch, length) for length in (lengths if varying else [0]) for batch in batches)


def parse_numbers(name: str, text: str) -> list[int]:
    """Parse a list such as "1,16,256", ascending."""
    text = text.replace(" ", "")
    try:
        found = [int(part) for part in text.split(",") if part]
    except ValueError:
        found = [0]
    if found != sorted(set(found)) or (found and found[0] < 1):
        raise HarnessError(f"{name} {text!r} is not an ascending list of counts", "input", "use the form 128,384")
    return found


def find_profile(
    profiles: Sequence[Profile], batch: int, shapes: Iterable[Sequence[int]], samples: Iterable[Sequence[int]]
) -> int:
    """Return the number of the tightest profile that fits a batch of such samples; -1 if there is none."""
    pairs = list(zip(shapes, samples, strict=True))
    holding = [
        (profile.length, profile.batch, number)
        for number, profile in enumerate(profiles)
        if all(profile.holds(batch, shape, sample) for shape, sample in pairs)
    ]
    return min(holding)[2] if holding else -1


ENGINE_FILE = "model.plan"
_PLUGINS: set[Path] = set()  # loaded in this process


def build_engine(flavour: Flavour, plan: BuildPlan) -> BackendEngine:
    """Build an engine. Raises HarnessError with all errors of the parser or builder."""
    if not flavour.builds(plan.precision):
        problem = f"TensorRT {flavour.version} builds no {plan.precision} engine"
        raise HarnessError(problem, "input", "use TensorRT 10 or later")
    device = _open_device()
    log = empty_log(flavour.trt)
    options = TensorrtEngineOptions(plan.options)
    libraries = load_plugins(flavour, log, options)
    builder = _create_builder(flavour, log)
    builder.max_threads = count_usable_cores()
    network = flavour.create_network(builder)
    with tempfile.TemporaryDirectory(dir=plan.output.parent) as folder:
        typed = flavour.strongly_typed
        model = (
            make_typed_model(plan.model, Path(folder), plan.precision, half_inputs=options.half_inputs)
            if typed
            else plan.model
        )
        rewritten = Rewritten(model) if flavour.normalises_instances else rewrite_instances(model, Path(folder))
        parse(flavour, network, rewritten.model, log)
        if options.half_inputs and not typed:
            halve_inputs(flavour.trt, network)
        config, profiles = configure(flavour, builder, network, plan)
        if rewritten.count and plan.precision != "fp32":
            keep_in_fp32(flavour.trt, network, config, rewritten)
        timing = TimingCache(plan.caches.get("timing") if device else None, flavour.version)
        timing.attach(config)
        content = _serialize_engine(flavour, builder, network, config, plan, log)
    (plan.output / ENGINE_FILE).write_bytes(content)
    if lost := timing.keep(config):
        log.take("WARNING", lost)
    made = {
        "flavour": flavour.name,
        "strongly_typed": flavour.strongly_typed,
        "compute_capability": list(device.capability) if device else [],
        "device": device.name if device else "",
        "version_compatible": options.version_compatible,
        "hardware_compatibility": options.hardware_compatibility,
        "profiles": [[profile.batch, profile.length] for profile in profiles],
        "plugins": libraries,
        **({"rewritten": rewritten.describe()} if rewritten.count else {}),
        "timing_cache": {"before": timing.before, "after": timing.after},
        "inspector": _inspect_content(flavour, log, content) if device else {},
    }
    inputs, outputs = list_tensors(network)
    fixed = {tensor.shape[0] for tensor in inputs} - {FREE}
    ins, outs = (describe_tensors(flavour.trt, found) for found in (inputs, outputs))
    return plan.describe_engine(flavour.name, flavour.version, ENGINE_FILE, ins, outs, fixed, tensorrt=made)


def _open_device() -> Device | None:
    """Find the device that an engine is built for; None without a GPU."""
    with explain_errors("GPU 0"):
        return Device(0) if count_devices() else None


def _create_builder(flavour: Flavour, log: Log) -> Any:
    try:
        return flavour.trt.Builder(log.logger)
    except TypeError as error:  # the bindings raise this if the library created no object
        problem = f"the builder of TensorRT {flavour.version} failed to start: {log.last_error}"
        raise HarnessError(problem, "missing", "it needs an NVIDIA GPU and its driver: check nvidia-smi") from error


def parse(flavour: Flavour, network: Any, model: Path, log: Log) -> None:
    parser = flavour.create_parser(network, log.logger)
    if parser.parse_from_file(str(model)):
        return
    found = [_describe_error(parser.get_error(number)) for number in range(parser.num_errors)]
    errors = list(dict.fromkeys(found or log.errors))
    listed = "\n".join(f"- {error}" for error in errors)
    fix = "check the model with onnx.checker; unsupported operators need another opset or a plug-in"
    raise HarnessError(f"TensorRT {flavour.version} cannot read {model.name}:\n{listed}", "backend", fix)


def load_plugins(flavour: Flavour, log: Log, options: TensorrtEngineOptions) -> dict[str, str]:
    """Load the declared plug-in libraries, and return their digests; TensorRT's own are always available."""
    flavour.trt.init_libnvinfer_plugins(log.logger, "")
    paths = [Path(path) for path in options.plugins.split(":") if path]
    for path in paths:
        if not path.is_file():
            raise HarnessError(f"plug-in library not found: {path}", "missing", "check engine.options.plugins")
        if path in _PLUGINS:  # each GPU loads its own engine, but a library can be loaded only once
            continue
        if flavour.trt.get_plugin_registry().load_library(str(path)) is None:
            problem = f"TensorRT does not load plug-in {path}: {log.last_error}"
            raise HarnessError(problem, "backend", "see the child's log")
        _PLUGINS.add(path)
    return {path.name: hash_file(path) for path in paths}


def halve_inputs(trt: Any, network: Any) -> None:
    for number in range(network.num_inputs):
        if network.get_input(number).dtype == trt.float32:
            network.get_input(number).dtype = trt.float16


def _serialize_engine(flavour: Flavour, builder: Any, network: Any, config: Any, plan: BuildPlan, log: Log) -> bytes:
    counter = plan.counter
    monitor = flavour.show_progress(config, lambda steps: counter.stage("building", steps), lambda: counter.bump(1))
    content = builder.build_serialized_network(network, config)
    del monitor
    if content is None:
        memory = any("memory" in error.lower() for error in log.errors)
        raise HarnessError(
            f"TensorRT {flavour.version} cannot build the engine:\n" + "\n".join(f"- {error}" for error in log.errors),
            "resources" if memory else "backend",
            "lower batch_size or workspace_mib" if memory else "see the builder's output in the child's log",
        )
    return bytes(content)


def _inspect_content(flavour: Flavour, log: Log, content: bytes) -> dict[str, Any]:
    runtime = flavour.trt.Runtime(log.logger)
    if hasattr(runtime, "engine_host_code_allowed"):
        runtime.engine_host_code_allowed = True
    engine = runtime.deserialize_cuda_engine(content)
    context = flavour.create_context(engine) if engine is not None else None
    if context is None:
        return {}
    for number in range(engine.num_io_tensors):
        name = engine.get_tensor_name(number)
        given = engine.get_tensor_mode(name) == flavour.trt.TensorIOMode.INPUT
        if given and FREE in tuple(engine.get_tensor_shape(name)):
            context.set_input_shape(name, tuple(engine.get_tensor_profile_shape(name, 0)[2]))
    return inspect(flavour.trt, engine, context)


def _describe_error(error: Any) -> str:
    """Describe an error, with its node if this version reports it."""
    where = [str(value()) for name in ("node_name", "node_operator") if callable(value := getattr(error, name, None))]
    named = " ".join(part for part in where if part)
    return f"{named}: {error.desc()}" if named else str(error.desc())


def configure(flavour: Flavour, builder: Any, network: Any, plan: BuildPlan) -> tuple[Any, tuple[Profile, ...]]:
    trt, options = flavour.trt, TensorrtEngineOptions(plan.options)
    config = builder.create_builder_config()
    flavour.set_precision(config, plan.precision)
    flavour.share_profiles(config)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    config.builder_optimization_level = _check_range("optimization_level", options.optimization_level, most=5)
    workspace = _check_range("workspace_mib", options.workspace_mib)
    if workspace:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, workspace << 20)
    if not options.tf32:
        config.clear_flag(trt.BuilderFlag.TF32)
    if options.sparse_weights:
        config.set_flag(trt.BuilderFlag.SPARSE_WEIGHTS)
    if options.version_compatible:
        config.set_flag(trt.BuilderFlag.VERSION_COMPATIBLE)
    set_compatibility(flavour, config, options.hardware_compatibility)
    inputs, outputs = list_tensors(network)
    require_batches(inputs, outputs, plan.batch_size)
    describe_tensors(trt, [*inputs, *outputs])  # fails before a long build if a tensor cannot be described
    profiles = plan_profiles({tensor.name: tuple(tensor.shape) for tensor in inputs}, plan.batch_size, options)
    if any(FREE in tuple(tensor.shape) for tensor in inputs):
        for wanted in profiles:
            profile = builder.create_optimization_profile()
            for tensor in inputs:
                profile.set_shape(tensor.name, *wanted.list_shapes(tuple(tensor.shape)))
            config.add_optimization_profile(profile)
    return config, profiles


def set_compatibility(flavour: Flavour, config: Any, level: str) -> None:
    """Set the devices that may run the engine. Raises HarnessError if this version does not have that compatibility
    level."""
    if level == "none":
        return
    known = getattr(flavour.trt.HardwareCompatibilityLevel, level.upper(), None)
    if known is None:
        problem = f"TensorRT {flavour.version} does not know hardware_compatibility {level}"
        raise HarnessError(problem, "input", "use TensorRT 10 or later, or ampere_plus")
    config.hardware_compatibility_level = known


def require_batches(inputs: Sequence[Any], outputs: Sequence[Any], batch_size: int) -> None:
    """Raise HarnessError if an input or output does not begin with the batch axis, since its rows would not be
    samples."""
    if not outputs:
        raise HarnessError("the model has no output", "input", "export or download it again")
    free = any(tuple(tensor.shape)[:1] == (FREE,) for tensor in inputs)
    for kind, named in (("input", inputs), ("output", outputs)):
        for tensor in named:
            first = tuple(tensor.shape)[:1]
            varies = kind == "input" or batch_size == 1 or not free  # an input's fixed batch size is checked later
            if not first or (not varies and first != (FREE,)):
                problem = f"{kind} {tensor.name} of the model has no batch axis: {list(tensor.shape)}"
                fix = "export the model with the batch as the first axis of every input and output"
                raise HarnessError(problem, "input", fix)


def _check_range(name: str, number: int, most: int | None = None) -> int:
    if number < 0 or (most is not None and number > most):
        limit = "0 or more" if most is None else f"0 to {most}"
        raise HarnessError(f"engine.options.{name} {number} is out of range", "input", f"write {limit}")
    return number


def describe_tensors(trt: Any, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    return tuple(Tensor(tensor.name, tuple(tensor.shape)[1:], _find_dtype(trt, tensor)) for tensor in tensors)


def _find_dtype(trt: Any, tensor: Any) -> str:
    try:
        return str(trt.nptype(tensor.dtype).__name__)
    except TypeError as error:
        kind = str(tensor.dtype).rpartition(".")[2]
        problem = f"{tensor.name} of the model is {kind}, which is not supported for samples and answers"
        fix = "use float32 or float16 for inputs and outputs, with a Cast inside the model"
        raise HarnessError(problem, "input", fix) from error


def list_tensors(network: Any) -> tuple[list[Any], list[Any]]:
    return (
        [network.get_input(number) for number in range(network.num_inputs)],
        [network.get_output(number) for number in range(network.num_outputs)],
    )


# Summary of a built engine from TensorRT's engine inspector: layers and the types in which they compute.

_TYPES = ("FP8", "BF16", "BFloat16", "Half", "FP16", "Float", "FP32", "Int8", "Int32", "Int64", "Bool", "Int4", "FP4")
_WEIGHTS = ("ConvWeights", "Weights", "Kernel")
_TYPE = re.compile(rf"\b({'|'.join(_TYPES)})\b", re.IGNORECASE)


def inspect(trt: Any, engine: Any, context: Any) -> dict[str, Any]:
    """Inspect the engine. ``context``: a context whose shapes are set; without one a dynamic engine does not report
    formats. The result is empty if the engine has no information.
    """
    inspector = engine.create_engine_inspector()
    inspector.execution_context = context
    try:
        # Names of fused layers contain control characters.
        document = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON), strict=False)
    except ValueError:
        return {}
    return summarise_layers(document.get("Layers") or [])


def summarise_layers(layers: list[str | Mapping[str, Any]]) -> dict[str, Any]:
    """Summarise the engine. ``layers``: their number; ``types``: number of layers by kind; ``outputs``: number of
    layers by output type; ``precisions``: layer name -> type of its first output."""
    described = [layer for layer in layers if isinstance(layer, Mapping)]
    precisions = {str(layer.get("Name", "")): parse_precision(layer) for layer in described}
    return {
        "layers": len(layers),
        "types": dict(sorted(Counter(str(layer.get("LayerType", "")) for layer in described).items())),
        "outputs": dict(sorted(Counter(precisions.values()).items())),
        "precisions": precisions,
    }


def parse_precision(layer: Mapping[str, Any]) -> str:
    """Return "Int8" for "Thirty-two wide channel vectorized row major Int8 format"; otherwise the type of the weights,
    or ""."""
    outputs = layer.get("Outputs") or []
    first = outputs[0] if outputs else {}
    found_weights = (layer.get(name) for name in _WEIGHTS)
    weights: Mapping[str, Any] = next((item for item in found_weights if isinstance(item, Mapping)), {})
    for description in (first.get("Format/Datatype", first.get("Format", "")), weights.get("Type", "")):
        if found := _TYPE.search(str(description)):
            return found[1]
    return ""


# The timing cache: the builder's kernel measurements, shared between builds.
#
# It is merged under a lock, so concurrent builds lose no measurements.


class TimingCache:
    """One file per flavour and version. ``path`` None keeps nothing."""

    def __init__(self, path: Path | None, version: str) -> None:
        self._path = path.with_name(f"{path.stem}-{version}{path.suffix}") if path else None
        self.before = self.after = ""

    def attach(self, config: Any) -> None:
        """Pass the cache to the builder. A cache of another device or version is ignored, and its kernels are measured
        again."""
        if self._path is None:
            return
        known = self._read()
        self.before = _digest(known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # deprecated in TensorRT for RTX
            cache = _create_cache(config, known)
            if cache is None or not config.set_timing_cache(cache, False):
                self.before = ""
                config.set_timing_cache(config.create_timing_cache(b""), False)

    def keep(self, config: Any) -> str:
        """Add this build's measurements; return the reason if they cannot be written. That only slows down the next
        build, so it must not fail this one.
        """
        cache = config.get_timing_cache() if self._path else None
        if cache is None or self._path is None:
            return ""
        aside = self._path.with_name(self._path.name + ".partial")
        try:
            with self._lock_file():
                known = _create_cache(config, self._read())
                if known is not None:
                    with contextlib.suppress(Exception):  # a cache that cannot be merged is replaced
                        cache.combine(known, False)
                content = bytes(cache.serialize())
                aside.write_bytes(content)
                aside.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink()
            return f"the timing cache was not saved: {error}"
        self.after = _digest(content)
        return ""

    def _read(self) -> bytes:
        try:
            return self._path.read_bytes() if self._path else b""
        except OSError:
            return b""

    @contextlib.contextmanager
    def _lock_file(self) -> Iterator[None]:
        assert self._path is not None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_name(self._path.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _create_cache(config: Any, content: bytes) -> Any:
    try:
        return config.create_timing_cache(content)
    except Exception:  # damaged bytes; its exceptions share no base class
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if content else ""
