"""Small networks of the architectures of published language models, with weights drawn from a seed.

Llama: root mean square, rotated queries and keys, shared heads of keys and values, gated layers. GPT-J: attention and
layer side by side, rotation of neighbours. Mixtral: Llama with eight experts, of which each token takes two.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import openvino as ov
import openvino.opset13 as op

from harness.benchmarks.language.decoder_graph import MODEL, DecoderGraph, numbers, plain

Architecture = Literal["llama", "gptj", "mixtral"]
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
    rotated: int = 8  # numbers of a head, in GPT-J
    ends: float = 1.5  # how much likelier than another token the end is

    @property
    def head(self) -> int:
        return self.width // self.heads


def write_decoder(shape: DecoderShape, output: Path, rng: np.random.Generator, *, end: int) -> None:
    groups = shape.heads if shape.architecture == "gptj" else shape.groups
    graph = DecoderGraph(heads=shape.heads, groups=groups, head=shape.head)
    made = _Layers(graph, shape, groups, rng)
    hidden = graph.embed(made.draw(shape.vocabulary, shape.width) * np.float32(shape.width**0.5))
    for layer in range(shape.layers):
        hidden = made.add_layer(hidden, layer)
    scores = graph.multiply(made.normalize(hidden), made.draw(shape.vocabulary, shape.width))
    bias = np.zeros(shape.vocabulary, np.float32)
    bias[end] = shape.ends
    scores = op.add(scores, op.constant(bias))
    graph.save(scores, output, kind=shape.architecture, vocabulary=shape.vocabulary, end=end)


class _Layers:
    def __init__(self, graph: DecoderGraph, shape: DecoderShape, groups: int, rng: np.random.Generator) -> None:
        self._graph, self._shape, self._groups, self._rng = graph, shape, groups, rng
        self._turned = shape.rotated if shape.architecture == "gptj" else shape.head
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
        mixed = self._compute_experts(seen) if self._shape.architecture == "mixtral" else self._compute_gated(seen)
        return op.add(hidden, mixed)

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


class OwnAnswers:
    """A network's own answers, one prompt after the other."""

    def __init__(self, folder: Path) -> None:
        hints = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        self._request = ov.Core().compile_model(str(folder / MODEL), "CPU", hints).create_infer_request()

    def answer(self, prompt: list[int], *, least: int, most: int, end: int) -> list[int]:
        """The likeliest token each time, up to the end, which comes after ``least`` other tokens at the earliest."""
        self._request.reset_state()
        found: list[int] = []
        rows, seen = [prompt], 0
        while len(found) < most and (not found or found[-1] != end):
            (scores,) = self._step(rows, seen, [0])
            seen += len(rows[0])
            if len(found) < least:
                scores[end] = -np.inf
            found.append(int(scores.argmax()))
            rows = [found[-1:]]
        return found

    def answer_by_beams(self, prompt: list[int], *, beams: int, least: int, most: int, end: int) -> list[int]:
        """The likeliest answer per token among the first ``beams`` that ended, or that were as long as they may be."""
        self._request.reset_state()
        open_beams: list[tuple[float, list[int]]] = [(0.0, [])]
        ended: list[tuple[float, list[int]]] = []
        rows, seen, order = [prompt], 0, [0]
        for length in range(1, most + 1):
            scores = self._step(rows, seen, order)
            seen += len(rows[0])
            if length <= least:
                scores[:, end] = -np.inf
            likely = scores - np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1, keepdims=True))
            likely = likely - scores.max(1, keepdims=True) + np.array([[score] for score, _ in open_beams])
            best = np.argsort(-likely, axis=None, kind="stable")[: 2 * beams].tolist()
            following: list[tuple[int, float, list[int]]] = []
            for rank, place in enumerate(best):
                beam, token = divmod(place, scores.shape[1])
                score, tokens = float(likely[beam, token]), [*open_beams[beam][1], token]
                if token != end:
                    following.append((beam, score, tokens))
                elif rank < beams:
                    ended.append((score / length, tokens))
            if len(ended) >= beams:
                break
            open_beams = [(score, tokens) for _, score, tokens in following[:beams]]
            order, rows = [beam for beam, _, _ in following[:beams]], [tokens[-1:] for _, tokens in open_beams]
        else:
            ended += [(score / most, tokens) for score, tokens in open_beams]
        return max(ended)[1]

    def _step(self, rows: list[list[int]], seen: int, order: list[int]) -> np.ndarray:
        """Scores of what follows each row [rows, vocabulary]; ``order``: the row of the step before that each goes on
        with."""
        count = len(rows[0])
        inputs = {
            "input_ids": np.array(rows, np.int64),
            "attention_mask": np.ones((len(rows), seen + count), np.int64),
            "position_ids": np.tile(np.arange(seen, seen + count, dtype=np.int64), (len(rows), 1)),
            "beam_idx": np.array(order, np.int32),
        }
        scores: np.ndarray = self._request.infer(inputs)[0][:, -1].astype(np.float64)
        return scores
