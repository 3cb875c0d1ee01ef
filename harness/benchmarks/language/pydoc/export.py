"""The trained network as OpenVINO reads language models: tokens in, scores out, and a state that holds keys and values.

Input and variable names are those of exported checkpoints, so that any pipeline of OpenVINO GenAI takes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op
from openvino.op.util import Variable, VariableInfo

from harness.benchmarks.language.pydoc.network import EPSILON, Parameters, TransformerShape

_INPUTS: dict[str, tuple[list[int], Any]] = {"input_ids": ([-1, -1], np.int64), "attention_mask": ([-1, -1], np.int64)}
_INPUTS |= {"position_ids": ([-1, -1], np.int64), "beam_idx": ([-1], np.int32)}


def write_model(parameters: Parameters, shape: TransformerShape, output: Path, *, end: int) -> None:
    """openvino_model.xml and .bin in fp32, and the two documents that say how answers end."""
    model = _Graph(parameters, shape).make_model()
    ov.save_model(model, str(output / "openvino_model.xml"), compress_to_fp16=False)
    config = {"model_type": "pydoc", "vocab_size": shape.vocabulary, "eos_token_id": end}
    (output / "config.json").write_text(json.dumps(config), encoding="ascii")
    (output / "generation_config.json").write_text(json.dumps({"eos_token_id": end}), encoding="ascii")


def _number(*values: int) -> Any:
    return op.constant(np.array(values, np.int64))


class _Graph:
    """Nodes over one set of inputs. ``_sinks``: where keys and values are kept for the next token."""

    def __init__(self, parameters: Parameters, shape: TransformerShape) -> None:
        self._parameters, self._shape = parameters, shape
        self._sinks: list[Any] = []
        self._inputs = {name: op.parameter(sizes, kind, name=name) for name, (sizes, kind) in _INPUTS.items()}
        for name, node in self._inputs.items():
            node.output(0).set_names({name})
        self._zero = op.constant(np.int64(0))

    def make_model(self) -> ov.Model:
        hidden = op.add(
            op.gather(self._weight("tokens"), self._inputs["input_ids"], self._zero),
            op.gather(self._weight("places"), self._inputs["position_ids"], self._zero),
        )
        for layer in range(self._shape.layers):
            hidden = op.add(hidden, self._attend(layer, self._normalize(hidden, f"{layer}.scale")))
            inner = op.relu(self._multiply(self._normalize(hidden, f"{layer}.inner_scale"), f"{layer}.up"))
            hidden = op.add(hidden, self._multiply(inner, f"{layer}.down"))
        scores = self._multiply(self._normalize(hidden, "scale"), "scores")
        scores.output(0).set_names({"logits"})
        model = ov.Model([op.result(scores)], self._sinks, list(self._inputs.values()), "pydoc")
        model.validate_nodes_and_infer_types()
        return model

    def _weight(self, name: str) -> Any:
        return op.constant(self._parameters[name])

    def _multiply(self, rows: Any, name: str) -> Any:
        return op.matmul(rows, self._weight(name), False, True)

    def _normalize(self, rows: Any, scale: str) -> Any:
        mean = op.reduce_mean(op.multiply(rows, rows), _number(-1), keep_dims=True)
        root = op.power(op.add(mean, self._plain(EPSILON)), self._plain(-0.5))
        return op.multiply(op.multiply(rows, root), self._weight(scale))

    def _plain(self, value: float) -> Any:
        return op.constant(np.float32(value))

    def _attend(self, layer: int, seen: Any) -> Any:
        shape = self._shape
        query = self._split(self._multiply(seen, f"{layer}.query"))
        key, value = (self._remember(f"{layer}.{name}", seen) for name in ("key", "value"))
        mixed = op.scaled_dot_product_attention(query, key, value, self._allow(key))
        joined = op.reshape(op.transpose(mixed, _number(0, 2, 1, 3)), _number(0, 0, shape.width), True)
        return self._multiply(joined, f"{layer}.out")

    def _split(self, rows: Any) -> Any:
        """[batch, n, width] -> [batch, heads, n, head]."""
        heads = op.reshape(rows, _number(0, 0, self._shape.heads, self._shape.head), True)
        return op.transpose(heads, _number(0, 2, 1, 3))

    def _remember(self, name: str, seen: Any) -> Any:
        """What was there before, of the sequence that each row goes on with, and what these tokens add."""
        shape = self._shape
        info = VariableInfo()
        info.data_shape, info.data_type = ov.PartialShape([-1, shape.heads, -1, shape.head]), ov.Type.f32
        info.variable_id = f"past.{name}"
        variable = Variable(info)
        batch = op.gather(op.shape_of(self._inputs["input_ids"], "i64"), _number(0), self._zero)
        sizes = op.concat([batch, _number(shape.heads), _number(0), _number(shape.head)], 0)
        past = op.read_value(op.broadcast(self._plain(0.0), sizes), variable)
        past = op.gather(past, self._inputs["beam_idx"], self._zero)
        whole = op.concat([past, self._split(self._multiply(seen, name))], 2)
        self._sinks.append(op.assign(whole, variable))
        return whole

    def _allow(self, key: Any) -> Any:
        """Each token sees those up to its own place."""
        count = op.gather(op.shape_of(key, "i64"), op.constant(np.int64(2)), self._zero)
        places = op.range(self._zero, count, op.constant(np.int64(1)), "i64")
        seen = op.less_equal(places, op.unsqueeze(self._inputs["position_ids"], _number(-1)))
        return op.unsqueeze(seen, _number(1))
