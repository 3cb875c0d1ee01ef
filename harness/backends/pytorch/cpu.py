"""The backend "pytorch": compiled programs on the CPU. Each stream is a thread that runs one batch at a time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch

from harness.backends import BackendEngine, LoadPlan, Outputs
from harness.backends.pytorch.building import build_engine
from harness.backends.pytorch.fused import FILE, FusedModel
from harness.backends.pytorch.packages import CompiledModel, describe_library, find_version, name_package, read_host
from harness.backends.pytorch.packed import PackedCpuSession
from harness.backends.streams import StreamSession
from harness.errors import HarnessError
from harness.run.qsl import Rows, count_rows

NAME = "pytorch"

facts = describe_library
build = partial(build_engine, NAME, "cpu")


def load(plan: LoadPlan) -> PyTorchSession | PackedCpuSession:
    folder = plan.require_engine("PyTorch")
    engine = read_engine(folder, NAME)
    if engine.settings.get("packed"):
        return PackedCpuSession(plan, engine, folder)
    return PyTorchSession(plan, folder)


def read_engine(folder: Path, name: str) -> BackendEngine:
    """Read an engine. Raises HarnessError if another version built it, since it needs that version's libraries."""
    engine = BackendEngine.read(folder, name)
    if engine.version != find_version():
        problem = f"the engine was built by PyTorch {engine.version}, but {find_version()} is installed"
        raise HarnessError(problem, "backend", "build the engine again")
    return engine


class PyTorchSession(StreamSession):
    reads_in_place = True
    makes_new_outputs = True

    def __init__(self, plan: LoadPlan, folder: Path) -> None:
        super().__init__(plan, read_engine(folder, NAME))
        self._models: Mapping[int, CompiledModel | FusedModel]
        if self._engine.settings.get("fused"):
            self._models = {0: FusedModel(torch.export.load(folder / FILE), "cpu")}
        else:
            self._models = {
                size: CompiledModel(folder / name_package(size), "cpu", at_once=plan.streams)
                for size in self._engine.batch_sizes or (0,)
            }
        self._begin(0)  # for compute() on this thread

    def close(self) -> None:
        super().close()
        for model in self._models.values():
            model.close()

    def _begin(self, stream: int) -> None:
        """Set the number of OpenMP threads of the calling thread; they stay on its processors."""
        torch.set_num_threads(self._places[stream].threads)

    def _run(self, stream: int, rows: Rows) -> Outputs:
        arrays = self._staging[stream].batch(rows)
        model = self._models[len(arrays[0]) if self._engine.batch_sizes else 0]
        answers = model.run([(int(a.__array_interface__["data"][0]), a.shape, a.dtype.name) for a in arrays])
        try:
            outputs = []
            found = zip(answers.list_addresses(), self._engine.outputs, strict=True)
            for (address, elements), tensor in found:
                shape = (-1, *tensor.shape) if -1 not in tensor.shape else (len(arrays[0]), -1)
                outputs.append(read_host(address, elements, tensor.dtype, shape)[: count_rows(rows)])
            return outputs
        finally:
            answers.release()
