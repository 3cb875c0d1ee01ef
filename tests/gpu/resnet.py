"""ResNet-50 v1.5 with random weights, to measure speed and compare backends. Its answers mean nothing.

A benchmark file like a user's (see harness.benchmarks). Dataset settings: count, side (of an image, in pixels), dtype
(float32, float16 or int8; an int8 value is multiplied by SCALE). Model settings: blocks ("3,4,6,3"), side, program
(also write model.pt2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SYNTHETIC = True
OUTPUTS = {"scores": ((1000,), "float32")}
SCALE = 1 / 32
CALIBRATION = 16
WIDTHS = (64, 128, 256, 512)
SLIM = (16, 32, 64, 128)  # where a test looks at the graph and not at the time


def build_dataset(_source: Path | None, settings: Mapping[str, Any], output: Path, counter: Any) -> None:
    count, side = int(settings.get("count", 1024)), int(settings.get("side", 224))
    dtype = str(settings.get("dtype", "float32"))
    rng = np.random.default_rng(1)
    images = rng.standard_normal((count, 3, side, side), dtype=np.float32)
    np.save(output / "calibration.npy", images[:CALIBRATION])
    np.save(output / "samples.npy", quantized(images) if dtype == "int8" else images.astype(dtype))
    np.save(output / "labels.npy", rng.integers(0, 1000, count))
    counter.bump(count)


def quantized(images: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(images / SCALE), -128, 127).astype(np.int8)


def build_model(
    _source: Path | None, settings: Mapping[str, Any], _inputs: Mapping[str, Path], output: Path, _counter: Any
) -> None:
    blocks = [int(part) for part in str(settings.get("blocks", "3,4,6,3")).split(",")]
    side = int(settings.get("side", 224))
    export(output / "model.onnx", blocks, side)
    if settings.get("program"):
        from tests.gpu.programs import export_resnet

        export_resnet(output / "model.onnx", blocks, side)


def export(path: Path, blocks: list[int], side: int = 224, widths: Sequence[int] = WIDTHS) -> None:
    """Export the network with batch normalisation folded into the convolutions."""
    from onnx import TensorProto, helper, save

    net = Net()
    top = net.convolution("image", 3, 64, 7, 2)
    top = net.node("MaxPool", [top], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (width, count) in enumerate(zip(widths, blocks, strict=True)):
        for block in range(count):
            top = net.bottleneck(top, channels, width, 2 if stage and not block else 1)
            channels = 4 * width
    pooled = net.node("Flatten", [net.node("GlobalAveragePool", [top])])
    weights = [net.weight((1000, channels), channels), net.weight((1000,), 1)]
    net.nodes.append(helper.make_node("Gemm", [pooled, *weights], ["scores"], name="classes", transB=1))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, side, side])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 1000])
    graph = helper.make_graph(net.nodes, "resnet50", [image], [scores], net.weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))


class Net:
    """Nodes and weights, drawn so that signals keep their magnitude."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._rng = np.random.default_rng(1)

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        from onnx import helper

        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def weight(self, shape: tuple[int, ...], fan_in: float) -> str:
        from onnx import numpy_helper

        name = f"weight{len(self.weights)}"
        values = self._rng.standard_normal(shape, dtype=np.float32) * np.float32(fan_in**-0.5)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def convolution(
        self, source: str, channels: int, width: int, size: int, stride: int, *, active: bool = True
    ) -> str:
        weights = [self.weight((width, channels, size, size), channels * size * size), self.weight((width,), 100)]
        border = [size // 2] * 4
        name = self.node("Conv", [source, *weights], kernel_shape=[size, size], strides=[stride, stride], pads=border)
        return self.node("Relu", [name]) if active else name

    def bottleneck(self, top: str, channels: int, width: int, stride: int) -> str:
        inner = self.convolution(top, channels, width, 1, 1)
        inner = self.convolution(inner, width, width, 3, stride)
        inner = self.convolution(inner, width, 4 * width, 1, 1, active=False)
        others = top if channels == 4 * width else self.convolution(top, channels, 4 * width, 1, stride, active=False)
        return self.node("Relu", [self.node("Add", [inner, others])])
