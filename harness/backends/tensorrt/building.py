"""From an ONNX file to an engine file."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.backends import BackendEngine, BuildPlan, Tensor
from harness.backends.tensorrt.inspection import inspect
from harness.backends.tensorrt.messages import Log, log_of
from harness.backends.tensorrt.normalisation import Rewritten, keep_in_fp32, rewrite_instances
from harness.backends.tensorrt.profiles import FREE, Profile, plan_profiles
from harness.backends.tensorrt.timing import TimingCache
from harness.backends.tensorrt.versions import Flavour
from harness.catalog import TensorrtEngineOptions
from harness.child.digests import hash_file
from harness.cuda.driver import CudaError, Device, count_devices
from harness.cuda.faults import explain_cuda_error
from harness.errors import HarnessError
from harness.machine.facts import count_usable_cores
from harness.quantization.floats import make_typed_model

ENGINE_FILE = "model.plan"
_PLUGINS: set[Path] = set()  # those of this process


def build_engine(flavour: Flavour, plan: BuildPlan) -> BackendEngine:
    """Raises HarnessError with every error of parser or builder."""
    if not flavour.builds(plan.precision):
        raise HarnessError(
            f"TensorRT {flavour.version} builds no {plan.precision} engine", "input", "use TensorRT 10 or later"
        )
    device = _device()
    log = log_of(flavour.trt)
    options = TensorrtEngineOptions(plan.options)
    libraries = load_plugins(flavour, log, options)
    builder = _builder(flavour, log)
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
        content = _serialized(flavour, builder, network, config, plan, log)
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
        **({"rewritten": rewritten.document()} if rewritten.count else {}),
        "timing_cache": {"before": timing.before, "after": timing.after},
        "inspector": _inspected(flavour, log, content) if device else {},
    }
    return _described(flavour, network, plan, {**plan.options, "tensorrt": made})


def _device() -> Device | None:
    """Find the device that an engine is built for; None where there is no GPU."""
    try:
        return Device(0) if count_devices() else None
    except CudaError as error:
        raise explain_cuda_error(error, "GPU 0") from error


def _builder(flavour: Flavour, log: Log) -> Any:
    try:
        return flavour.trt.Builder(log.logger)
    except TypeError as error:  # how the bindings say that the library made none
        raise HarnessError(
            f"the builder of TensorRT {flavour.version} does not start: {log.last()}",
            "missing",
            "it needs an NVIDIA GPU and its driver: check nvidia-smi",
        ) from error


def parse(flavour: Flavour, network: Any, model: Path, log: Log) -> None:
    parser = flavour.create_parser(network, log.logger)
    if parser.parse_from_file(str(model)):
        return
    errors = list(dict.fromkeys(_errors(parser) or log.errors))
    listed = "\n".join(f"- {error}" for error in errors)
    raise HarnessError(
        f"TensorRT {flavour.version} cannot read {model.name}:\n{listed}",
        "backend",
        "check the model with onnx.checker; an operator that is not supported needs another opset or a plug-in",
    )


def load_plugins(flavour: Flavour, log: Log, options: TensorrtEngineOptions) -> dict[str, str]:
    """The declared plug-in libraries, each with the digest of its bytes; TensorRT's own are always there."""
    flavour.trt.init_libnvinfer_plugins(log.logger, "")
    paths = [Path(path) for path in options.plugins.split(":") if path]
    for path in paths:
        if not path.is_file():
            raise HarnessError(f"no plug-in library {path}", "missing", "check engine.options.plugins")
        if path in _PLUGINS:  # each GPU loads its engine, and a library that is loaded already is refused
            continue
        if flavour.trt.get_plugin_registry().load_library(str(path)) is None:
            raise HarnessError(f"TensorRT does not load plug-in {path}: {log.last()}", "backend", "see the child's log")
        _PLUGINS.add(path)
    return {path.name: hash_file(path) for path in paths}


def halve_inputs(trt: Any, network: Any) -> None:
    for number in range(network.num_inputs):
        if network.get_input(number).dtype == trt.float32:
            network.get_input(number).dtype = trt.float16


def _serialized(flavour: Flavour, builder: Any, network: Any, config: Any, plan: BuildPlan, log: Log) -> bytes:
    counter = plan.counter
    monitor = flavour.show_progress(config, lambda steps: counter.stage("building", steps), lambda: counter.bump(1))
    content = builder.build_serialized_network(network, config)
    del monitor
    if content is None:
        memory = any("memory" in error.lower() for error in log.errors)
        raise HarnessError(
            f"TensorRT {flavour.version} cannot build the engine:\n" + "\n".join(f"- {error}" for error in log.errors),
            "resources" if memory else "backend",
            "lower batch_size or workspace_mib" if memory else "see the child's log for what the builder tried",
        )
    return bytes(content)


