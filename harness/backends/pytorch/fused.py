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

from harness.backends import BackendEngine, BuildPlan
from harness.backends.pytorch import fused_operators
from harness.backends.pytorch.packages import Blob, describe_tensor, list_inputs, save_program
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
    half = PytorchCudaEngineOptions(plan.options).half_inputs
    inputs = [
        describe_tensor(key, value.shape[1:], torch.float16 if half and value.dtype == torch.float32 else value.dtype)
        for key, value in list_inputs(program).items()
    ]

    def compute() -> list[torch.Tensor]:
        arrays = [np.zeros((_TRIED, *tensor.shape), tensor.dtype) for tensor in inputs]
        return FusedModel(program, device).compute([torch.from_numpy(array).to(device) for array in arrays])

    return save_program(name, plan, program, FILE, inputs, compute, fused=True)


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
