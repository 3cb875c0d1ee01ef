"""The best scores of each level, chosen by the network itself where it ends at its heads.

RetinaNet's heads give 32 million scores for one image, 127 MB. The network sends on what the host goes on with: of each
level the best scores, their places, and their offsets. It chooses twice, which is exact and a hundred times cheaper
than ranking every score: any of the best thousand scores belongs to one of the thousand anchors whose best score is
highest. It needs ONNX alone: a machine without the benchmark's other libraries makes such networks as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SCORES, PLACES, OFFSETS = "best_scores", "best_places", "best_offsets"
_GATHERS_PER_SAMPLE = 12  # the first opset whose GatherND has a batch
_AXES_ARE_INPUTS = 18  # the first opset whose ReduceMax takes them so


def rank_heads(source: Path, target: Path, anchors: Sequence[int], classes: int, most: int) -> bool:
    """Rank the heads; true where ``source`` ends at heads of levels of ``anchors`` and was written as ``target`` with
    its ranking."""
    model = onnx.load(source)
    opset = max(item.version for item in model.opset_import if item.domain in ("", "ai.onnx"))
    heads = {_sizes(output): output.name for output in model.graph.output}
    scores, offsets = heads.get((sum(anchors), classes), ""), heads.get((sum(anchors), 4), "")
    if not (scores and offsets) or len(heads) != 2 or opset < _GATHERS_PER_SAMPLE:
        return False
    axes_are_inputs = opset >= _AXES_ARE_INPUTS
    append_ranking(model.graph, scores, offsets, anchors, classes, most, axes_are_inputs=axes_are_inputs)
    onnx.save_model(model, target)
    return True


def append_ranking(
    graph: Any,
    scores: str,
    offsets: str,
    anchors: Sequence[int],
    classes: int,
    most: int,
    *,
    axes_are_inputs: bool = False,
) -> None:
    """In place of the outputs ``scores`` [n, anchors, classes] and ``offsets`` [n, anchors, 4]: the ``most`` best of
    each of the levels, whose anchors follow each other, as scores [n, best], places among all scores int32 [n, best]
    and offsets [n, best, 4]."""
    batch = _batch_of(graph)
    nodes = _Nodes(graph, most, axes_are_inputs)
    found: dict[str, list[str]] = {SCORES: [], PLACES: [], OFFSETS: []}
    count = start = 0
    for size in anchors:
        level = nodes.slice(scores, start, start + size), nodes.slice(offsets, start, start + size)
        best = min(most, size * classes)
        for parts, part in zip(found.values(), nodes.choose(*level, size, classes, start, best), strict=True):
            parts.append(part)
        start, count = start + size, count + best
    for name, parts in found.items():
        graph.node.append(helper.make_node("Concat", parts, [name], name=f"ranking/{name}", axis=1))
    del graph.output[:]
    graph.output.extend(
        [
            helper.make_tensor_value_info(SCORES, TensorProto.FLOAT, [batch, count]),
            helper.make_tensor_value_info(PLACES, TensorProto.INT32, [batch, count]),
            helper.make_tensor_value_info(OFFSETS, TensorProto.FLOAT, [batch, count, 4]),
        ]
    )


class _Nodes:
    def __init__(self, graph: Any, most: int, axes_are_inputs: bool) -> None:
        self._graph, self._most, self._axes_are_inputs, self._count = graph, most, axes_are_inputs, 0

    def choose(
        self, scores: str, offsets: str, anchors: int, classes: int, start: int, best: int
    ) -> tuple[str, str, str]:
        """Choose from one level, whose first anchor is ``start`` of all: the best scores, their places, their
        offsets."""
        if self._axes_are_inputs:
            highest = self._add("ReduceMax", [scores, self._constant([2])], keepdims=0)
        else:
            highest = self._add("ReduceMax", [scores], axes=[2], keepdims=0)
        _, rows = self._top(highest, min(self._most, anchors))
        likely = self._add("Reshape", [self._gather(scores, rows), self._constant([0, -1])])
        values, chosen = self._top(likely, best)
        width = self._constant(classes)
        row = self._add("Div", [chosen, width])
        label = self._add("Sub", [chosen, self._add("Mul", [row, width])])
        anchor = self._gather(rows, row)
        place = self._add("Add", [self._add("Mul", [anchor, width]), label])
        if start:
            place = self._add("Add", [place, self._constant(start * classes)])
        return values, self._add("Cast", [place], to=TensorProto.INT32), self._gather(offsets, anchor)

    def slice(self, source: str, start: int, stop: int) -> str:
        return self._add("Slice", [source, *map(self._constant, ([start], [stop], [1]))])

    def _top(self, source: str, count: int) -> tuple[str, str]:
        values = self._add("TopK", [source, self._constant([count])], outputs=2)
        return values, f"{values}/places"

    def _gather(self, source: str, rows: str) -> str:
        """[n, rows, ...] and [n, m] -> [n, m, ...]."""
        wide = self._add("Reshape", [rows, self._constant([0, -1, 1])])
        return self._add("GatherND", [source, wide], batch_dims=1)

    def _constant(self, value: int | list[int]) -> str:
        name = f"ranking/constant{len(self._graph.initializer)}"
        self._graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), name))
        return name

    def _add(self, kind: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> str:
        name = f"ranking/{kind.lower()}{self._count}"
        self._count += 1
        given = [name, f"{name}/places"][:outputs]
        self._graph.node.append(helper.make_node(kind, inputs, given, name=name, **attributes))
        return name


def _sizes(output: Any) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in output.type.tensor_type.shape.dim)[1:]


def _batch_of(graph: Any) -> str | int:
    dim = graph.output[0].type.tensor_type.shape.dim[0]
    return int(dim.dim_value) if dim.dim_value else str(dim.dim_param or "batch")
