"""A benchmark file like a user's own: 100 points in four dimensions, classified by a fixed matrix. Ready in no time.

The settings of the Dataset and Model go into the artifacts, so that tests can make unfitting ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

SYNTHETIC = True
OUTPUTS = {"scores": ((5,), "float32")}
COUNT, WIDTH, CLASSES = 100, 4, 5


def matrix() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((WIDTH, CLASSES)).astype(np.float32)


def points() -> np.ndarray:
    return np.random.default_rng(4).standard_normal((COUNT, WIDTH)).astype(np.float32)


def labels() -> np.ndarray:
    return (points() @ matrix()).argmax(axis=1)


def build_dataset(_source: Path | None, settings: Mapping[str, Any], output: Path, counter: Any) -> None:
    np.save(output / "samples.npy", points().astype(settings.get("dtype", "float32")))
    np.save(output / "labels.npy", labels())
    counter.bump(COUNT)


def build_model(
    _source: Path | None, settings: Mapping[str, Any], _inputs: Mapping[str, Path], output: Path, _counter: Any
) -> None:
    if settings.get("program"):
        write_program(output / "model.pt2")
        return
    from onnx import TensorProto, helper, numpy_helper, save

    node = helper.make_node(settings.get("operator", "MatMul"), ["point", "matrix"], ["scores"])
    batch = settings.get("batch", "batch")
    point = helper.make_tensor_value_info("point", TensorProto.FLOAT, [batch, WIDTH])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, CLASSES])
    graph = helper.make_graph([node], "tiny", [point], [scores], [numpy_helper.from_array(matrix(), "matrix")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save(model, str(output / "model.onnx"))


def write_program(path: Path) -> None:
    """The same as a program of torch.export."""
    import torch

    layer = torch.nn.Linear(WIDTH, CLASSES, bias=False)
    layer.weight.data = torch.from_numpy(matrix().T.copy())
    free = ({0: torch.export.Dim("batch", min=1, max=64)},)
    torch.export.save(torch.export.export(layer, (torch.ones(2, WIDTH),), dynamic_shapes=free), path)
