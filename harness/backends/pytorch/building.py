"""Compile a torch.export program to packages, one per batch size or one for any size."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch._inductor import aoti_compile_and_package
from torch.export.passes import move_to_device_pass
from torch.utils import _pytree as pytree

from harness.backends import BackendEngine, BuildPlan, Tensor
from harness.backends.pytorch.fused import build_fused, is_fused
from harness.backends.pytorch.packages import describe_tensor, find_version, list_missing_operators, name_package
from harness.backends.pytorch.packed import build_packed
from harness.backends.pytorch.packed_lowering import is_packed
from harness.catalog import PytorchCudaEngineOptions, PytorchEngineOptions
from harness.errors import HarnessError

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_VOLUME_AXES = 5  # batch, channel, depth, height, width
_LEAST = 2  # a traced axis of size 1 would count as fixed
_CHECK = "check the program with torch.export.load(…).module()"


def build_engine(name: str, kind: str, plan: BuildPlan) -> BackendEngine:
    """Build the engine. ``kind``: the kind of device, "cpu" or "cuda". Raises HarnessError with PyTorch's error for the
    program."""
    _require_compiler()
    program = _read_program(plan.model, kind)
    if is_packed(program):
        return build_packed(name, kind, plan, program)
    if is_fused(program):
        return build_fused(name, kind, plan, program)
    if plan.precision not in _DTYPES:
        fix = f"use one of {', '.join(_DTYPES)}, or create the model in fp8 if its benchmark supports it"
        raise HarnessError(f"{plan.model.name} is not in fp8, but engine.precision is {plan.precision}", "input", fix)
    sizes = parse_sizes(PytorchEngineOptions(plan.options).batch_sizes, plan.batch_size)
    half = PytorchCudaEngineOptions(plan.options).half_inputs
    samples = _describe_inputs(program, plan, half_inputs=half)
    collated = len({str(size) for size, _, _ in samples if not isinstance(size, int)}) > 1
    if collated and sizes:
        problem = f"{plan.model.name} takes packed batches, which do not support engine.options.batch_sizes"
        raise HarnessError(problem, "input", "leave batch_sizes out")
    fixed = {size for size, _, _ in samples if isinstance(size, int)}
    plan.refuse_fixed_batch(fixed, "export the program with a dynamic batch axis, or set batch_size to the program's")
    sizes = () if collated else tuple(fixed) or sizes or ((1,) if plan.batch_size == 1 else ())
    plan.counter.stage("building", max(len(sizes), 1))
    outputs: tuple[Tensor, ...] = ()
    with tempfile.TemporaryDirectory(dir=plan.output.parent) as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache  # every build starts from scratch, and leaves nothing
        for size in sizes or (0,):
            module = LoweredProgram(program, _DTYPES[plan.precision], kind)
            try:
                traced = _trace(module, samples, size, plan.batch_size, kind, collated=collated)
                outputs = _describe_outputs(traced, program, size)
                _compile(traced, plan.output / name_package(size), _choose_settings(kind, plan.options))
            except HarnessError:
                raise
            except Exception as error:  # its exceptions share no base class
                problem = f"PyTorch {find_version()} cannot compile {plan.model.name}: {str(error)[:2000]}"
                raise HarnessError(problem, "backend", _CHECK) from error
            plan.counter.bump(1)
    inputs = [
        describe_tensor(name, [n if isinstance(n, int) else -1 for n in shape], dtype)
        for name, (_, shape, dtype) in zip(program.graph_signature.user_inputs, samples, strict=True)
    ]
    file = name_package(sizes[-1] if sizes else 0)
    return plan.describe_engine(name, find_version(), file, inputs, outputs, sizes)


def parse_sizes(text: str, largest: int) -> tuple[int, ...]:
    """Parse "1,16,256": ascending, ending with ``largest``. Empty for one program that computes any size."""
    if not text.strip():
        return ()
    try:
        sizes = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        sizes = (0,)
    if sizes[0] < 1 or sizes[-1] != largest:
        problem = f"engine.options.batch_sizes {text!r} does not fit batch_size {largest}"
        raise HarnessError(problem, "input", "use batch sizes such as 1,16,256, with batch_size as the largest")
    return sizes


class LoweredProgram(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """The program in its precision: flat inputs in, flat outputs out, floats among them as float32.

    Weights are stored in that precision. Autocast keeps fp32 for operators that need it, such as a softmax. On a GPU,
    volumes and their kernels have the channels last, as cuDNN's convolutions compute: otherwise cuDNN would convert the
    layout around each convolution. Inductor does the same for images itself.
    """

    def __init__(self, program: Any, dtype: torch.dtype, kind: str) -> None:
        super().__init__()
        self.inner = _drop_type_checks(program.module()).to(dtype)
        self._spec, self._dtype, self._kind = program.call_spec.in_spec, dtype, kind
        if kind == "cuda":
            self.inner.to(memory_format=torch.channels_last_3d)  # affects only tensors with five axes

    def forward(self, *flat: torch.Tensor) -> list[torch.Tensor]:
        given = [tensor.to(self._dtype) if tensor.is_floating_point() else tensor for tensor in flat]
        if self._kind == "cuda":
            given = [_put_channels_last(tensor) for tensor in given]
        arguments, named = pytree.tree_unflatten(given, self._spec)
        lowered = nullcontext() if self._dtype == torch.float32 else torch.autocast(self._kind, self._dtype)
        with lowered:
            answers = self.inner(*arguments, **named)
        found = [item for item in pytree.tree_leaves(answers) if isinstance(item, torch.Tensor)]
        return [(item.float() if item.is_floating_point() else item).contiguous() for item in found]


def _put_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    is_volume = tensor.is_floating_point() and tensor.ndim == _VOLUME_AXES
    return tensor.contiguous(memory_format=torch.channels_last_3d) if is_volume else tensor


def _drop_type_checks(module: Any) -> Any:
    """Drop type checks: a program that converts its inputs checks their traced types, and a precision changes those."""
    for node in list(module.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)
    module.recompile()
    return module


def _read_program(path: Path, kind: str) -> Any:
    try:
        program = torch.export.load(path)
    except Exception as error:  # from a damaged archive, another version's, or anything else
        problem = f"PyTorch {find_version()} cannot read {path.name}: {error}"
        raise HarnessError(problem, "input", "write it with torch.export.save() of this version of PyTorch") from error
    as_it_is = kind == "cpu" or is_packed(program) or is_fused(program)
    return program if as_it_is else move_to_device_pass(program, kind)


Sample = tuple[int | Any, tuple[int | Any, ...], torch.dtype]


def _describe_inputs(program: Any, plan: BuildPlan, *, half_inputs: bool) -> list[Sample]:
    """Describe each input: its batch, the shape of a sample (both are symbols if free), its dtype."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    found: list[Sample] = []
    for name in program.graph_signature.user_inputs:
        value = nodes[name].meta.get("val") if isinstance(name, str) and name in nodes else None
        if not isinstance(value, torch.Tensor) or not value.ndim:
            raise HarnessError(f"input {name} of {plan.model.name} is not a tensor with a batch axis", "input", _CHECK)
        dtype = torch.float16 if half_inputs and value.dtype == torch.float32 else value.dtype
        found.append((value.shape[0], tuple(value.shape[1:]), dtype))
    return found


