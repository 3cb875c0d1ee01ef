"""Configuration of a build: flags, limits and profiles, checked against the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.backends import BuildPlan, Tensor
from harness.backends.tensorrt.profiles import FREE, Profile, plan_profiles
from harness.backends.tensorrt.versions import Flavour
from harness.errors import HarnessError


def configure(flavour: Flavour, builder: Any, network: Any, plan: BuildPlan) -> tuple[Any, tuple[Profile, ...]]:
    trt, options = flavour.trt, plan.options
    config = builder.create_builder_config()
    flavour.set_precision(config, plan.precision)
    flavour.share_profiles(config)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    config.builder_optimization_level = _number(options, "optimization_level", 3, most=5)
    workspace = _number(options, "workspace_mib", 0)
    if workspace:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, workspace << 20)
    if not options.get("tf32", False):
        config.clear_flag(trt.BuilderFlag.TF32)
    for option, flag in (("sparse_weights", "SPARSE_WEIGHTS"), ("version_compatible", "VERSION_COMPATIBLE")):
        if options.get(option, False):
            config.set_flag(getattr(trt.BuilderFlag, flag))
    set_compatibility(flavour, config, str(options.get("hardware_compatibility", "none")))
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


def _number(options: Any, name: str, default: int, most: int | None = None) -> int:
    number = int(options.get(name, default))
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
