"""BERT as a torch.export program for samples without padding, from the weights of the reference's ONNX file.

The file is an export of the reference's PyTorch network and keeps its weight names. Weights of products may have been
rearranged and so have no names. They are found by the bias that is added to the product.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional

from harness.backends.pytorch.packed_operators import attend
from harness.benchmarks.bert.network import EPS, HEAD, Weights
from harness.benchmarks.bert.squad import LENGTH
from harness.errors import HarnessError
from harness.run.packing import BOUNDS, POSITIONS

_LAYER = "bert.encoder.layer."
_PARTS = ("query", "key", "value")


def write_program(source: Path, output: Path) -> None:
    network = PackedBert(read_weights(source)).eval()
    tokens, samples = torch.export.Dim("tokens", min=2, max=1 << 24), torch.export.Dim("samples", min=2, max=1 << 20)
    given = {
        "input_ids": torch.zeros(8, dtype=torch.int32),
        "segment_ids": torch.zeros(8, dtype=torch.int32),
        POSITIONS: torch.arange(8, dtype=torch.int32) % 4,
        BOUNDS: torch.tensor([0, 4, 8], dtype=torch.int32),
    }
    axes = {name: {0: samples if name == BOUNDS else tokens} for name in given}
    with torch.no_grad():
        program = torch.export.export(network, tuple(given.values()), dynamic_shapes=axes)
    torch.export.save(program, output)


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Read the weights. Raises HarnessError if the file is not an export of the reference's network."""
    try:
        graph = onnx.load(str(path)).graph
    except Exception as error:  # from a damaged file, a missing external file, or anything else
        raise HarnessError(
            f"{path} is not an ONNX file: {error}", "input", "fetch the reference's model again"
        ) from error
    initial = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    made = {output: node for node in graph.node for output in node.output}
    products: dict[str, np.ndarray] = {}
    for node in graph.node:
        bias = next((name for name in node.input if name in initial), None) if node.op_type == "Add" else None
        if bias is not None and bias.endswith(".bias"):
            other = next(name for name in node.input if name != bias)
            weight = _read_product(made.get(other), made, initial)
            if weight is not None:
                products[bias.removesuffix("bias") + "weight"] = weight
    return initial | products


def _read_product(node: Any, made: Mapping[str, Any], initial: Weights) -> np.ndarray | None:
    """Return a product's weights [out, in] if they are constants."""
    if node is None or node.op_type != "MatMul":
        return None
    name = node.input[1]
    if name in initial:
        return np.ascontiguousarray(initial[name].T)
    turned = made.get(name)
    return initial.get(turned.input[0]) if turned is not None and turned.op_type == "Transpose" else None


class PackedBert(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """Maps input_ids, segment_ids and positions [tokens] and bounds [samples + 1] to start and end logits [tokens]."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        named = _name_weights(weights)
        for name, array in named.items():
            self.register_parameter(name, torch.nn.Parameter(torch.from_numpy(np.array(array, np.float32)), False))
        self._layers = sum(name.endswith("_qkv_weight") for name in named)
        width = self.words.shape[1]
        if width % HEAD:
            problem = f"a network of width {width} cannot have heads of {HEAD}"
            raise HarnessError(problem, "input", "use the reference's BERT")
        self._heads = width // HEAD

    def forward(
        self, input_ids: torch.Tensor, segment_ids: torch.Tensor, positions: torch.Tensor, bounds: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        top = functional.embedding(input_ids, self.words) + functional.embedding(positions, self.places)
        top = self._normalize("embedded", top + functional.embedding(segment_ids, self.segments))
        for number in range(self._layers):
            layer = f"layer{number}"
            seen = attend(self._multiply(f"{layer}_qkv", top), bounds, LENGTH, self._heads)
            top = self._normalize(f"{layer}_attended", self._multiply(f"{layer}_mixed", seen) + top)
            inner = functional.gelu(self._multiply(f"{layer}_inner", top))
            top = self._normalize(f"{layer}_done", self._multiply(f"{layer}_outer", inner) + top)
        logits = self._multiply("answers", top).float()
        return logits[:, 0], logits[:, 1]

    def _multiply(self, name: str, value: torch.Tensor) -> torch.Tensor:
        return functional.linear(value, getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias"))

    def _normalize(self, name: str, value: torch.Tensor) -> torch.Tensor:
        weight, bias = getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias")
        return functional.layer_norm(value, weight.shape, weight, bias, EPS)


def _name_weights(weights: Weights) -> dict[str, np.ndarray]:
    """Rename weights to this module's names."""
    numbers = {int(found[1]) for name in weights if (found := re.match(re.escape(_LAYER) + r"(\d+)\.", name))}
    try:
        named = {
            "words": weights["bert.embeddings.word_embeddings.weight"],
            "places": weights["bert.embeddings.position_embeddings.weight"],
            "segments": weights["bert.embeddings.token_type_embeddings.weight"],
        }
        pairs = {"embedded": "bert.embeddings.LayerNorm", "answers": "qa_outputs"}
        for number in range(len(numbers)):
            theirs, ours = f"{_LAYER}{number}", f"layer{number}"
            pairs |= {
                f"{ours}_mixed": f"{theirs}.attention.output.dense",
                f"{ours}_attended": f"{theirs}.attention.output.LayerNorm",
                f"{ours}_inner": f"{theirs}.intermediate.dense",
                f"{ours}_outer": f"{theirs}.output.dense",
                f"{ours}_done": f"{theirs}.output.LayerNorm",
            }
            for kind in ("weight", "bias"):
                parts = [weights[f"{theirs}.attention.self.{part}.{kind}"] for part in _PARTS]
                named[f"{ours}_qkv_{kind}"] = np.concatenate(parts)
        for kind in ("weight", "bias"):
            named |= {f"{ours}_{kind}": weights[f"{theirs}.{kind}"] for ours, theirs in pairs.items()}
    except KeyError as error:
        problem = f"the model has no weights {error.args[0]} and is not an export of the reference's BERT"
        fix = "set model.path to the reference's bert_large_v1_1.onnx, or remove model.settings.format"
        raise HarnessError(problem, "input", fix) from error
    return named
