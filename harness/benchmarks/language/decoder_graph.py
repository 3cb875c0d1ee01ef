"""Networks that continue a text, in OpenVINO's form: tokens in, scores out, and keys and values as their state.

Input and variable names are those of exported checkpoints, so that any OpenVINO GenAI pipeline accepts them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import openvino as ov
import openvino.opset13 as op
from openvino.op.util import Variable, VariableInfo

MODEL = "openvino_model.xml"
_INPUTS: dict[str, tuple[list[int], Any]] = {"input_ids": ([-1, -1], np.int64), "attention_mask": ([-1, -1], np.int64)}
_INPUTS |= {"position_ids": ([-1, -1], np.int64), "beam_idx": ([-1], np.int32)}


def make_ints(*values: int) -> Any:
    return op.constant(np.array(values, np.int64))


def make_float(value: float) -> Any:
    return op.constant(np.float32(value))


class DecoderGraph:
    """Nodes over one set of inputs. ``groups``: heads of keys and values, each possibly shared by several query heads;
    ``head``: width of a head. ``_sinks``: where keys and values are stored for the next token."""

    INPUTS: ClassVar[dict[str, tuple[list[int], Any]]] = _INPUTS

    def __init__(self, *, heads: int, groups: int, head: int) -> None:
        self._heads, self._groups, self._head = heads, groups, head
        self._sinks: list[Any] = []
        self._inputs = {name: op.parameter(sizes, kind, name=name) for name, (sizes, kind) in self.INPUTS.items()}
        for name, node in self._inputs.items():
            node.output(0).set_names({name})
        self._zero = op.constant(np.int64(0))

    @property
    def positions(self) -> Any:
        """Return positions [batch, n]."""
        return self._inputs["position_ids"]

    def embed(self, weight: np.ndarray, name: str = "input_ids") -> Any:
        """Return the weight's row for each token or position, [batch, n, width]."""
        return op.gather(op.constant(weight), self._inputs[name], self._zero)

    def multiply(self, rows: Any, weight: np.ndarray) -> Any:
        """Multiply by ``weight`` [outputs, inputs]."""
        return op.matmul(rows, op.constant(weight), False, True)

    def split(self, rows: Any, heads: int) -> Any:
        """Split [batch, n, width] to [batch, heads, n, head]."""
        cut = op.reshape(rows, make_ints(0, 0, heads, self._head), True)
        return op.transpose(cut, make_ints(0, 2, 1, 3))

    def attend(self, name: str, query: Any, key: Any, value: Any) -> Any:
        """Let each token attend to those up to its own position. ``query``: [batch, heads, n, head], the others [batch,
        groups, …]; returns [batch, n, width]."""
        key, value = self._join_past(f"{name}.key", key), self._join_past(f"{name}.value", value)
        allowed = self._make_mask(key)
        mixed = op.scaled_dot_product_attention(query, self._repeat_heads(key), self._repeat_heads(value), allowed)
        return self.join(mixed)

    def join(self, mixed: Any) -> Any:
        """Join [batch, heads, n, head] to [batch, n, width]."""
        joined = op.transpose(mixed, make_ints(0, 2, 1, 3))
        return op.reshape(joined, make_ints(0, 0, self._heads * self._head), special_zero=True)

    def save(self, scores: Any, output: Path, *, kind: str, vocabulary: int, end: int) -> None:
        """Save openvino_model.xml and .bin in fp32, and the two documents that define the end of answers. ``scores``:
        [batch, n, vocabulary]."""
        self.save_graph(scores, output / MODEL, kind)
        config = {"model_type": kind, "vocab_size": vocabulary, "eos_token_id": end}
        (output / "config.json").write_text(json.dumps(config), encoding="ascii")
        (output / "generation_config.json").write_text(json.dumps({"eos_token_id": end}), encoding="ascii")

    def save_graph(self, scores: Any, path: Path, kind: str) -> None:
        """Save only the .xml and the .bin."""
        scores.output(0).set_names({"logits"})
        model = ov.Model([op.result(scores)], self._sinks, list(self._inputs.values()), kind)
        model.validate_nodes_and_infer_types()
        ov.save_model(model, str(path), compress_to_fp16=False)

    def _join_past(self, name: str, fresh: Any) -> Any:
        """Join the earlier keys of the sequence that each row continues with those of these tokens."""
        info = VariableInfo()
        info.data_shape, info.data_type = ov.PartialShape([-1, self._groups, -1, self._head]), ov.Type.f32
        info.variable_id = f"past.{name}"
        variable = Variable(info)
        batch = op.gather(op.shape_of(self._inputs["input_ids"], "i64"), make_ints(0), self._zero)
        sizes = op.concat([batch, make_ints(self._groups), make_ints(0), make_ints(self._head)], 0)
        past = op.read_value(op.broadcast(make_float(0.0), sizes), variable)
        past = op.gather(past, self._inputs["beam_idx"], self._zero)
        whole = op.concat([past, fresh], 2)
        self._sinks.append(op.assign(whole, variable))
        return whole

    def _repeat_heads(self, rows: Any) -> Any:
        """Repeat each head of keys or values for all query heads that it serves."""
        times = self._heads // self._groups
        if times == 1:
            return rows
        sizes = op.shape_of(rows, "i64")
        batch, count = (op.gather(sizes, make_ints(axis), self._zero) for axis in (0, 2))
        target = op.concat([batch, make_ints(self._groups), make_ints(times), count, make_ints(self._head)], 0)
        spread = op.broadcast(op.unsqueeze(rows, make_ints(2)), target, "BIDIRECTIONAL")
        return op.reshape(spread, make_ints(0, self._heads, -1, self._head), special_zero=True)

    def _make_mask(self, key: Any) -> Any:
        count = op.gather(op.shape_of(key, "i64"), op.constant(np.int64(2)), self._zero)
        places = op.range(self._zero, count, op.constant(np.int64(1)), "i64")
        seen = op.less_equal(places, op.unsqueeze(self.positions, make_ints(-1)))
        return op.unsqueeze(seen, make_ints(1))


