"""A model of ResNet-50's shape with random weights, in int8 as Q/DQ: for speed only, its answers mean nothing.

A benchmark file like a user's own (see harness.benchmarks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

SYNTHETIC = True
OUTPUTS = {"scores": ((1000,), "float32")}
COUNT = 64
STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first


def build_dataset(_source: Path | None, _settings: Mapping[str, Any], output: Path, counter: Any) -> None:
    rng = np.random.default_rng(1)
    np.save(output / "samples.npy", rng.standard_normal((COUNT, 3, 224, 224), dtype=np.float32))
    np.save(output / "labels.npy", np.zeros(COUNT, np.int64))
    counter.bump(COUNT)


def build_model(
    _source: Path | None, _settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, _counter: Any
) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            images = np.load(inputs["dataset"] / "samples.npy", mmap_mode="r")
            self._feeds: Iterator[dict[str, np.ndarray]] = iter({"image": images[i : i + 1]} for i in range(4))

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._feeds, None)

    plain = output / "fp32.onnx"
    export(plain)
    quantize_static(
        plain,
        output / "model.onnx",
        Images(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    plain.unlink()


def export(path: Path) -> None:
    """ResNet-50 v1.5 with batch normalisation folded into the convolutions."""
    from onnx import TensorProto, helper, save

    net = _Net()
    top = net.convolution("image", 3, 64, 7, 2)
    top = net.node("MaxPool", [top], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for width, blocks, first_stride in STAGES:
        for block in range(blocks):
            stride = first_stride if block == 0 else 1
            inner = net.convolution(top, channels, width, 1, 1)
            inner = net.convolution(inner, width, width, 3, stride)
            inner = net.convolution(inner, width, 4 * width, 1, 1, active=False)
            others = top if block else net.convolution(top, channels, 4 * width, 1, stride, active=False)
            top = net.node("Relu", [net.node("Add", [inner, others])])
            channels = 4 * width
    pooled = net.node("Flatten", [net.node("GlobalAveragePool", [top])])
    net.nodes.append(
        helper.make_node(
            "Gemm", [pooled, net.weight((1000, channels), channels), net.weight((1000,), 1)], ["scores"], transB=1
        )
    )
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 224, 224])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 1000])
    graph = helper.make_graph(net.nodes, "resnet50", [image], [scores], net.weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))


class _Net:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._rng = np.random.default_rng(1)

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        from onnx import helper

        name = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(self, shape: tuple[int, ...], fan_in: int) -> str:
        from onnx import numpy_helper

        name = f"weight{len(self.weights)}"
        values = self._rng.standard_normal(shape, dtype=np.float32) * np.float32((1 / fan_in) ** 0.5)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def convolution(
        self, source: str, channels: int, width: int, size: int, stride: int, *, active: bool = True
    ) -> str:
        weights = [self.weight((width, channels, size, size), channels * size * size), self.weight((width,), 100)]
        border = size // 2
        name = self.node(
            "Conv", [source, *weights], kernel_shape=[size, size], strides=[stride, stride], pads=[border] * 4
        )
        return self.node("Relu", [name]) if active else name
