"""Small networks of the architectures of published language models, and what they answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset13 as op

from harness.benchmarks.language.decoder_graph import MODEL, DecoderGraph
from harness.benchmarks.language.decoder_layers import DecoderShape, Layers
from harness.benchmarks.language.expert_layers import LatentLayers, OssLayers

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
