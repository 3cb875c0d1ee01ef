"""3D U-Net with random weights and the size of MLPerf's reference, on windows of a volume, to measure speed and compare
backends. A sample is one window; the benchmark, not the GPU, cuts and joins windows.

A benchmark file like a user's (see harness.benchmarks). Dataset settings: count, side, dtype (int8: as resnet's). Model
settings: widths ("32,64,128,256,320,320"), program (also write model.pt2).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu.resnet import Net, save_graph, save_samples

SYNTHETIC = True
RESPONSE_DTYPE = "float32"
CLASSES = 3
CALIBRATION = 8


def build_dataset(_source: Path | None, settings: Mapping[str, Any], output: Path, counter: Any) -> None:
    count, side = int(settings.get("count", 64)), int(settings.get("side", 128))
    save_samples((count, 1, side, side, side), settings, output, CALIBRATION)
    counter.bump(count)


def load_samples(dataset: Path) -> dict[str, np.ndarray]:
    return {"input": np.load(dataset / "samples.npy", mmap_mode="r")}


def postprocess(outputs: Any) -> np.ndarray:
    """Convert [n, 3, side, side, side] to float32 [n, 8], which is cheap and sufficient to distinguish answers."""
    return np.ascontiguousarray(outputs[0].reshape(len(outputs[0]), -1)[:, :8], np.float32)


def score(log: Any, _dataset: Path, output: Path) -> dict[str, Any]:
    (output / "accuracy.txt").write_text('{"mean": 0.0}\n', encoding="ascii")
    return {"mean_dice": 0.0, "samples": len(log.indices)}


def build_model(
    _source: Path | None, settings: Mapping[str, Any], _inputs: Mapping[str, Path], output: Path, _counter: Any
) -> None:
    widths = [int(part) for part in str(settings.get("widths", "32,64,128,256,320,320")).split(",")]
    side = int(settings.get("side", 128))
    export(output / "model.onnx", widths, side)
    if settings.get("program"):
        from tests.gpu.programs import export_unet3d

        export_unet3d(output / "model.onnx", len(widths), side)


def export(path: Path, widths: list[int], side: int) -> None:
    net = Volume()
    top, channels, others = "input", 1, []
    for level, width in enumerate(widths):
        top = net.block(top, channels, width, 2 if level else 1)
        top = net.block(top, width, width, 1)
        others.append((top, width))
        channels = width
    others.pop()
    for skipped, width in reversed(others):
        wide = net.node("ConvTranspose", [top, net.weight((channels, width, 2, 2, 2), channels)], strides=[2] * 3)
        top = net.node("Concat", [wide, skipped], axis=1)
        top = net.block(net.block(top, 2 * width, width, 1), width, width, 1)
        channels = width
    weights = [net.weight((CLASSES, channels, 1, 1, 1), channels), net.weight((CLASSES,), 1)]
    net.append("Conv", [top, *weights], "output", "classes", kernel_shape=[1] * 3)
    sides = [side] * 3
    save_graph(net.make_graph("unet3d", {"input": [1, *sides]}, {"output": [CLASSES, *sides]}), path)


class Volume(Net):
    def block(self, source: str, channels: int, width: int, stride: int) -> str:
        weight = self.weight((width, channels, 3, 3, 3), channels * 27)
        top = self.node("Conv", [source, weight], kernel_shape=[3] * 3, strides=[stride] * 3, pads=[1] * 6)
        top = self.node("InstanceNormalization", [top, self.weight((width,), 1), self.weight((width,), 100)])
        return self.node("Relu", [top])
