"""Small networks of the architectures of published language models, and what they answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op

from harness.benchmarks.language.decoder_graph import MODEL, DecoderGraph, numbers, plain
from harness.benchmarks.language.decoder_layers import DecoderShape, Layers

# Layers of DeepSeek-R1 and of GPT-OSS.
#
# DeepSeek: keys and values of all heads are made of one short vector per token, and one rotated key is shared; experts
# are chosen in groups by a sigmoid, and one more computes for every token. GPT-OSS: projections have biases, the shares
# of four experts are those of the chosen ones alone, and their gates are clamped. It has sinks and sliding windows,
# too, which are not here.

_HIDDEN = -1e9  # of a score that does not count


class LatentLayers(Layers):
    """DeepSeek's. The first layer has no experts."""

    _GROUPS, _KEPT, _CHOSEN, _FACTOR = 4, 2, 2, 2.5  # groups of experts, and how many of a token; scale of shares

    def _attend(self, seen: Any, layer: int) -> Any:
        shape, graph = self._shape, self._graph
        rank, rotated = shape.width // 2, shape.rotated
        query = self._project(self.normalize(self._project(seen, rank)), shape.heads * shape.head, rank)
        latent = self._project(seen, rank + rotated)
        shared = self._turn(self._split(self._cut_last(latent, rank, rank + rotated), 1, rotated))
        latent = self.normalize(self._cut_last(latent, 0, rank))
        plain_keys = self._split(
            self._project(latent, shape.heads * (shape.head - rotated), rank), shape.heads, shape.head - rotated
        )
        value = graph.split(self._project(latent, shape.heads * shape.head, rank), shape.heads)
        spread = op.multiply(shared, op.constant(np.ones((1, shape.heads, 1, 1), np.float32)))
        key = op.concat([spread, plain_keys], 3)
        mixed = graph.attend(str(layer), self._turn(graph.split(query, shape.heads)), key, value)
        return self._project(mixed, shape.width)

    def _mix(self, seen: Any, layer: int) -> Any:
        if layer == 0:
            return self._compute_gated(seen)
        shape = self._shape
        routed = op.sigmoid(self._project(seen, shape.experts))
        preferred = op.add(routed, op.constant(self.draw(1, shape.experts)[None] * np.float32(0.01)))
        grouped = op.reshape(preferred, numbers(0, 0, self._GROUPS, -1), special_zero=True)
        kept = self._choose(op.reduce_sum(grouped, numbers(-1)), self._KEPT)
        known = op.select(op.unsqueeze(kept, numbers(-1)), grouped, plain(_HIDDEN))
        chosen = self._choose(op.reshape(known, numbers(0, 0, shape.experts), special_zero=True), self._CHOSEN)
        shares = op.select(chosen, routed, plain(0.0))
        shares = op.divide(shares, op.reduce_sum(shares, numbers(-1), keep_dims=True))
        mixed = self._compute_gated(seen)  # of the expert that all tokens share
        for share in op.split(
            op.multiply(shares, plain(self._FACTOR)), op.constant(np.int64(-1)), shape.experts
        ).outputs():
            mixed = op.add(mixed, op.multiply(self._compute_gated(seen), share))
        return mixed

    def _project(self, rows: Any, outputs: int, inputs: int = 0) -> Any:
        return self._graph.multiply(rows, self.draw(outputs, inputs or self._shape.width))

    def _split(self, rows: Any, heads: int, size: int) -> Any:
        """[batch, n, heads * size] -> [batch, heads, n, size]."""
        return op.transpose(op.reshape(rows, numbers(0, 0, heads, size), special_zero=True), numbers(0, 2, 1, 3))

    def _cut_last(self, rows: Any, start: int, stop: int) -> Any:
        return op.slice(rows, numbers(start), numbers(stop), numbers(1), numbers(2))

    def _choose(self, scores: Any, count: int) -> Any:
        """Which of the last axis are the best ``count``."""
        best = op.topk(scores, op.constant(np.int64(count)), -1, "max", "value")
        return op.greater_equal(scores, op.reduce_min(best.output(0), numbers(-1), keep_dims=True))


class OssLayers(Layers):
    """GPT-OSS's."""

    _CHOSEN, _STEEPNESS, _MOST = 4, 1.702, 7.0  # experts of a token; of gates, and their largest number

    def _attend(self, seen: Any, layer: int) -> Any:
        shape, graph = self._shape, self._graph
        query, key, value = (
            graph.split(self._project(seen, heads * shape.head, shape.width), heads)
            for heads in (shape.heads, self._groups, self._groups)
        )
        mixed = graph.attend(str(layer), self._turn(query), self._turn(key), value)
        return self._project(mixed, shape.width, shape.width)

    def _mix(self, seen: Any, _layer: int) -> Any:
        shape = self._shape
        routed = self._project(seen, shape.experts, shape.width)
        best = op.topk(routed, op.constant(np.int64(self._CHOSEN)), -1, "max", "value")
        least = op.reduce_min(best.output(0), numbers(-1), keep_dims=True)
        chosen = op.select(op.greater_equal(routed, least), routed, plain(_HIDDEN))
        shares = op.split(op.softmax(chosen, -1), op.constant(np.int64(-1)), shape.experts).outputs()
        mixed = op.multiply(self._compute_clamped(seen), shares[0])
        for share in shares[1:]:
            mixed = op.add(mixed, op.multiply(self._compute_clamped(seen), share))
        return mixed

    def _compute_clamped(self, seen: Any) -> Any:
        shape = self._shape
        gate, up = (self._project(seen, shape.inner, shape.width) for _ in range(2))
        gate = op.minimum(gate, plain(self._MOST))
        opened = op.multiply(gate, op.sigmoid(op.multiply(gate, plain(self._STEEPNESS))))
        widened = op.add(op.clamp(up, -self._MOST, self._MOST), plain(1.0))
        return self._project(op.multiply(widened, opened), shape.width, shape.inner)

    def _project(self, rows: Any, outputs: int, inputs: int) -> Any:
        shift = self.draw(1, outputs)[0] * np.float32(0.1)
        return op.add(self._graph.multiply(rows, self.draw(outputs, inputs)), op.constant(shift))


_LAYERS = {"deepseek": LatentLayers, "gpt_oss": OssLayers}
_LIKED = 3.0  # how much likelier they are


def write_decoder(shape: DecoderShape, output: Path, rng: np.random.Generator, *, end: int) -> None:
    groups = shape.heads if shape.architecture in ("gptj", "deepseek") else shape.groups
    graph = DecoderGraph(heads=shape.heads, groups=groups, head=shape.head)
    made = _LAYERS.get(shape.architecture, Layers)(graph, shape, groups, rng)
    hidden = graph.embed(made.draw(shape.vocabulary, shape.width) * np.float32(shape.width**0.5))
    for layer in range(shape.layers):
        hidden = made.add_layer(hidden, layer)
    scores = graph.multiply(made.normalize(hidden), made.draw(shape.vocabulary, shape.width))
    bias = np.zeros(shape.vocabulary, np.float32)
    bias[end] = shape.ends
    bias[list(shape.liked)] = _LIKED
    scores = op.add(scores, op.constant(bias))
    if shape.sharpness != 1:
        scores = op.multiply(scores, op.constant(np.float32(shape.sharpness)))
    graph.save(scores, output, kind=shape.architecture, vocabulary=shape.vocabulary, end=end)


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