def _trace(
    module: LoweredProgram, samples: Sequence[Sample], size: int, largest: int, kind: str, *, collated: bool
) -> torch.export.ExportedProgram:
    """``size``: the batch size, 0 for any up to ``largest``. Free axes of the program stay free. ``collated``: the
    first axes are free too, each independently."""
    batch = torch.export.Dim.AUTO
    if not collated:
        batch = None if size else torch.export.Dim("batch", min=1, max=largest)  # a Dim refuses a range with one value
    given, free = [], []
    for first, shape, dtype in samples:
        extents = [_find_size(n) for n in shape]
        rows = _find_size(first) if collated else size or min(_LEAST, largest)
        given.append(torch.zeros(rows, *extents, dtype=dtype, device=kind))
        axes: dict[int, Any] = {
            axis + 1: torch.export.Dim.AUTO for axis, n in enumerate(shape) if not isinstance(n, int)
        }
        free.append(axes if size or isinstance(first, int) else {0: batch, **axes})
    with torch.no_grad():
        return torch.export.export(module, tuple(given), dynamic_shapes={"flat": tuple(free)}, strict=False)


def _find_size(extent: int | Any) -> int:
    """Find the size that a free axis had when the program was exported."""
    return extent if isinstance(extent, int) else int(extent.node.hint)


def _describe_outputs(traced: Any, program: Any, size: int) -> tuple[Tensor, ...]:
    (last,) = (node for node in traced.graph.nodes if node.op == "output")
    values = [node.meta["val"] for node in last.args[0]][-len(traced.graph_signature.user_outputs) :]
    names = [name for name in program.graph_signature.user_outputs if isinstance(name, str)]
    found = []
    for number, value in enumerate(values):
        name = names[number] if number < len(names) else f"output{number}"
        batch = value.shape[0] if value.ndim else None
        if batch is None or (isinstance(batch, int) and batch != size):
            fix = "export the program with the batch as the first axis of every input and output"
            raise HarnessError(f"output {name} of the program has no batch axis: {list(value.shape)}", "input", fix)
        shape = [n if isinstance(n, int) else -1 for n in value.shape[1:]]
        found.append(describe_tensor(name, shape, value.dtype))
    return tuple(found)


def _choose_settings(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    # Headers are not precompiled, since only this build would use them.
    settings: dict[str, Any] = {
        "freezing": PytorchEngineOptions(options).freeze_weights,
        "cpp_cache_precompile_headers": False,
    }
    if kind == "cpu":
        return settings | {"cpp.dynamic_threads": True}  # the run decides how many threads compute
    own = PytorchCudaEngineOptions(options)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = own.tf32
    # The host code only starts kernels. Testing vector instructions for it, each in a separate process that imports
    # PyTorch, would take longer than the rest of the build.
    return settings | {"max_autotune": own.max_autotune, "cpp.vec_isa_ok": False}


def _compile(traced: Any, path: Path, settings: dict[str, Any]) -> None:
    aoti_compile_and_package(traced, package_path=str(path), inductor_configs=settings)
    missing = list_missing_operators(path)
    if missing:
        problem = f"the compiled program calls Python-only operators: {', '.join(missing)}"
        raise HarnessError(problem, "backend", "export the program with run_decompositions(), or use another backend")


def _require_compiler() -> None:
    if not any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++") if name):
        problem = "AOTInductor needs a C++ compiler, but none was found"
        raise HarnessError(problem, "missing", "install g++, or set CXX")
