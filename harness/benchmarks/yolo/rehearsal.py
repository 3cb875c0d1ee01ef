"""A small COCO of generated images, and a network with YOLO's signature that finds objects in them.

Its positions are those of the published network, at an eighth, a sixteenth and a thirty-second of the side; each
position reads one pixel. The annotations are its own results in fp32.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks import detection
from harness.benchmarks.detection import Rows
from harness.benchmarks.detection.generated_detector import write_annotations, write_images
from harness.benchmarks.network_builder import NetworkBuilder, NetworkSession, Tensors
from harness.benchmarks.yolo import (
    CLASSES,
    LAYOUT,
    PLACES,
    SIDE,
    THRESHOLD,
    find_objects,
    make_rows,
    preprocess,
)
from harness.contract import Counter

MODEL = "yolo11l.onnx"
_STRIDES = (8, 16, 32)
_OBJECTS = 10  # approximate number per image
_FEW = 4  # images used to balance the network
_HIDDEN = {"small": 32, "full": 2048}


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    """Write the rehearsal. A network of any ``size`` has one layer, which is wider for "full"."""
    rng = np.random.default_rng(seed)
    names = [f"{number:012d}.jpg" for number in range(1, count + 1)]
    paths = write_images(rng, data / LAYOUT.images, names)
    write_network(models / MODEL, rng, [preprocess(path)[None] for path in paths[:_FEW]], _HIDDEN[size])
    session = NetworkSession(models / MODEL)

    def find(number: int, height: int, width: int) -> Iterable[tuple[int, Rows]]:
        (found,) = session.compute({"images": preprocess(paths[number])[None]})
        return ((int(row[6]), row) for row in make_rows(number, height, width, find_objects(found[0])))

    write_annotations(data / LAYOUT.annotations, names, detection.CATEGORIES, find, counter)


def write_network(path: Path, rng: np.random.Generator, few: list[NDArray[np.float32]], width: int) -> None:
    """Map images [N, 3, 640, 640] to output0 [N, 84, 8400]: middle and size in pixels, and scores of classes."""
    net = NetworkBuilder(rng)
    inputs: Tensors = {"images": ("float32", ["N", 3, SIDE, SIDE])}
    sizes: list[int | str] = ["N", CLASSES + 4, PLACES]
    features = net.node("Concat", [_predict_cells(net, stride, width) for stride in _STRIDES], axis=2)
    net.save(path, "features", inputs, {features: ("float32", sizes)})
    session = NetworkSession(path)
    seen = np.concatenate([session.compute({"images": image})[0] for image in few])
    mean, spread = seen.mean(axis=(0, 2)), seen.std(axis=(0, 2)) + 1e-3
    even = net.node("Sub", [features, net.constant(mean[None, :, None])])
    even = net.node("Div", [even, net.constant(spread[None, :, None])])
    places, scores = net.split(even, [4, CLASSES], axis=1)
    balanced = ((seen - mean[None, :, None]) / spread[None, :, None])[:, 4:].max(axis=1)
    least = float(np.quantile(balanced, 1 - _OBJECTS / PLACES))
    shift = float(np.log(THRESHOLD / (1 - THRESHOLD))) - least
    likely = net.node("Sigmoid", [net.node("Add", [scores, net.constant(shift)])])
    net.node("Concat", [_place(net, places), likely], "output0", axis=1)
    net.save(path, "yolo_rehearsal", inputs, {"output0": ("float32", sizes)})


def _predict_cells(net: NetworkBuilder, stride: int, width: int) -> str:
    """Return [N, 84, cells²] from every n-th pixel."""
    limits = ([stride // 2] * 2, [SIDE] * 2, [2, 3], [stride] * 2)  # from, to, axes, steps
    some = net.node("Slice", ["images", *(net.constant(numbers, "int64") for numbers in limits)])
    inner = net.convolution(some, 3, width, 1)
    made = net.convolution(inner, width, CLASSES + 4, 1, active=False)
    return net.node("Reshape", [made, net.constant([0, CLASSES + 4, (SIDE // stride) ** 2], "int64")])


def _place(net: NetworkBuilder, places: str) -> str:
    """Map [N, 4, positions] to middles around those of the cells, and sides of one to five cells."""
    middles, cells = [], []
    for stride in _STRIDES:
        across, down = np.meshgrid(*[(np.arange(SIDE // stride) + 0.5) * stride] * 2)
        middles.append(np.stack([across.ravel(), down.ravel()]))
        cells.append(np.full((SIDE // stride) ** 2, stride))
    cell = np.concatenate(cells)[None]
    middle = np.concatenate([np.concatenate(middles, axis=1), np.repeat(3.0 * cell, 2, axis=0)])
    reach = np.concatenate([np.repeat(0.5 * cell, 2, axis=0), np.repeat(2.0 * cell, 2, axis=0)])
    moved = net.node("Mul", [net.node("Tanh", [places]), net.constant(reach[None])])
    return net.node("Add", [moved, net.constant(middle[None])])
