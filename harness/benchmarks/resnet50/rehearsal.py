"""A small ImageNet of generated images, and a network with the reference's signature that classifies them.

The labels are the network's own fp32 answers, so a rehearsal's accuracy is 100 % unless something between the files on
disk and the accuracy log goes wrong. The seed determines everything.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.images import draw_image, encode_image
from harness.benchmarks.network_builder import NetworkBuilder, NetworkSession, Tensors
from harness.benchmarks.resnet50 import CLASSES, MAP, SIDE, postprocess, preprocess
from harness.contract import Counter

MODEL = "resnet50_v1.onnx"
_CENTRED = 8  # images
_INPUTS: Tensors = {"input_tensor:0": ("float32", ["N", 3, SIDE, SIDE])}
_SIZES = ((375, 500), (500, 375), (333, 500), (256, 256), (480, 640), (224, 301))  # height, width
_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first block


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    rng = np.random.default_rng(seed)
    names = [f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, count + 1)]
    for number, name in enumerate(names):
        (data / name).write_bytes(encode_image(draw_image(rng, *_SIZES[number % len(_SIZES)])))
    few = np.stack([preprocess(data / name) for name in names[:_CENTRED]])
    write_network(models / MODEL, rng, few, full=size == "full")
    session, lines = NetworkSession(models / MODEL), []
    for name in names:
        (label,) = postprocess(session.compute({"input_tensor:0": preprocess(data / name)[None]}))
        lines.append(f"{name} {label}\n")
        counter.bump(1)
    (data / MAP).write_text("".join(lines), encoding="ascii")


def write_network(path: Path, rng: np.random.Generator, images: NDArray[np.float32], *, full: bool) -> None:
    """Map input_tensor:0 float32 [N, 3, 224, 224] to ArgMax:0 int64 [N], softmax_tensor:0 float32 [N, 1001].

    Features are centred by those of ``images``: the features of a deep network with random weights vary little, and
    otherwise all images would have one class.
    """
    net = NetworkBuilder(rng)
    raw, width = _write_layers(net) if full else _write_patches(net)
    net.save(path, "features", _INPUTS, {raw: ("float32", ["N", width])})
    (found,) = NetworkSession(path).compute({"input_tensor:0": images})
    centred = net.node("Sub", [raw, net.constant(found.mean(axis=0))])
    features = net.node("Div", [centred, net.constant(found.std(axis=0) + 1e-3)])
    dense = net.weight((width, CLASSES + 1), 0.2)
    # The background class is never the answer.
    offset = net.constant(np.where(np.arange(CLASSES + 1) == 0, -1e3, 0.0))
    scores = net.node("Gemm", [features, dense, offset])
    net.node("Softmax", [scores], "softmax_tensor:0", axis=1)
    net.node("ArgMax", [scores], "ArgMax:0", axis=1, keepdims=0)
    net.save(
        path,
        "resnet50_rehearsal",
        _INPUTS,
        {"ArgMax:0": ("int64", ["N"]), "softmax_tensor:0": ("float32", ["N", CLASSES + 1])},
    )


def _write_patches(net: NetworkBuilder) -> tuple[str, int]:
    """Write two layers over half-overlapping patches of 32 x 32. Computing an image then takes much longer than reading
    it from memory; otherwise the repeated samples of TEST04 would be the fast ones."""
    channels = 128
    kernel, shift = net.weight((channels, 3, 32, 32), 0.02), net.weight((channels,), 1)
    patches = net.node("Conv", ["input_tensor:0", kernel, shift], strides=[16, 16])
    pooled = net.node("AveragePool", [net.node("Relu", [patches])], kernel_shape=[6, 6], strides=[7, 7])
    return net.node("Flatten", [pooled]), channels * 4


def _write_layers(net: NetworkBuilder) -> tuple[str, int]:
    """Write ResNet-50 v1.5, with batch normalisation folded into the convolutions."""
    scaled = net.node("Mul", ["input_tensor:0", net.constant(1 / 64)])
    top = net.convolution(scaled, 3, 64, 7, 2)
    top = net.node("MaxPool", [top], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for width, blocks, first in _STAGES:
        for block in range(blocks):
            stride = 1 if block else first
            inner = net.convolution(top, channels, width, 1)
            inner = net.convolution(inner, width, width, 3, stride)
            inner = net.convolution(inner, width, 4 * width, 1, active=False)
            shortcut = top if block else net.convolution(top, channels, 4 * width, 1, stride, active=False)
            half = net.node("Mul", [net.node("Add", [inner, shortcut]), net.constant(0.7)])
            top, channels = net.node("Relu", [half]), 4 * width
    return net.node("Flatten", [net.node("GlobalAveragePool", [top])]), channels
