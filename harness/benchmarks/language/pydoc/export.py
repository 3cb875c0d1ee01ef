"""Export the trained network in OpenVINO's format for language models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openvino.opset13 as op

from harness.benchmarks.language.decoder_graph import DecoderGraph, numbers, plain
from harness.benchmarks.language.pydoc.network import EPSILON, Parameters, TransformerShape


def write_model(parameters: Parameters, shape: TransformerShape, output: Path, *, end: int) -> None:
    """Write openvino_model.xml and .bin in fp32, and the two configuration files with the end token."""
    graph = DecoderGraph(heads=shape.heads, groups=shape.heads, head=shape.head)
    hidden = op.add(graph.embed(parameters["tokens"]), graph.embed(parameters["places"], "position_ids"))
    for layer in range(shape.layers):
        hidden = op.add(hidden, _attend(graph, parameters, shape, layer, hidden))
        seen = _normalize(hidden, parameters, f"{layer}.inner_scale")
        inner = op.relu(graph.multiply(seen, parameters[f"{layer}.up"]))
        hidden = op.add(hidden, graph.multiply(inner, parameters[f"{layer}.down"]))
    scores = graph.multiply(_normalize(hidden, parameters, "scale"), parameters["scores"])
    graph.save(scores, output, kind="pydoc", vocabulary=shape.vocabulary, end=end)


def _attend(graph: DecoderGraph, parameters: Parameters, shape: TransformerShape, layer: int, hidden: Any) -> Any:
    seen = _normalize(hidden, parameters, f"{layer}.scale")
    query, key, value = (
        graph.split(graph.multiply(seen, parameters[f"{layer}.{name}"]), shape.heads)
        for name in ("query", "key", "value")
    )
    return graph.multiply(graph.attend(str(layer), query, key, value), parameters[f"{layer}.out"])


def _normalize(rows: Any, parameters: Parameters, scale: str) -> Any:
    mean = op.reduce_mean(op.multiply(rows, rows), numbers(-1), keep_dims=True)
    root = op.power(op.add(mean, plain(EPSILON)), plain(-0.5))
    return op.multiply(op.multiply(rows, root), op.constant(parameters[scale]))
