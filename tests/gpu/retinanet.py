"""RetinaNet (ResNeXt-50 32x4d with a feature pyramid, 264 classes) with random weights and the size of MLPerf's
reference, to measure speed and compare backends.

Like the benchmark's engine (see harness.benchmarks.retinanet), this one returns each level's best scores, their
positions and offsets. Decoding and suppression are omitted. A benchmark file like a user's (see harness.benchmarks).
Dataset settings: count, side, dtype. Model settings: side, blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.retinanet import append_ranking
from tests.gpu.resnet import WIDTHS, Net, save_graph, save_samples

SYNTHETIC = True
RESPONSE_DTYPE = "float32"
CLASSES, ANCHORS, PYRAMID, GROUPS = 264, 9, 256, 32


def build_dataset(_source: Path | None, settings: Mapping[str, Any], output: Path, counter: Any) -> None:
    count, side = int(settings.get("count", 64)), int(settings.get("side", 800))
    save_samples((count, 3, side, side), settings, output, calibration=8)
    counter.bump(count)


def load_samples(dataset: Path) -> dict[str, np.ndarray]:
    return {"images": np.load(dataset / "samples.npy", mmap_mode="r")}


def postprocess(outputs: Any) -> np.ndarray:
    """Convert scores [n, 5 * 1000] to float32 [n, 8]. Decoding boxes is not measured here."""
    return np.ascontiguousarray(outputs[0][:, :8], np.float32)


def score(log: Any, _dataset: Path, output: Path) -> dict[str, Any]:
    (output / "accuracy.txt").write_text("mAP=0.000%\n", encoding="ascii")
    return {"mAP": 0.0, "samples": len(log.indices)}


def build_model(
    _source: Path | None, settings: Mapping[str, Any], _inputs: Mapping[str, Path], output: Path, _counter: Any
) -> None:
    blocks = [int(part) for part in str(settings.get("blocks", "3,4,6,3")).split(",")]
    export(output / "model.onnx", blocks, int(settings.get("side", 800)))


def export(path: Path, blocks: list[int], side: int) -> None:
    net = Detector()
    levels = net.pyramid(blocks)
    sizes = {"scores": CLASSES, "offsets": 4}
    for name, size in sizes.items():
        parts = [net.flat(head, size) for head in net.head(levels, ANCHORS * size)]
        net.append("Concat", parts, name, name, axis=1)
    outputs = {name: [None, size] for name, size in sizes.items()}
    graph = net.make_graph("retinanet", {"images": [3, side, side]}, outputs)
    cells = [-(-side // 2**level) for level in range(3, 8)]
    append_ranking(graph, "scores", "offsets", [ANCHORS * count**2 for count in cells])
    save_graph(graph, path)


class Detector(Net):
    def pyramid(self, blocks: list[int]) -> list[str]:
        """Return five levels, the finest with stride 8."""
        top = self.convolution("images", 3, 64, 7, 2)
        top = self.node("MaxPool", [top], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        channels, stages = 64, []
        for stage, (width, count) in enumerate(zip(WIDTHS, blocks, strict=True)):
            for block in range(count):
                top = self.grouped(top, channels, 2 * width, 4 * width, 2 if stage and not block else 1)
                channels = 4 * width
            stages.append((top, channels))
        sides = [self.convolution(name, width, PYRAMID, 1, 1, active=False) for name, width in stages[1:]]
        for finer in (1, 0):
            scales = self.constant(np.array([1, 1, 2, 2], np.float32))
            wide = self.node("Resize", [sides[finer + 1], "", scales], mode="nearest", nearest_mode="floor",
                             coordinate_transformation_mode="asymmetric")  # fmt: skip
            sides[finer] = self.node("Add", [sides[finer], wide])
        levels = [self.convolution(name, PYRAMID, PYRAMID, 3, 1, active=False) for name in sides]
        levels.append(self.convolution(levels[-1], PYRAMID, PYRAMID, 3, 2, active=False))
        levels.append(self.convolution(self.node("Relu", [levels[-1]]), PYRAMID, PYRAMID, 3, 2, active=False))
        return levels

    def grouped(self, top: str, channels: int, inside: int, width: int, stride: int) -> str:
        inner = self.convolution(top, channels, inside, 1, 1)
        weights = [self.weight((inside, inside // GROUPS, 3, 3), inside // GROUPS * 9), self.weight((inside,), 100)]
        inner = self.node("Conv", [inner, *weights], kernel_shape=[3, 3], strides=[stride, stride], pads=[1] * 4,
                          group=GROUPS)  # fmt: skip
        inner = self.convolution(self.node("Relu", [inner]), inside, width, 1, 1, active=False)
        others = top if channels == width else self.convolution(top, channels, width, 1, stride, active=False)
        return self.node("Relu", [self.node("Add", [inner, others])])

    def head(self, levels: list[str], width: int) -> list[str]:
        """Apply the same weights to each level."""
        sizes = [PYRAMID] * 4 + [width]
        layers = [(self.weight((to, PYRAMID, 3, 3), PYRAMID * 9), self.weight((to,), 100)) for to in sizes]
        found = []
        for top in levels:
            for number, weights in enumerate(layers):
                top = self.node("Conv", [top, *weights], kernel_shape=[3, 3], pads=[1] * 4)
                top = self.node("Relu", [top]) if number < 4 else top
            found.append(top)
        return found

    def flat(self, head: str, size: int) -> str:
        """Reshape [n, anchors * size, h, w] to [n, h * w * anchors, size]."""
        rows = self.node("Transpose", [head], perm=[0, 2, 3, 1])
        return self.node("Reshape", [rows, self.constant(np.array([0, -1, size], np.int64))])