# Llama's layers, as graph nodes with weights drawn from a seed: normalised by the root mean square, with rotated
# queries and keys, shared heads of keys and values, and gated layers.

_EPSILON, _BASE = 1e-5, 10_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    vocabulary: int
    width: int = 64
    heads: int = 4
    groups: int = 2
    layers: int = 2
    inner: int = 128
    ends: float = 1.5  # how much likelier the end is than another token
    liked: tuple[int, ...] = ()  # these tokens are likelier, too
    sharpness: float = 1.0  # scale of scores; with a large one, the drawn tokens are the likeliest ones

    @property
    def head(self) -> int:
        return self.width // self.heads


class Layers:
    def __init__(self, graph: DecoderGraph, shape: DecoderShape, rng: np.random.Generator) -> None:
        self._graph, self._shape, self._rng = graph, shape, rng
        speeds = _BASE ** (-np.arange(0, shape.head, 2, dtype=np.float32) / shape.head)
        places = op.unsqueeze(op.convert(graph.positions, "f32"), make_ints(-1))
        angles = op.unsqueeze(op.multiply(places, op.constant(speeds)), make_ints(1))  # [batch, 1, n, head / 2]
        self._cosine, self._sine = op.cos(angles), op.sin(angles)

    def draw(self, outputs: int, inputs: int) -> np.ndarray:
        return self._rng.standard_normal((outputs, inputs)).astype(np.float32) / np.float32(inputs**0.5)

    def normalize(self, rows: Any) -> Any:
        mean = op.reduce_mean(op.multiply(rows, rows), make_ints(-1), keep_dims=True)
        return op.multiply(rows, op.power(op.add(mean, make_float(_EPSILON)), make_float(-0.5)))

    def add_layer(self, hidden: Any, layer: int) -> Any:
        return self.add_gated(op.add(hidden, self._attend(self.normalize(hidden), layer)))

    def add_gated(self, hidden: Any) -> Any:
        shape, seen = self._shape, self.normalize(hidden)
        gate, up = (self.project(seen, shape.inner, shape.width) for _ in range(2))
        return op.add(hidden, self.project(op.multiply(op.swish(gate), up), shape.width, shape.inner))

    def project(self, rows: Any, outputs: int, inputs: int) -> Any:
        return self._graph.multiply(rows, self.draw(outputs, inputs))

    def _attend(self, seen: Any, layer: int) -> Any:
        shape, graph = self._shape, self._graph
        query, key, value = (
            graph.split(self.project(seen, heads * shape.head, shape.width), heads)
            for heads in (shape.heads, shape.groups, shape.groups)
        )
        mixed = graph.attend(str(layer), self._rotate(query), self._rotate(key), value)
        return self.project(mixed, shape.width, shape.width)

    def _rotate(self, rows: Any) -> Any:
        """Rotate pairs of values, half a head apart, by the token's position."""
        first, second = op.split(rows, op.constant(np.int64(3)), 2).outputs()
        left = op.subtract(op.multiply(first, self._cosine), op.multiply(second, self._sine))
        return op.concat([left, op.add(op.multiply(second, self._cosine), op.multiply(first, self._sine))], 3)
