"""DLRM-DCNv2 in fp8: one operator per layer (harness.backends.pytorch.fused_operators), with scales from the
benchmark's calibration list.

Each table, the weights of each layer, and the values between two layers have a scale, which makes the largest magnitude
the largest number of e4m3. The first layer's weights, biases and the last row of weights are unchanged. The cross
network's factors and terms are rounded like the inputs of its products.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.backends.pytorch import fused_operators as fused
from harness.backends.pytorch.packed_operators import ALIGNED, FP8, choose_scale, round_fp8
from harness.benchmarks.dlrm_v2.layers import (
    MULTI_HOT,
    OUTPUT,
    Shape,
    find_shape,
    list_weights,
    name_bottom,
    name_cross,
    name_table,
    name_top,
)
from harness.benchmarks.dlrm_v2.program import DlrmDcn, export_network
from harness.benchmarks.saved_tensors import name_attribute
from harness.contract import Counter
from harness.errors import HarnessError
from harness.quantization.calibrating import write_document
from harness.quantization.comparing import compute_ratio
from harness.quantization.programs import choose_samples, describe_ranges
from harness.run.qsl import Arrays

_AT_ONCE = 8192  # pairs per batch
Weights = Mapping[str, torch.Tensor]


def lower_program(
    path: Path, settings: Mapping[str, Any], samples: Arrays, counter: Counter, *, compare: int
) -> dict[str, Any]:
    """Rewrite the program in fp8; return the facts for the record. ``samples``: those for calibration. ``compare``: how
    many pairs both programs compute."""
    samples = choose_samples(settings, samples)
    state = torch.export.load(path).state_dict
    weights = {name: state[name_attribute(name)].detach() for name in list_weights(Shape())}
    shape = find_shape({name: tuple(tensor.shape) for name, tensor in weights.items()})
    counter.stage("building", len(samples["dense"]))
    network = DlrmDcn(weights, shape)
    most: dict[str, float] = {}
    exact = [_compute(network, batch, most) for batch in _split(samples, counter)]
    lowered = LoweredDlrm(weights, shape, most)
    export_network(lowered, shape, path)
    made = describe_ranges(samples, len(most))
    if compare:
        few = {name: array[:compare] for name, array in samples.items()}
        found = [_compute(lowered, batch, None) for batch in _split(few, None)]
        whole = np.concatenate(found)
        made["comparison"] = {
            "signal_to_noise_db": [round(compute_ratio(np.concatenate(exact)[: len(whole)], whole), 2)]
        }
    text = (
        write_document(made)
        + "- Tables of embeddings: fp8 (E4M3), one scale per table; sums of their rows in float32.\n"
    )
    return {**made, "document": text}


def _split(samples: Arrays, counter: Counter | None) -> Any:
    for first in range(0, len(samples["dense"]), _AT_ONCE):
        batch = [torch.from_numpy(samples[name][first : first + _AT_ONCE]) for name in ("dense", "sparse")]
        yield batch
        if counter:
            counter.bump(len(batch[0]))


def _compute(network: torch.nn.Module, batch: list[torch.Tensor], most: dict[str, float] | None) -> np.ndarray:
    """Compute logits, which show differences better than probabilities near 0 and 1. ``most``: updated with the largest
    magnitudes."""

    def note(name: str, value: torch.Tensor) -> None:
        assert most is not None
        most[name] = max(most.get(name, 0.0), float(value.abs().max()))

    dense, sparse = batch
    with torch.no_grad():
        answers = network(dense.float(), sparse) if most is None else network(dense.float(), sparse, note)
    logits: np.ndarray = torch.logit(answers[OUTPUT].double(), eps=1e-12).numpy()
    return logits


class LoweredDlrm(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """``most``: the largest magnitude of each layer's output, by layer name, as ``DlrmDcn`` notes it."""

    def __init__(self, weights: Weights, shape: Shape, most: Mapping[str, float]) -> None:
        super().__init__()
        self._shape = shape
        for name, largest in most.items():
            self.register_buffer(f"scale_{name}", choose_scale(largest))
        self._add_tables([weights[name_table(number)] for number in range(len(shape.rows))])
        layers = len(shape.top)
        names = {f"bottom{layer}": f"{name_bottom(layer)}.weight" for layer in range(1, len(shape.bottom))}
        names |= {f"inner{layer}": name_cross("V_kernels", layer) for layer in range(shape.crosses)}
        names |= {f"crossed{layer}": name_cross("W_kernels", layer) for layer in range(shape.crosses)}
        names |= {f"top{layer}": f"{name_top(layer, layers)}.weight" for layer in range(layers - 1)}
        for ours, theirs in names.items():
            self._add_product(ours, weights[theirs])
        biases = {f"bottom{layer}": f"{name_bottom(layer)}.bias" for layer in range(len(shape.bottom))}
        biases |= {f"crossed{layer}": name_cross("bias", layer) for layer in range(shape.crosses)}
        biases |= {f"top{layer}": f"{name_top(layer, layers)}.bias" for layer in range(layers)}
        for ours, theirs in biases.items():
            self.register_buffer(f"bias_{ours}", weights[theirs].half())
        self.register_buffer("weight_bottom0", weights[f"{name_bottom(0)}.weight"].half())
        self.register_buffer("last", weights[f"{name_top(layers - 1, layers)}.weight"].reshape(-1).half())

    def _add_tables(self, tables: list[torch.Tensor]) -> None:
        """Concatenate the tables, so that one kernel finds them all."""
        rows = [len(table) for table in tables]
        whole = torch.empty(sum(rows), tables[0].shape[1], dtype=FP8)
        scales, layout, begins, column = [], [], 0, 0
        for table, count in zip(tables, MULTI_HOT, strict=True):
            scale = choose_scale(max(float(table.max()), -float(table.min())))
            for part in torch.arange(len(table)).split(1 << 20):
                first, end = int(part[0]), int(part[-1]) + 1
                whole[begins + first : begins + end] = round_fp8(table[first:end], scale)
            scales.append(scale)
            layout.append((column, count, begins))
            begins, column = begins + len(table), column + count
        self.register_buffer("tables", whole)
        self.register_buffer("table_scales", torch.stack(scales))
        self.register_buffer("layout", torch.tensor(layout, dtype=torch.int64))

    def _add_product(self, name: str, weight: torch.Tensor) -> None:
        if any(extent % ALIGNED for extent in weight.shape):
            problem = f"layer {name} has weights of {list(weight.shape)}, but fp8 needs multiples of {ALIGNED}"
            raise HarnessError(problem, "input", "leave model.settings.precision out")
        scale = choose_scale(weight.abs().max())
        self.register_buffer(f"weight_{name}", round_fp8(weight, scale))
        self.register_buffer(f"weight_scale_{name}", scale)

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> dict[str, torch.Tensor]:
        shape = self._shape
        depth = len(shape.bottom) - 1
        names = [f"bottom{layer}" for layer in range(depth)] + ["joined"]
        x = fused.enter(dense, self.weight_bottom0, self.bias_bottom0, self._get("scale", names[0]))
        for layer in range(1, depth + 1):
            x = self._multiply(x, f"bottom{layer}", names[layer - 1], names[layer], relu=True)
        first = x = fused.pool(x, self.tables, self.table_scales, self.layout, sparse, self.scale_joined)
        given = "joined"
        for layer in range(shape.crosses):
            inner, name = f"inner{layer}", f"crossed{layer}"
            found = self._multiply(x, inner, given, inner, relu=False)
            scales = [self._get("scale", of) for of in (inner, "joined", given, name)]
            weight, weight_scale = self._get("weight", name), self._get("weight_scale", name)
            bias = self._get("bias", name)
            x = fused.cross(found, weight, bias, first, x, scales[0], weight_scale, *scales[1:])
            given = name
        layers = len(shape.top)
        for layer in range(layers - 2):
            x = self._multiply(x, f"top{layer}", given, f"top{layer}", relu=True)
            given = f"top{layer}"
        name = f"top{layers - 2}"
        parts = [self._get(kind, name) for kind in ("weight", "bias")]
        scales = [self._get("scale", given), self._get("weight_scale", name)]
        return {OUTPUT: fused.decide(x, *parts, *scales, self.last, self._get("bias", f"top{layers - 1}"))}

    def _multiply(self, x: torch.Tensor, name: str, given: str, made: str, *, relu: bool) -> torch.Tensor:
        """``given`` and ``made``: the names of the scales of ``x`` and of the result."""
        bias = self._get("bias", name) if relu else None
        scales = [self._get("scale", given), self._get("weight_scale", name), self._get("scale", made)]
        return fused.linear(x, self._get("weight", name), bias, *scales, relu)

    def _get(self, kind: str, name: str) -> torch.Tensor:
        return getattr(self, f"{kind}_{name}")
