"""BERT's encoder with random weights and a head of two scores per token, to measure speed and compare backends.

A benchmark file like a user's (see harness.benchmarks). Dataset settings: count, length. Model settings: layers (24),
hidden (1024), program (also write model.pt2, for samples of that length); heads have 64 dimensions each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu.resnet import Net, save_graph

SYNTHETIC = True
RESPONSE_DTYPE = "float32"
WORDS, HEAD, LONGEST = 30522, 64, 512


def build_dataset(_source: Path | None, settings: Mapping[str, Any], output: Path, counter: Any) -> None:
    count, length = int(settings.get("count", 1024)), int(settings.get("length", 384))
    rng = np.random.default_rng(1)
    np.save(output / "input_ids.npy", rng.integers(0, WORDS, (count, length), dtype=np.int32))
    mask = np.arange(length)[None] < rng.integers(length // 2, length + 1, (count, 1))
    np.save(output / "attention_mask.npy", mask.astype(np.int32))
    counter.bump(count)


def load_samples(dataset: Path) -> dict[str, np.ndarray]:
    return {name: np.load(dataset / f"{name}.npy", mmap_mode="r") for name in ("input_ids", "attention_mask")}


def postprocess(outputs: Any) -> np.ndarray:
    """[n, length, 2] -> float32 [n, 2 * length]."""
    return np.ascontiguousarray(outputs[0].reshape(len(outputs[0]), -1), np.float32)


def score(log: Any, _dataset: Path, output: Path) -> dict[str, Any]:
    (output / "accuracy.txt").write_text('{"exact_match": 0.0, "f1": 0.0}\n', encoding="ascii")
    return {"f1": 0.0, "samples": len(log.indices)}


def build_model(
    _source: Path | None, settings: Mapping[str, Any], _inputs: Mapping[str, Path], output: Path, _counter: Any
) -> None:
    layers = int(settings.get("layers", 24))
    export(output / "model.onnx", layers, int(settings.get("hidden", 1024)))
    if settings.get("program"):
        from tests.gpu.programs import export_bert

        export_bert(output / "model.onnx", layers, int(settings["program"]))


def export(path: Path, layers: int, hidden: int) -> None:
    from onnx import TensorProto

    net = Encoder(hidden)
    top = net.embedded()
    net.mask()
    for _ in range(layers):
        top = net.layer(top)
    net.append("Identity", [net.dense(top, hidden, 2)], "logits", "logits")
    inputs = {name: ["length"] for name in ("input_ids", "attention_mask")}
    graph = net.make_graph("bert", inputs, {"logits": ["length", 2]})
    for item in graph.input:
        item.type.tensor_type.elem_type = TensorProto.INT32
    save_graph(graph, path)


class Encoder(Net):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.masked = ""

    def embedded(self) -> str:
        words = self.node("Gather", [self.weight((WORDS, self.hidden), 1), "input_ids"])
        length = self.node("Shape", ["input_ids"])
        last = self.node("Gather", [length, self.constant(np.array([1], np.int64))])
        places = self.weight((LONGEST, self.hidden), 1)
        start, axis = self.constant(np.array([0], np.int64)), self.constant(np.array([0], np.int64))
        return self.normalised(self.node("Add", [words, self.node("Slice", [places, start, last, axis])]))

    def mask(self) -> None:
        floats = self.node("Cast", ["attention_mask"], to=1)
        wide = self.node("Unsqueeze", [floats, self.constant(np.array([1, 2], np.int64))])
        others = self.node("Sub", [self.constant(np.float32(1)), wide])
        self.masked = self.node("Mul", [others, self.constant(np.float32(-10000))])

    def layer(self, top: str) -> str:
        attended = self.dense(self.attention(top), self.hidden, self.hidden)
        middle = self.normalised(self.node("Add", [attended, top]))
        inner = self.gelu(self.dense(middle, self.hidden, 4 * self.hidden))
        return self.normalised(self.node("Add", [self.dense(inner, 4 * self.hidden, self.hidden), middle]))

    def attention(self, top: str) -> str:
        split = self.constant(np.array([0, 0, self.hidden // HEAD, HEAD], np.int64))
        query, key, value = (self.node("Reshape", [self.dense(top, self.hidden, self.hidden), split]) for _ in range(3))
        query = self.node("Transpose", [query], perm=[0, 2, 1, 3])
        key = self.node("Transpose", [key], perm=[0, 2, 3, 1])
        value = self.node("Transpose", [value], perm=[0, 2, 1, 3])
        scores = self.node("Div", [self.node("MatMul", [query, key]), self.constant(np.float32(HEAD**0.5))])
        weights = self.node("Softmax", [self.node("Add", [scores, self.masked])], axis=-1)
        mixed = self.node("Transpose", [self.node("MatMul", [weights, value])], perm=[0, 2, 1, 3])
        return self.node("Reshape", [mixed, self.constant(np.array([0, 0, self.hidden], np.int64))])

    def dense(self, source: str, width: int, to: int) -> str:
        product = self.node("MatMul", [source, self.weight((width, to), width)])
        return self.node("Add", [self.weight((to,), 100), product])

    def gelu(self, source: str) -> str:
        inner = self.node("Erf", [self.node("Div", [source, self.constant(np.float32(2**0.5))])])
        shifted = self.node("Add", [inner, self.constant(np.float32(1))])
        return self.node("Mul", [self.node("Mul", [source, shifted]), self.constant(np.float32(0.5))])

    def normalised(self, source: str) -> str:
        centred = self.node("Sub", [source, self.node("ReduceMean", [source], axes=[-1])])
        square = self.node("Pow", [centred, self.constant(np.float32(2))])
        spread = self.node("ReduceMean", [square], axes=[-1])
        root = self.node("Sqrt", [self.node("Add", [spread, self.constant(np.float32(1e-5))])])
        scaled = self.node("Mul", [self.node("Div", [centred, root]), self.constant(np.ones(self.hidden, np.float32))])
        return self.node("Add", [scaled, self.constant(np.zeros(self.hidden, np.float32))])
