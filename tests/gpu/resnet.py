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
    rng = save_samples((count, 3, side, side), settings, output, CALIBRATION)
    np.save(output / "labels.npy", rng.integers(0, 1000, count))
    counter.bump(count)


def save_samples(
    shape: tuple[int, ...], settings: Mapping[str, Any], output: Path, calibration: int
) -> np.random.Generator:
    """Draw samples, and save the first ``calibration`` also in float32. Return the generator that drew them."""
    rng = np.random.default_rng(1)
    samples = rng.standard_normal(shape, dtype=np.float32)
    np.save(output / "calibration.npy", samples[:calibration])
    np.save(output / "samples.npy", convert(samples, str(settings.get("dtype", "float32"))))
    return rng


def convert(samples: np.ndarray, dtype: str) -> np.ndarray:
    return quantized(samples) if dtype == "int8" else samples.astype(dtype)


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
    net.append("Gemm", [pooled, *weights], "scores", "classes", transB=1)
    save_graph(net.make_graph("resnet50", {"image": [3, side, side]}, {"scores": [1000]}), path)


def save_graph(graph: Any, path: Path) -> None:
    from onnx import helper, save

    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))


class Net:
    """Nodes and weights, drawn so that signals keep their magnitude."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._rng = np.random.default_rng(1)

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        output = f"{kind.lower()}{len(self.nodes)}"
        return self.append(kind, inputs, output, output, **attributes)

    def append(self, kind: str, inputs: list[str], output: str, name: str, **attributes: Any) -> str:
        """Append a node of this name. Return its output."""
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], name=name, **attributes))
        return output

    def weight(self, shape: tuple[int, ...], fan_in: float) -> str:
        values = self._rng.standard_normal(shape, dtype=np.float32) * np.float32(fan_in**-0.5)
        return self.constant(values, "weight")

    def constant(self, values: Any, kind: str = "constant") -> str:
        from onnx import numpy_helper

        name = f"{kind}{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def make_graph(self, name: str, inputs: Mapping[str, list[Any]], outputs: Mapping[str, list[Any]]) -> Any:
        """``inputs``: name -> shape of a sample, in float32; so are ``outputs``."""
        from onnx import TensorProto, helper

        ends = [
            [helper.make_tensor_value_info(end, TensorProto.FLOAT, ["batch", *shape]) for end, shape in shapes.items()]
            for shapes in (inputs, outputs)
        ]
        return helper.make_graph(self.nodes, name, *ends, self.weights)

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
