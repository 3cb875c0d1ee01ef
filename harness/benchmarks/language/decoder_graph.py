"""Networks that go on with a text, as OpenVINO reads them: tokens in, scores out, and keys and values as their state.

Input and variable names are those of exported checkpoints, so that any pipeline of OpenVINO GenAI takes them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import openvino as ov
import openvino.opset13 as op
from openvino.op.util import Variable, VariableInfo

MODEL = "openvino_model.xml"
_INPUTS: dict[str, tuple[list[int], Any]] = {"input_ids": ([-1, -1], np.int64), "attention_mask": ([-1, -1], np.int64)}
_INPUTS |= {"position_ids": ([-1, -1], np.int64), "beam_idx": ([-1], np.int32)}


def numbers(*values: int) -> Any:
    return op.constant(np.array(values, np.int64))


def plain(value: float) -> Any:
    return op.constant(np.float32(value))


class DecoderGraph:
    """Nodes over one set of inputs. ``groups``: heads of keys and values, each of which several heads of queries may
    share; ``head``: numbers of each. ``_sinks``: where keys and values are kept for the next token."""

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
        """[batch, n]"""
        return self._inputs["position_ids"]

    def embed(self, weight: np.ndarray, name: str = "input_ids") -> Any:
        """[batch, n, width]: a row of the weight for each token, or each position."""
        return op.gather(op.constant(weight), self._inputs[name], self._zero)

    def multiply(self, rows: Any, weight: np.ndarray) -> Any:
        """``weight``: [outputs, inputs]."""
        return op.matmul(rows, op.constant(weight), False, True)

    def split(self, rows: Any, heads: int) -> Any:
        """[batch, n, width] -> [batch, heads, n, head]."""
        cut = op.reshape(rows, numbers(0, 0, heads, self._head), True)
        return op.transpose(cut, numbers(0, 2, 1, 3))

    def attend(self, name: str, query: Any, key: Any, value: Any) -> Any:
        """Each token to those up to its own place. ``query``: [batch, heads, n, head], the others [batch, groups, …];
        gives [batch, n, width]."""
        key, value = self._remember(f"{name}.key", key), self._remember(f"{name}.value", value)
        allowed = self._allow(key)
        mixed = op.scaled_dot_product_attention(query, self._share(key), self._share(value), allowed)
        return op.reshape(
            op.transpose(mixed, numbers(0, 2, 1, 3)), numbers(0, 0, self._heads * self._head), special_zero=True
        )

    def save(self, scores: Any, output: Path, *, kind: str, vocabulary: int, end: int) -> None:
        """openvino_model.xml and .bin in fp32, and the two documents that say how answers end. ``scores``: [batch, n,
        vocabulary]."""
        self.save_graph(scores, output / MODEL, kind)
        config = {"model_type": kind, "vocab_size": vocabulary, "eos_token_id": end}
        (output / "config.json").write_text(json.dumps(config), encoding="ascii")
        (output / "generation_config.json").write_text(json.dumps({"eos_token_id": end}), encoding="ascii")

    def save_graph(self, scores: Any, path: Path, kind: str) -> None:
        """The .xml and the .bin alone."""
        scores.output(0).set_names({"logits"})
        model = ov.Model([op.result(scores)], self._sinks, list(self._inputs.values()), kind)
        model.validate_nodes_and_infer_types()
        ov.save_model(model, str(path), compress_to_fp16=False)

    def _remember(self, name: str, fresh: Any) -> Any:
        """Join the earlier keys of the sequence that each row continues with those of these tokens."""
        info = VariableInfo()
        info.data_shape, info.data_type = ov.PartialShape([-1, self._groups, -1, self._head]), ov.Type.f32
        info.variable_id = f"past.{name}"
        variable = Variable(info)
        batch = op.gather(op.shape_of(self._inputs["input_ids"], "i64"), numbers(0), self._zero)
        sizes = op.concat([batch, numbers(self._groups), numbers(0), numbers(self._head)], 0)
        past = op.read_value(op.broadcast(plain(0.0), sizes), variable)
        past = op.gather(past, self._inputs["beam_idx"], self._zero)
        whole = op.concat([past, fresh], 2)
        self._sinks.append(op.assign(whole, variable))
        return whole

    def _share(self, rows: Any) -> Any:
        """Each head of keys or values for all heads of queries that it serves."""
        times = self._heads // self._groups
        if times == 1:
            return rows
        sizes = op.shape_of(rows, "i64")
        batch, count = (op.gather(sizes, numbers(axis), self._zero) for axis in (0, 2))
        target = op.concat([batch, numbers(self._groups), numbers(times), count, numbers(self._head)], 0)
        spread = op.broadcast(op.unsqueeze(rows, numbers(2)), target, "BIDIRECTIONAL")
        return op.reshape(spread, numbers(0, self._heads, -1, self._head), special_zero=True)

    def _allow(self, key: Any) -> Any:
        count = op.gather(op.shape_of(key, "i64"), op.constant(np.int64(2)), self._zero)
        places = op.range(self._zero, count, op.constant(np.int64(1)), "i64")
        seen = op.less_equal(places, op.unsqueeze(self.positions, numbers(-1)))
        return op.unsqueeze(seen, numbers(1))
