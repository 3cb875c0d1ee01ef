"""DLRM-DCNv2 or DLRM as ONNX: dense float32 [N, 13] and sparse int32 [N, values] -> probability float32 [N, 1].

Tables are in a separate file next to the graph, since together they exceed a graph's maximum size.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.benchmarks.dlrm_v2.layers import (
    DENSE,
    OUTPUT,
    Shape,
    Weights,
    name_bottom,
    name_cross,
    name_table,
    name_top,
)
from harness.benchmarks.network_builder import NetworkBuilder
from harness.contract import Counter

MODEL, TABLES = "model.onnx", "tables.bin"
_FLOAT = 4  # bytes


def write_network(checkpoint: Weights, shape: Shape, output: Path, counter: Counter) -> None:
    """Write model.onnx and tables.bin."""
    counter.stage("building", len(shape.rows))
    net = NetworkBuilder(np.random.default_rng(1))
    x = _add_layers(net, checkpoint, "dense", [name_bottom(layer) for layer in range(len(shape.bottom))])
    joined = net.node("Concat", [x, *_look_up(net, checkpoint, shape, output / TABLES, counter)], axis=1)
    crossed = _cross(net, checkpoint, shape, joined) if shape.crosses else _interact(net, shape, x, joined)
    layers = len(shape.top)
    top = _add_layers(net, checkpoint, crossed, [name_top(layer, layers) for layer in range(layers - 1)])
    net.node("Sigmoid", [_add_linear(net, checkpoint, top, name_top(layers - 1, layers))], OUTPUT)
    net.save(
        output / MODEL,
        "dlrm_dcn_v2" if shape.crosses else "dlrm",
        {"dense": ("float32", ["N", DENSE]), "sparse": ("int32", ["N", sum(shape.values)])},
        {OUTPUT: ("float32", ["N", 1])},
    )


def _look_up(net: NetworkBuilder, checkpoint: Weights, shape: Shape, path: Path, counter: Counter) -> list[str]:
    """Sum the rows of each feature's values, [N, width]."""
    values = net.split("sparse", shape.values, axis=1)
    with path.open("wb") as stream:
        stream.truncate(sum(shape.rows) * shape.width * _FLOAT)
    found, start = [], 0
    for number, rows in enumerate(shape.rows):
        size = (rows, shape.width)
        checkpoint.read(name_table(number), np.memmap(path, np.float32, "r+", start, size))
        table = net.add_stored(size, path.name, start)
        picked = net.node("Gather", [table, values[number]], axis=0)
        if shape.values[number] == 1:
            found.append(net.node("Reshape", [picked, net.constant([-1, shape.width], "int64")]))
        else:
            found.append(net.node("ReduceSum", [picked, net.constant([1], "int64")], keepdims=0))
        start += rows * shape.width * _FLOAT
        counter.bump(1)
    return found


def _cross(net: NetworkBuilder, checkpoint: Weights, shape: Shape, first: str) -> str:
    """Add the layers, each of which computes first * (W (V x) + bias) + x."""
    x = first
    for layer in range(shape.crosses):
        inner = net.node("MatMul", [x, net.constant(checkpoint.read(name_cross("V_kernels", layer)).T)])
        outer = net.node("MatMul", [inner, net.constant(checkpoint.read(name_cross("W_kernels", layer)).T)])
        shifted = net.node("Add", [outer, net.constant(checkpoint.read(name_cross("bias", layer)))])
        x = net.node("Add", [net.node("Mul", [first, shifted]), x])
    return x


def _interact(net: NetworkBuilder, shape: Shape, dense: str, joined: str) -> str:
    """Join the dense features and the products of each embedding with every embedding before it."""
    count = len(shape.rows) + 1
    rows, columns = np.tril_indices(count, -1)
    stacked = net.node("Reshape", [joined, net.constant([-1, count, shape.width], "int64")])
    products = net.node("MatMul", [stacked, net.node("Transpose", [stacked], perm=[0, 2, 1])])
    flat = net.node("Reshape", [products, net.constant([-1, count * count], "int64")])
    chosen = net.node("Gather", [flat, net.constant(rows * count + columns, "int64")], axis=1)
    return net.node("Concat", [dense, chosen], axis=1)


def _add_layers(net: NetworkBuilder, checkpoint: Weights, source: str, names: list[str]) -> str:
    for name in names:
        source = net.node("Relu", [_add_linear(net, checkpoint, source, name)])
    return source


def _add_linear(net: NetworkBuilder, checkpoint: Weights, source: str, name: str) -> str:
    product = net.node("MatMul", [source, net.constant(checkpoint.read(f"{name}.weight").T)])
    return net.node("Add", [product, net.constant(checkpoint.read(f"{name}.bias"))])
