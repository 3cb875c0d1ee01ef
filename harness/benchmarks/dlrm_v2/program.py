"""DLRM-DCNv2 or DLRM for torch.export: the same inputs and output as the ONNX network's."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from harness.benchmarks.dlrm_v2.layers import (
    DENSE,
    OUTPUT,
    Shape,
    Weights,
    list_weights,
    name_bottom,
    name_cross,
    name_table,
    name_top,
)
from harness.benchmarks.saved_tensors import NamedWeights
from harness.contract import Counter

MODEL = "model.pt2"
_LARGEST = 1 << 20  # pairs per batch

Note = Callable[[str, torch.Tensor], None]


class DlrmDcn(NamedWeights):
    def __init__(self, weights: dict[str, torch.Tensor], shape: Shape) -> None:
        super().__init__(weights)
        self._shape = shape

    def forward(
        self, dense: torch.Tensor, sparse: torch.Tensor, note: Note = lambda *_: None
    ) -> dict[str, torch.Tensor]:
        """Compute the probabilities. ``note``: called with each layer's output and its name."""
        x = dense
        for layer in range(len(self._shape.bottom)):
            x = self._apply_linear(x, name_bottom(layer)).relu()
            note(f"bottom{layer}", x)
        values = sparse.split(list(self._shape.values), dim=1)
        sums = [
            functional.embedding_bag(found.contiguous(), self.weight(name_table(number)), mode="sum")
            for number, found in enumerate(values)
        ]
        first = x = torch.cat([x, *sums], dim=1)
        note("joined", x)
        for layer in range(self._shape.crosses):
            inner = functional.linear(x, self.weight(name_cross("V_kernels", layer)))
            note(f"inner{layer}", inner)
            outer = functional.linear(inner, self.weight(name_cross("W_kernels", layer)))
            x = first * (outer + self.weight(name_cross("bias", layer))) + x
            note(f"crossed{layer}", x)
        if not self._shape.crosses:
            x = self._interact(dense=x[:, : self._shape.width], stacked=x.unflatten(1, (-1, self._shape.width)))
        layers = len(self._shape.top)
        for layer in range(layers - 1):
            x = self._apply_linear(x, name_top(layer, layers)).relu()
            note(f"top{layer}", x)
        return {OUTPUT: self._apply_linear(x, name_top(layers - 1, layers)).sigmoid()}

    def _interact(self, dense: torch.Tensor, stacked: torch.Tensor) -> torch.Tensor:
        rows, columns = torch.tril_indices(stacked.shape[1], stacked.shape[1], -1)
        return torch.cat([dense, (stacked @ stacked.mT)[:, rows, columns]], dim=1)

    def _apply_linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.linear(x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"))


def write_program(checkpoint: Weights, shape: Shape, output: Path, counter: Counter) -> None:
    """Write model.pt2. Weights are stored in files until then, so that memory only needs room for one tensor at a
    time."""
    wanted = list_weights(shape)
    counter.stage("building", len(wanted))
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        weights = {}
        for number, (name, size) in enumerate(wanted.items()):
            mapped = np.memmap(Path(folder) / f"{number}", np.float32, "w+", 0, size)
            weights[name] = torch.from_numpy(checkpoint.read(name, mapped))
            counter.bump(1)
        export_network(DlrmDcn(weights, shape), shape, output / MODEL)


def export_network(network: torch.nn.Module, shape: Shape, path: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=_LARGEST)
    given = (torch.zeros(2, DENSE), torch.zeros(2, sum(shape.values), dtype=torch.int32))
    with torch.no_grad():
        program = torch.export.export(network, given, dynamic_shapes={"dense": {0: batch}, "sparse": {0: batch}})
    torch.export.save(program, path)
