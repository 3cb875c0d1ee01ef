"""A small transformer, trained in numpy: tokens and positions in, a score for each next token out.

Layers are normalized first (root mean square), attend to earlier tokens, and have one rectified layer each. Training
starts from the frequencies of token pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino.opset13 as op
from numpy.typing import NDArray

from harness.benchmarks.language.decoder_graph import DecoderGraph, numbers, plain

Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]
Parameters = dict[str, Floats]
EPSILON = 1e-5
_BATCH, _PASSAGE = 8, 64  # passages per step, and tokens of each
_AWAY = np.float32(-1e9)


@dataclass(frozen=True, slots=True)
class TransformerShape:
    vocabulary: int
    width: int = 64
    heads: int = 2
    layers: int = 2
    inner: int = 256
    places: int = 192  # maximum tokens of a prompt and its answer

    @property
    def head(self) -> int:
        return self.width // self.heads


def draw_parameters(shape: TransformerShape, rng: np.random.Generator) -> Parameters:
    width, inner = shape.width, shape.inner
    sizes = {"places": (shape.places, width)}
    for layer in range(shape.layers):
        sizes |= {f"{layer}.{name}": (width, width) for name in ("query", "key", "value", "out")}
        sizes |= {f"{layer}.up": (inner, width), f"{layer}.down": (width, inner)}
    made = {name: rng.standard_normal(size).astype(np.float32) * np.float32(0.05) for name, size in sizes.items()}
    scales = ["scale", *(f"{layer}.{name}" for layer in range(shape.layers) for name in ("scale", "inner_scale"))]
    return made | {name: np.ones(width, np.float32) for name in scales}


def factor_pairs(stream: Tokens, shape: TransformerShape) -> Parameters:
    """Compute matrices by which a token alone scores the next one by the frequency of the pair. Training starts there,
    so that layers only learn the effect of more context."""
    pairs = np.full((shape.vocabulary, shape.vocabulary), 0.02, np.float32)
    np.add.at(pairs, (stream[:-1], stream[1:]), 1)
    likely = np.log(pairs / pairs.sum(axis=1, keepdims=True))
    left, strength, right = np.linalg.svd(likely - likely.mean(axis=1, keepdims=True), full_matrices=False)
    rows = left[:, : shape.width] * strength[: shape.width]
    size = np.sqrt((rows * rows).mean(axis=1, keepdims=True) + EPSILON)
    return {"tokens": rows / size, "scores": right[: shape.width].T * size.mean()}


def train(
    stream: Tokens, shape: TransformerShape, *, seed: int, steps: int, bump: Callable[[int], None] = lambda _: None
) -> Parameters:
    """Train by Adam on passages at random positions of the stream, with a step size that falls to zero."""
    rng = np.random.default_rng(seed)
    parameters = draw_parameters(shape, rng) | factor_pairs(stream, shape)
    first = {name: np.zeros_like(value) for name, value in parameters.items()}
    second = {name: np.zeros_like(value) for name, value in parameters.items()}
    for step in range(1, steps + 1):
        starts = rng.integers(0, len(stream) - _PASSAGE - 1, _BATCH)
        passages = stream[starts[:, None] + np.arange(_PASSAGE + 1)]
        rate = 2e-3 * (1 - step / (steps + 1))
        for name, gradient in differentiate(parameters, shape, passages)[1].items():
            first[name] += 0.1 * (gradient - first[name])
            second[name] += 0.01 * (gradient * gradient - second[name])
            scale = np.sqrt(second[name] / (1 - 0.99**step)) + 1e-8
            parameters[name] -= (rate / (1 - 0.9**step) * first[name] / scale).astype(np.float32)
        bump(1)
    return parameters


def differentiate(parameters: Parameters, shape: TransformerShape, passages: Tokens) -> tuple[float, Parameters]:
    """Return the mean cross-entropy (nats) of each token given those before it, and its gradients. ``passages`` [batch,
    n + 1]."""
    inputs, targets = passages[:, :-1], passages[:, 1:]
    scores, top, back_top, tapes = _score(parameters, shape, inputs)
    flat = top.reshape(-1, shape.width)
    scores -= scores.max(axis=1, keepdims=True)
    likely = np.exp(scores)
    likely /= likely.sum(axis=1, keepdims=True)
    rows, wanted = np.arange(targets.size), targets.reshape(-1)
    loss = float(-np.log(likely[rows, wanted] + 1e-30).mean())
    likely[rows, wanted] -= 1
    likely /= np.float32(targets.size)
    gradients = {
        "scores": likely.T @ flat,
        "tokens": np.zeros_like(parameters["tokens"]),
        "places": np.zeros_like(parameters["places"]),
    }
    back, gradients["scale"] = back_top((likely @ parameters["scores"]).reshape(top.shape))
    for layer in reversed(range(shape.layers)):
        back = tapes[layer](back, gradients)
    np.add.at(gradients["tokens"], inputs.reshape(-1), back.reshape(-1, shape.width))
    gradients["places"][: inputs.shape[1]] = back.sum(axis=0)
    return loss, gradients


def _score(
    parameters: Parameters, shape: TransformerShape, inputs: Tokens
) -> tuple[Floats, Floats, _BackNormal, list[_Back]]:
    """Return scores [tokens, vocabulary], their inputs, and the backward functions."""
    hidden = parameters["tokens"][inputs] + parameters["places"][: inputs.shape[1]]
    tapes = []
    for layer in range(shape.layers):
        hidden, tape = _run_layer(parameters, shape, layer, hidden)
        tapes.append(tape)
    top, back_top = _normalize(hidden, parameters["scale"])
    return top.reshape(-1, shape.width) @ parameters["scores"].T, top, back_top, tapes


_Back = Callable[[Floats, Parameters], Floats]
_BackNormal = Callable[[Floats], tuple[Floats, Floats]]


def _run_layer(parameters: Parameters, shape: TransformerShape, layer: int, hidden: Floats) -> tuple[Floats, _Back]:
    """Return the layer's output, and the function that propagates gradients back through it."""
    own = {name: parameters[f"{layer}.{name}"] for name in _NAMES}
    batch, count, width = hidden.shape
    seen, back_seen = _normalize(hidden, own["scale"])
    query, key, value = (_split(seen @ own[name].T, shape) for name in ("query", "key", "value"))
    root = np.float32(1 / np.sqrt(shape.head))
    weights = query @ key.swapaxes(2, 3) * root
    weights += np.triu(np.full((count, count), _AWAY), 1)
    weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = (weights @ value).swapaxes(1, 2).reshape(batch, count, width)
    middle = hidden + mixed @ own["out"].T
    inner_seen, back_inner = _normalize(middle, own["inner_scale"])
    active = np.maximum(inner_seen @ own["up"].T, 0)

    def back(slope: Floats, gradients: Parameters) -> Floats:
        back_active = (slope @ own["down"]) * (active > 0)
        gradients[f"{layer}.down"] = _outer(slope, active)
        gradients[f"{layer}.up"] = _outer(back_active, inner_seen)
        through, gradients[f"{layer}.inner_scale"] = back_inner(back_active @ own["up"])
        slope = slope + through
        gradients[f"{layer}.out"] = _outer(slope, mixed)
        back_mixed = _split(slope @ own["out"], shape)
        back_weights = back_mixed @ value.swapaxes(2, 3)
        back_weights = weights * (back_weights - (back_weights * weights).sum(axis=-1, keepdims=True)) * root
        parts = {
            "query": back_weights @ key,
            "key": back_weights.swapaxes(2, 3) @ query,
            "value": weights.swapaxes(2, 3) @ back_mixed,
        }
        back_seen_by = np.zeros_like(seen)
        for name, part in parts.items():
            joined = part.swapaxes(1, 2).reshape(batch, count, width)
            gradients[f"{layer}.{name}"] = _outer(joined, seen)
            back_seen_by += joined @ own[name]
        through, gradients[f"{layer}.scale"] = back_seen(back_seen_by)
        return slope + through

    return middle + active @ own["down"].T, back