def _inspected(flavour: Flavour, log: Log, content: bytes) -> dict[str, Any]:
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


def _described(flavour: Flavour, network: Any, plan: BuildPlan, settings: dict[str, Any]) -> BackendEngine:
    inputs, outputs = tensors(network)
    fixed = {tensor.shape[0] for tensor in inputs} - {FREE}
    return BackendEngine(
        backend=flavour.name,
        version=flavour.version,
        file=ENGINE_FILE,
        precision=plan.precision,
        batch_size=plan.batch_size,
        batch_sizes=tuple(fixed),
        inputs=list_tensors_of(flavour.trt, inputs),
        outputs=list_tensors_of(flavour.trt, outputs),
        settings=settings,
    )


def _errors(parser: Any) -> list[str]:
    found = [parser.get_error(number) for number in range(parser.num_errors)]
    return [_text(error) for error in found]


def _text(error: Any) -> str:
    """Describe what was wrong, and at which node where the version says so."""
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
    inputs, outputs = tensors(network)
    require_batches(inputs, outputs, plan.batch_size)
    list_tensors_of(trt, [*inputs, *outputs])  # what cannot be described is refused before a long build
    profiles = plan_profiles({tensor.name: tuple(tensor.shape) for tensor in inputs}, plan.batch_size, options)
    if any(FREE in tuple(tensor.shape) for tensor in inputs):
        for wanted in profiles:
            profile = builder.create_optimization_profile()
            for tensor in inputs:
                profile.set_shape(tensor.name, *wanted.shapes(tuple(tensor.shape)))
            config.add_optimization_profile(profile)
    return config, profiles


def set_compatibility(flavour: Flavour, config: Any, level: str) -> None:
    """Which devices may run the engine. Raises HarnessError where this version knows no such level."""
    if level == "none":
        return
    known = getattr(flavour.trt.HardwareCompatibilityLevel, level.upper(), None)
    if known is None:
        raise HarnessError(
            f"TensorRT {flavour.version} does not know hardware_compatibility {level}",
            "input",
            "use TensorRT 10 or later, or ampere_plus",
        )
    config.hardware_compatibility_level = known


def require_batches(inputs: Sequence[Any], outputs: Sequence[Any], batch_size: int) -> None:
    """Raises HarnessError where an input or output does not begin with the batch: its rows would be no samples."""
    if not outputs:
        raise HarnessError("the model has no output", "input", "export or download it again")
    free = any(tuple(tensor.shape)[:1] == (FREE,) for tensor in inputs)
    for kind, named in (("input", inputs), ("output", outputs)):
        for tensor in named:
            first = tuple(tensor.shape)[:1]
            varies = (
                kind == "input" or batch_size == 1 or not free
            )  # a fixed batch of an input is compared with ours later
            if not first or (not varies and first != (FREE,)):
                raise HarnessError(
                    f"{kind} {tensor.name} of the model has no batch axis: {list(tensor.shape)}",
                    "input",
                    "export the model with the batch as the first axis of every input and output",
                )


def _check_range(name: str, number: int, most: int | None = None) -> int:
    if number < 0 or (most is not None and number > most):
        limit = "0 or more" if most is None else f"0 to {most}"
        raise HarnessError(f"engine.options.{name} {number} is out of range", "input", f"write {limit}")
    return number


def list_tensors_of(trt: Any, tensors: Sequence[Any]) -> tuple[Tensor, ...]:
    return tuple(Tensor(tensor.name, tuple(tensor.shape)[1:], _dtype(trt, tensor)) for tensor in tensors)


def _dtype(trt: Any, tensor: Any) -> str:
    try:
        return str(trt.nptype(tensor.dtype).__name__)
    except TypeError as error:
        kind = str(tensor.dtype).rpartition(".")[2]
        raise HarnessError(
            f"{tensor.name} of the model is {kind}, in which neither samples nor answers can be kept",
            "input",
            "let the model take and give float32 or float16, with a Cast inside",
        ) from error


def tensors(network: Any) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs."""
    return (
        [network.get_input(number) for number in range(network.num_inputs)],
        [network.get_output(number) for number in range(network.num_outputs)],
    )
