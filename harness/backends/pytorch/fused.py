"""Engines whose programs are made of joined operators (``fused_operators``): the program with its weights, as it is.

Nothing is compiled ahead: on GPUs Triton compiles the operators' kernels as an engine is loaded.
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
_TRIED = 2  # rows of the batch that a build computes


def is_fused(program: torch.export.ExportedProgram) -> bool:
    return any(getattr(node.target, "namespace", "") == _NAMESPACE for node in program.graph.nodes)


def build_fused(name: str, device: str, plan: BuildPlan, program: torch.export.ExportedProgram) -> BackendEngine:
    """Raises HarnessError where the program is not in the precision that is asked for, or does not compute."""
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
    """A program on one device ("cpu", "cuda:0"), by the methods of ``packages.CompiledModel``."""

    def __init__(self, program: torch.export.ExportedProgram, device: str) -> None:
        self._device = torch.device(device)
        self._module = open_program(program).to(self._device)
        self._seen: dict[Blob, torch.Tensor] = {}

    def compute(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            answers = self._module(*given)
        return list(answers.values() if isinstance(answers, dict) else answers)

    def run(self, inputs: Sequence[Blob], stream: int = 0) -> FusedAnswers:
        """One batch; the arrays must stay until the device has read them."""
        near = self._device.type == "cuda"
        queue: Any = torch.cuda.stream(torch.cuda.ExternalStream(stream, self._device)) if near else nullcontext()
        with queue:
            return FusedAnswers(self.compute([self._see(blob) for blob in inputs]))

    def close(self) -> None:
        self._seen.clear()

    def _see(self, blob: Blob) -> torch.Tensor:
        """Memory as a tensor. That of a GPU belongs to a lane and stays."""
        if self._device.type == "cpu":
            address, shape, dtype = blob
            size = prod(shape) * np.dtype(dtype).itemsize
            view = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
            return torch.from_numpy(view.view(dtype).reshape(shape))
        if blob not in self._seen:
            self._seen[blob] = torch.as_tensor(_DeviceArray(blob), device=self._device)
        return self._seen[blob]


class _DeviceArray:
    """Device memory, as PyTorch and others read where it is."""

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
    """Tensors that a batch left; their memory is theirs until ``release``."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = [tensor.contiguous() for tensor in tensors]

    def list_addresses(self) -> list[tuple[int, int]]:
        """Address and number of elements of each."""
        return [(tensor.data_ptr(), tensor.numel()) for tensor in self._tensors]

    def release(self) -> None:
        self._tensors = []
