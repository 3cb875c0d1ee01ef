"""Engines of programs with fused operators (``fused_operators``), stored as the unchanged program with its weights.

Nothing is compiled in advance: on GPUs Triton compiles the operators' kernels when an engine is loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np
import torch

from harness.backends import BackendEngine, BuildPlan, Tensor
from harness.backends.pytorch import fused_operators
from harness.backends.pytorch.packages import Blob, find_version
from harness.backends.pytorch.packed_lowering import open_program
from harness.catalog import PytorchCudaEngineOptions
from harness.errors import HarnessError

FILE = "fused.pt2"
_NAMESPACE = fused_operators.pool._qualname.partition("::")[0]
_TRIED = 2  # rows of the batch that a build computes as a test


def is_fused(program: torch.export.ExportedProgram) -> bool:
    return any(getattr(node.target, "namespace", "") == _NAMESPACE for node in program.graph.nodes)


def build_fused(name: str, device: str, plan: BuildPlan, program: torch.export.ExportedProgram) -> BackendEngine:
    """Build the engine. Raises HarnessError if the program is not in the requested precision, or cannot be computed."""
    if plan.precision != "fp8":
        fix = "set engine.precision to fp8"
        raise HarnessError(f"engine.precision is {plan.precision}, and the model is in fp8", "input", fix)
    plan.counter.stage("building", 1)
    half = PytorchCudaEngineOptions(plan.options).half_inputs
    nodes = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    inputs = tuple(_describe(name, nodes[name], half=half) for name in program.graph_signature.user_inputs)
    try:
        model = FusedModel(program, device)
        arrays = [np.zeros((_TRIED, *tensor.shape), tensor.dtype) for tensor in inputs]
        answers = model.compute([torch.from_numpy(array).to(device) for array in arrays])
    except Exception as error:  # its exceptions share no base class
        problem = f"PyTorch {find_version()} cannot compute {plan.model.name}: {str(error)[:2000]}"
        raise HarnessError(problem, "backend", "check the program with torch.export.load(…).module()") from error
    (plan.output / FILE).write_bytes(plan.model.read_bytes())
    plan.counter.bump(1)
    names = program.graph_signature.user_outputs
    outputs = [_describe(str(names[number]), answer, half=False) for number, answer in enumerate(answers)]
    return plan.describe_engine(name, find_version(), FILE, inputs, outputs, fused=True)


def _describe(name: str, value: torch.Tensor, *, half: bool) -> Tensor:
    dtype = torch.float16 if half and value.dtype == torch.float32 else value.dtype
    return Tensor(name, tuple(value.shape[1:]), str(dtype).removeprefix("torch."))


class FusedModel:
    """A program on one device ("cpu", "cuda:0"), with the methods of ``packages.CompiledModel``."""

    def __init__(self, program: torch.export.ExportedProgram, device: str) -> None:
        self._device = torch.device(device)
        self._module = open_program(program).to(self._device)
        self._seen: dict[Blob, torch.Tensor] = {}

    def compute(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            answers = self._module(*given)
        return list(answers.values() if isinstance(answers, dict) else answers)

    def run(self, inputs: Sequence[Blob], stream: int = 0) -> FusedAnswers:
        """Run one batch; the arrays must exist until the device has read them."""
        near = self._device.type == "cuda"
        queue: Any = torch.cuda.stream(torch.cuda.ExternalStream(stream, self._device)) if near else nullcontext()
        with queue:
            return FusedAnswers(self.compute([self._view_memory(blob) for blob in inputs]))

    def close(self) -> None:
        self._seen.clear()

    def _view_memory(self, blob: Blob) -> torch.Tensor:
        """View memory as a tensor. GPU memory belongs to a lane and stays allocated."""
        if self._device.type == "cpu":
            address, shape, dtype = blob
            size = prod(shape) * np.dtype(dtype).itemsize
            view = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
            return torch.from_numpy(view.view(dtype).reshape(shape))
        if blob not in self._seen:
            self._seen[blob] = torch.as_tensor(_DeviceArray(blob), device=self._device)
        return self._seen[blob]


class _DeviceArray:
    """Device memory, for PyTorch and others to read in place."""

    def __init__(self, blob: Blob) -> None:
        address, shape, dtype = blob
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "data": (address, False),
            "version": 3,
            "stream": None,
        }


class FusedAnswers:
    """A batch's output tensors, which own their memory until ``release``."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = [tensor.contiguous() for tensor in tensors]

    def list_addresses(self) -> list[tuple[int, int]]:
        """List the address and the number of elements of each tensor."""
        return [(tensor.data_ptr(), tensor.numel()) for tensor in self._tensors]

    def release(self) -> None:
        self._tensors = []