_NAMES = ("scale", "query", "key", "value", "out", "inner_scale", "up", "down")


def _split(rows: Floats, shape: TransformerShape) -> Floats:
    """Split [batch, n, width] to [batch, heads, n, head]."""
    batch, count, _ = rows.shape
    return rows.reshape(batch, count, shape.heads, shape.head).swapaxes(1, 2)


def _outer(slopes: Floats, inputs: Floats) -> Floats:
    found: Floats = slopes.reshape(-1, slopes.shape[-1]).T @ inputs.reshape(-1, inputs.shape[-1])
    return found


def _normalize(rows: Floats, scale: Floats) -> tuple[Floats, _BackNormal]:
    """Divide rows by their root mean square and multiply by ``scale``; also return the backward function."""
    inverse = (1 / np.sqrt((rows * rows).mean(axis=-1, keepdims=True) + EPSILON)).astype(rows.dtype)
    plain = rows * inverse

    def back(slope: Floats) -> tuple[Floats, Floats]:
        scaled = slope * scale
        through = inverse * (scaled - plain * (scaled * plain).mean(axis=-1, keepdims=True))
        return through, (slope * plain).reshape(-1, len(scale)).sum(axis=0)

    return plain * scale, back


# Export the trained network in OpenVINO's format for language models.


def write_model(parameters: Parameters, shape: TransformerShape, output: Path, *, end: int) -> None:
    """Write openvino_model.xml and .bin in fp32, and the two configuration files with the end token."""
    graph = DecoderGraph(heads=shape.heads, groups=shape.heads, head=shape.head)
    hidden = op.add(graph.embed(parameters["tokens"]), graph.embed(parameters["places"], "position_ids"))
    for layer in range(shape.layers):
        hidden = op.add(hidden, _join(graph, parameters, shape, layer, hidden))
        seen = _scale(hidden, parameters, f"{layer}.inner_scale")
        inner = op.relu(graph.multiply(seen, parameters[f"{layer}.up"]))
        hidden = op.add(hidden, graph.multiply(inner, parameters[f"{layer}.down"]))
    scores = graph.multiply(_scale(hidden, parameters, "scale"), parameters["scores"])
    graph.save(scores, output, kind="pydoc", vocabulary=shape.vocabulary, end=end)


def _join(graph: DecoderGraph, parameters: Parameters, shape: TransformerShape, layer: int, hidden: Any) -> Any:
    seen = _scale(hidden, parameters, f"{layer}.scale")
    query, key, value = (
        graph.split(graph.multiply(seen, parameters[f"{layer}.{name}"]), shape.heads)
        for name in ("query", "key", "value")
    )
    return graph.multiply(graph.attend(str(layer), query, key, value), parameters[f"{layer}.out"])


def _scale(rows: Any, parameters: Parameters, scale: str) -> Any:
    mean = op.reduce_mean(op.multiply(rows, rows), numbers(-1), keep_dims=True)
    root = op.power(op.add(mean, plain(EPSILON)), plain(-0.5))
    return op.multiply(op.multiply(rows, root), op.constant(parameters[scale]))
