"""Layers of published language models, as nodes of a graph with weights drawn from a seed.

Llama: root mean square, rotated queries and keys, shared heads of keys and values, gated layers. GPT-J: attention and
layer side by side, rotation of neighbours. Mixtral: Llama with eight experts, of which each token takes two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import openvino.opset13 as op

from harness.benchmarks.language.decoder_graph import DecoderGraph, numbers, plain

Architecture = Literal["llama", "gptj", "mixtral", "deepseek", "gpt_oss"]
_EPSILON, _BASE = 1e-5, 10_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    architecture: Architecture
    vocabulary: int
    width: int = 64
    heads: int = 4
    groups: int = 2
    layers: int = 2
    inner: int = 128
    experts: int = 8
    rotated: int = 8  # numbers of a head, in GPT-J and DeepSeek
    ends: float = 1.5  # how much likelier than another token the end is
    liked: tuple[int, ...] = ()  # tokens that are likelier, too
    sharpness: float = 1.0  # of scores: drawn tokens are the likeliest ones where it is large

    @property
    def head(self) -> int:
        return self.width // self.heads


class Layers:
    """Layers of Llama, GPT-J and Mixtral; ``groups``: heads of keys and values."""

    def __init__(self, graph: DecoderGraph, shape: DecoderShape, groups: int, rng: np.random.Generator) -> None:
        self._graph, self._shape, self._groups, self._rng = graph, shape, groups, rng
        self._turned = shape.rotated if shape.architecture in ("gptj", "deepseek") else shape.head
        speeds = _BASE ** (-np.arange(0, self._turned, 2, dtype=np.float32) / self._turned)
        places = op.unsqueeze(op.convert(graph.positions, "f32"), numbers(-1))
        angles = op.unsqueeze(op.multiply(places, op.constant(speeds)), numbers(1))  # [batch, 1, n, turned / 2]
        self._cosine, self._sine = op.cos(angles), op.sin(angles)

    def draw(self, outputs: int, inputs: int) -> np.ndarray:
        drawn: np.ndarray = self._rng.standard_normal((outputs, inputs)).astype(np.float32) / np.float32(inputs**0.5)
        return drawn

    def normalize(self, rows: Any) -> Any:
        """By the root mean square; in GPT-J by mean and deviation."""
        if self._shape.architecture == "gptj":
            rows = op.subtract(rows, op.reduce_mean(rows, numbers(-1), keep_dims=True))
        mean = op.reduce_mean(op.multiply(rows, rows), numbers(-1), keep_dims=True)
        return op.multiply(rows, op.power(op.add(mean, plain(_EPSILON)), plain(-0.5)))

    def add_layer(self, hidden: Any, layer: int) -> Any:
        seen = self.normalize(hidden)
        attended = self._attend(seen, layer)
        if self._shape.architecture == "gptj":
            return op.add(op.add(hidden, attended), self._compute_plain(seen))
        hidden = op.add(hidden, attended)
        seen = self.normalize(hidden)
        return op.add(hidden, self._mix(seen, layer))

    def _mix(self, seen: Any, _layer: int) -> Any:
        """Apply the part of a layer that works on each token by itself."""
        return self._compute_experts(seen) if self._shape.architecture == "mixtral" else self._compute_gated(seen)

    def _attend(self, seen: Any, layer: int) -> Any:
        shape, graph = self._shape, self._graph
        query, key, value = (
            graph.split(graph.multiply(seen, self.draw(heads * shape.head, shape.width)), heads)
            for heads in (shape.heads, self._groups, self._groups)
        )
        mixed = graph.attend(str(layer), self._turn(query), self._turn(key), value)
        return graph.multiply(mixed, self.draw(shape.width, shape.width))

    def _turn(self, rows: Any) -> Any:
        """Pairs of numbers rotated by the token's place: halves apart in Llama, neighbours in GPT-J."""
        shape, turned = self._shape, self._turned
        half = turned // 2
        if shape.architecture == "gptj":
            order = [*range(0, turned, 2), *range(1, turned, 2), *range(turned, shape.head)]
            rows = op.gather(rows, numbers(*order), numbers(3))
        first, second = (self._cut(rows, start, start + half) for start in (0, half))
        parts = [
            op.subtract(op.multiply(first, self._cosine), op.multiply(second, self._sine)),
            op.add(op.multiply(second, self._cosine), op.multiply(first, self._sine)),
        ]
        if turned < shape.head:
            parts.append(self._cut(rows, turned, shape.head))
        return op.concat(parts, 3)

    def _cut(self, rows: Any, start: int, stop: int) -> Any:
        return op.slice(rows, numbers(start), numbers(stop), numbers(1), numbers(3))

    def _compute_plain(self, seen: Any) -> Any:
        shape, graph = self._shape, self._graph
        inner = op.gelu(graph.multiply(seen, self.draw(shape.inner, shape.width)), "tanh")
        return graph.multiply(inner, self.draw(shape.width, shape.inner))

    def _compute_gated(self, seen: Any) -> Any:
        shape, graph = self._shape, self._graph
        gate, up = (graph.multiply(seen, self.draw(shape.inner, shape.width)) for _ in range(2))
        return graph.multiply(op.multiply(op.swish(gate), up), self.draw(shape.width, shape.inner))

    def _compute_experts(self, seen: Any) -> Any:
        """All experts compute; those that a token's router did not choose count nothing."""
        shape = self._shape
        routed = self._graph.multiply(seen, self.draw(shape.experts, shape.width))
        best = op.topk(routed, op.constant(np.int64(2)), -1, "max", "value")
        least = op.reduce_min(best.output(0), numbers(-1), keep_dims=True)
        chosen = op.select(op.greater_equal(routed, least), routed, plain(-1e9))
        shares = op.split(op.softmax(chosen, -1), op.constant(np.int64(-1)), shape.experts)
        mixed = op.multiply(self._compute_gated(seen), shares.output(0))
        for expert in range(1, shape.experts):
            mixed = op.add(mixed, op.multiply(self._compute_gated(seen), shares.output(expert)))
        return mixed
