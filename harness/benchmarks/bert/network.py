"""The reference's network as an ONNX file with any weights, such as those of rehearsals and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.benchmarks.bert.squad import INPUTS, LENGTH
from harness.benchmarks.network_builder import NetworkBuilder, Tensors

HEAD = 64  # width of each head
EPS = 1e-12  # epsilon of the normalisations
POSITIONS = 512
Weights = Mapping[str, np.ndarray]
"""Weights by the reference's names; those of products are [out, in]."""


class NetworkSize(NamedTuple):
    layers: int
    width: int
    inner: int


def draw_weights(rng: np.random.Generator, avoided: Sequence[bool], size: NetworkSize) -> Weights:
    """Draw weights for the reference's network, by its names: layers that change a token's representation little, and a
    head that avoids words with a large component in one direction. ``avoided``: whether to avoid each word of the
    vocabulary."""
    layers, width, inner = size
    found: dict[str, np.ndarray] = {}

    def draw(name: str, shape: Sequence[int], deviation: float) -> np.ndarray:
        found[name] = rng.standard_normal(tuple(shape), np.float32) * np.float32(deviation)
        return found[name]

    def draw_dense(name: str, out: int, width: int, deviation: float = 1.0) -> np.ndarray:
        draw(f"{name}.bias", (out,), 0.1 * deviation)
        return draw(f"{name}.weight", (out, width), deviation * width**-0.5)

    def draw_norm(name: str) -> None:
        draw(f"{name}.bias", (width,), 0.1)
        draw(f"{name}.weight", (width,), 0.1)[...] += 1

    words = draw("bert.embeddings.word_embeddings.weight", (len(avoided), width), 1)
    draw("bert.embeddings.position_embeddings.weight", (POSITIONS, width), 0.5)
    draw("bert.embeddings.token_type_embeddings.weight", (2, width), 1)
    draw_norm("bert.embeddings.LayerNorm")
    away = rng.standard_normal(width, np.float32)
    words[np.array(avoided)] += 5 * away
    for number in range(layers):
        layer = f"bert.encoder.layer.{number}"
        for part in ("query", "key", "value"):
            draw_dense(f"{layer}.attention.self.{part}", width, width)
        draw_dense(f"{layer}.attention.output.dense", width, width, 0.3)
        draw_norm(f"{layer}.attention.output.LayerNorm")
        draw_dense(f"{layer}.intermediate.dense", inner, width)
        draw_dense(f"{layer}.output.dense", width, inner, 0.3)
        draw_norm(f"{layer}.output.LayerNorm")
    draw_dense("qa_outputs", 2, width)[...] -= 2 * away / np.linalg.norm(away)
    return found


def write_network(path: Path, weights: Weights) -> None:
    """Write a network: int64 input_ids, input_mask and segment_ids [N, 384] -> float32 output_start_logits and
    output_end_logits."""
    net = BertNetwork(weights)
    mask = net.node("Cast", ["input_mask"], to=1)
    # Hides padding from attention [N, 1, 1, 384].
    away = net.node("Mul", [net.node("Sub", [net.constant(1.0), mask]), net.constant(-1e4)])
    hidden = net.node("Unsqueeze", [away, net.constant([1, 2], "int64")])
    top, number = net.embed(), 0
    while f"bert.encoder.layer.{number}.output.dense.bias" in weights:
        top = net.add_layer(f"bert.encoder.layer.{number}", top, hidden)
        number += 1
    parts = net.split(net.multiply("qa_outputs", top), [1, 1], axis=2)
    for name, part in zip(("output_start_logits", "output_end_logits"), parts, strict=True):
        net.node("Squeeze", [part, net.constant([2], "int64")], name)
    inputs: Tensors = {name: ("int64", ["N", LENGTH]) for name in INPUTS}
    outputs: Tensors = {f"output_{which}_logits": ("float32", ["N", LENGTH]) for which in ("start", "end")}
    net.save(path, "bert", inputs, outputs)


class BertNetwork(NetworkBuilder):
    def __init__(self, weights: Weights) -> None:
        super().__init__(np.random.default_rng(0))
        self._given = weights

    def add_named(self, name: str) -> str:
        return self.constant(self._given[name], name=name)

    def multiply(self, name: str, source: str) -> str:
        """Multiply. Weights are stored in the product's layout, as by an exporter that folds constants."""
        product = self.node("MatMul", [source, self.constant(self._given[f"{name}.weight"].T)])
        return self.node("Add", [self.add_named(f"{name}.bias"), product])

    def normalize(self, name: str, source: str) -> str:
        centred = self.node("Sub", [source, self.node("ReduceMean", [source], axes=[-1])])
        variance = self.node("ReduceMean", [self.node("Mul", [centred, centred])], axes=[-1])
        spread = self.node("Sqrt", [self.node("Add", [variance, self.constant(EPS)])])
        scaled = self.node("Mul", [self.node("Div", [centred, spread]), self.add_named(f"{name}.weight")])
        return self.node("Add", [scaled, self.add_named(f"{name}.bias")])

    def embed(self) -> str:
        first, last = self.constant([0], "int64"), self.constant([LENGTH], "int64")
        places = self.node("Slice", [self.add_named("bert.embeddings.position_embeddings.weight"), first, last])
        words = self.node("Gather", [self.add_named("bert.embeddings.word_embeddings.weight"), "input_ids"])
        segments = self.node("Gather", [self.add_named("bert.embeddings.token_type_embeddings.weight"), "segment_ids"])
        total = self.node("Add", [self.node("Add", [words, segments]), places])
        return self.normalize("bert.embeddings.LayerNorm", total)

    def add_layer(self, name: str, top: str, hidden: str) -> str:
        mixed = self.multiply(f"{name}.attention.output.dense", self.attend(f"{name}.attention.self", top, hidden))
        top = self.normalize(f"{name}.attention.output.LayerNorm", self.node("Add", [mixed, top]))
        inner = self.add_gelu(self.multiply(f"{name}.intermediate.dense", top))
        outer = self.multiply(f"{name}.output.dense", inner)
        return self.normalize(f"{name}.output.LayerNorm", self.node("Add", [outer, top]))

    def attend(self, name: str, top: str, hidden: str) -> str:
        width = len(self._given[f"{name}.query.bias"])
        cut = self.constant([0, -1, width // HEAD, HEAD], "int64")
        query, key, value = (
            self.node("Reshape", [self.multiply(f"{name}.{part}", top), cut]) for part in ("query", "key", "value")
        )
        query = self.node("Transpose", [query], perm=[0, 2, 1, 3])
        scores = self.node("MatMul", [query, self.node("Transpose", [key], perm=[0, 2, 3, 1])])
        scaled = self.node("Add", [self.node("Mul", [scores, self.constant(HEAD**-0.5)]), hidden])
        weights = self.node("Softmax", [scaled], axis=-1)
        seen = self.node("MatMul", [weights, self.node("Transpose", [value], perm=[0, 2, 1, 3])])
        joined = self.node("Transpose", [seen], perm=[0, 2, 1, 3])
        return self.node("Reshape", [joined, self.constant([0, -1, width], "int64")])

    def add_gelu(self, source: str) -> str:
        error = self.node("Erf", [self.node("Mul", [source, self.constant(2**-0.5)])])
        half = self.node("Mul", [source, self.constant(0.5)])
        return self.node("Mul", [half, self.node("Add", [error, self.constant(1.0)])])
