"""Generated images with annotations, and a network with a published one's signature that finds objects in them.

The annotations are the network's own results in fp32, so a rehearsal's mAP is 100 % unless something between the files
on disk and the accuracy log goes wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.detection import THRESHOLD, CocoLayout, Rows, make_response
from harness.benchmarks.detection.published_network import Detector
from harness.benchmarks.images import Preprocess, draw_image, encode_image
from harness.benchmarks.network_builder import NetworkBuilder, NetworkSession, Tensors
from harness.benchmarks.sources import read_list
from harness.contract import Counter

_SIZES = ((375, 500), (500, 375), (480, 640), (427, 640))  # height, width
FEW = 8  # images used to balance or calibrate the network
_OBJECTS = 10  # approximate number per image
_CHANNELS = 16
_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first block


def write_detection_rehearsal(
    detector: Detector,
    layout: CocoLayout,
    preprocess: Preprocess,
    data: Path,
    models: Path,
    *,
    count: int,
    seed: int,
    size: str,
    counter: Counter,
) -> None:
    rng = np.random.default_rng(seed)
    names = [detector.image_name.format(number) for number in range(1, count + 1)]
    paths = write_images(rng, data / layout.images, names)
    write_network(
        models / detector.file, detector, rng, [preprocess(path)[None] for path in paths[:FEW]], full=size == "full"
    )
    session = NetworkSession(models / detector.file)

    def find(number: int, *_: int) -> Iterable[tuple[int, Rows]]:
        boxes, labels, scores = session.compute({detector.input: preprocess(paths[number])[None]})
        rows = [boxes.reshape(-1, 4), scores.reshape(-1, 1), labels.reshape(-1, 1).astype(np.float32)]
        for row in make_response(number, np.hstack(rows), detector.scale):
            yield detector.categories[int(row[6]) - detector.first_label], row

    write_annotations(data / layout.annotations, names, detector.categories, find, counter)
    for number, name in enumerate(read_list(detector.benchmark, "calibration.txt")[:FEW]):
        (data / layout.calibration).mkdir(parents=True, exist_ok=True)
        (data / layout.calibration / name).write_bytes(encode_image(draw_image(rng, *_choose_size(number))))


def _choose_size(number: int) -> tuple[int, int]:
    """Choose height and width of an image."""
    return _SIZES[number % len(_SIZES)]


def write_images(rng: np.random.Generator, folder: Path, names: Sequence[str]) -> list[Path]:
    folder.mkdir(parents=True)
    paths = [folder / name for name in names]
    for number, path in enumerate(paths):
        path.write_bytes(encode_image(draw_image(rng, *_choose_size(number))))
    return paths


def write_annotations(
    path: Path,
    names: Sequence[str],
    categories: Sequence[int],
    find: Callable[[int, int, int], Iterable[tuple[int, Rows]]],
    counter: Counter,
) -> None:
    """Write annotations. ``find``: maps an image's number, height and width to the category and the response's row of
    each object."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        height, width = _choose_size(number)
        images.append({"id": number + 1, "file_name": name, "height": height, "width": width, "coco_url": ""})
        for category, row in find(number, height, width):
            _, ymin, xmin, ymax, xmax, _, _ = row.tolist()
            box = [xmin * width, ymin * height, (xmax - xmin) * width, (ymax - ymin) * height]
            item = {"id": len(annotations) + 1, "image_id": number + 1, "category_id": category, "iscrowd": 0}
            annotations.append({**item, "bbox": box, "area": box[2] * box[3]})
        counter.bump(1)
    named = [{"id": identity, "name": f"class {identity}"} for identity in categories]
    whole = {"info": {}, "licenses": [], "categories": named, "images": images, "annotations": annotations}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole), encoding="utf-8")


def write_network(
    path: Path, detector: Detector, rng: np.random.Generator, few: Sequence[NDArray[np.float32]], *, full: bool
) -> None:
    """Write a network: float32 [1, 3, side, side] -> boxes, labels (int64) and scores of all objects found. It is
    balanced to find about equally many in each of the ``few`` images, since the features of a deep network with random
    weights vary little."""
    net, side, classes = NetworkBuilder(rng), detector.side, len(detector.categories)
    inputs: Tensors = {detector.input: ("float32", [1, 3, side, side])}
    top, channels = _write_layers(net, detector) if full else _write_patches(net, detector)
    raw = net.convolution(top, channels, classes + 4, 1, active=False)
    net.save(path, "features", inputs, {raw: ("float32", [1, classes + 4, "height", "width"])})
    session = NetworkSession(path)
    features = np.concatenate([session.compute({detector.input: image})[0] for image in few])
    cells = features.shape[2]
    mean, spread = (value[None] for value in (features.mean(axis=(0, 2, 3)), features.std(axis=(0, 2, 3)) + 1e-3))
    spread = spread / 2  # makes scores differ
    balanced = (features - mean[..., None, None]) / spread[..., None, None]
    most = np.quantile(balanced[:, :classes], 1 - _OBJECTS / (classes * cells**2))
    shift = np.append(np.full(classes, np.log(THRESHOLD / (1 - THRESHOLD)) - most), np.zeros(4))
    flat = net.node("Reshape", [raw, net.constant([1, classes + 4, cells**2], "int64")])
    centred = net.node("Sub", [flat, net.constant(mean[..., None])])
    even = net.node("Div", [centred, net.constant(spread[..., None])])
    active = net.node("Sigmoid", [net.node("Add", [even, net.constant(shift[None, :, None])])])
    scores = net.node("Gather", [active, net.constant(np.arange(classes), "int64")], axis=1)
    sizes = net.node("Gather", [active, net.constant(np.arange(classes, classes + 4), "int64")], axis=1)
    boxes = _write_boxes(net, sizes, cells, detector.scale)
    _write_objects(net, detector, boxes, scores, cells**2)
    free: list[int | str] = [*([1] if detector.batched else []), "objects"]
    outputs: Tensors = {detector.boxes: ("float32", [*free, 4]), "labels": ("int64", free), "scores": ("float32", free)}
    net.save(path, "detection_rehearsal", inputs, outputs)


def _write_boxes(net: NetworkBuilder, sizes: str, cells: int, scale: int) -> str:
    """Convert [1, 4, cells²], in 0 to 1, to boxes [1, cells², 4] around the middle of each cell. They extend half to
    one and a half cells to each side, within the image."""
    cell = scale / cells
    across, down = np.meshgrid(*[(np.arange(cells) + 0.5) * cell] * 2)
    middle = np.stack([across.ravel(), down.ravel()] * 2)[None]
    signs = cell * np.array([-1.0, -1.0, 1.0, 1.0])[None, :, None]
    far = net.node("Mul", [net.node("Add", [sizes, net.constant(0.5)]), net.constant(signs)])
    placed = net.node("Add", [far, net.constant(middle)])
    within = net.node("Clip", [placed, net.constant(0.0), net.constant(float(scale))])
    return net.node("Transpose", [within], perm=[0, 2, 1])


def _write_objects(net: NetworkBuilder, detector: Detector, boxes: str, scores: str, count: int) -> None:
    """Drop each box that overlaps a better one of its class by half."""
    limits = [net.constant([10], "int64"), net.constant([0.5]), net.constant([float(THRESHOLD)])]
    chosen = net.node("NonMaxSuppression", [boxes, scores, *limits])  # [objects, 3]: image, class, box
    column = [net.node("Gather", [chosen, net.constant(number, "int64")], axis=1) for number in (1, 2)]
    place = net.node("Add", [net.node("Mul", [column[0], net.constant(count, "int64")]), column[1]])
    lead = [1] if detector.batched else []
    flat = net.node("Reshape", [boxes, net.constant([-1, 4], "int64")])
    kept = net.node("Gather", [flat, column[1]], axis=0)
    net.node("Reshape", [kept, net.constant([*lead, -1, 4], "int64")], detector.boxes)
    every = net.node("Reshape", [scores, net.constant([-1], "int64")])
    shape = net.constant([*lead, -1], "int64")
    net.node("Reshape", [net.node("Gather", [every, place], axis=0), shape], "scores")
    labels = net.node("Add", [column[0], net.constant(detector.first_label, "int64")])
    net.node("Reshape", [labels, shape], "labels")


def _write_patches(net: NetworkBuilder, detector: Detector) -> tuple[str, int]:
    """Write one layer over ten by ten patches of a hundred by a hundred pixels, which leaves time for the scenarios."""
    limits = ([0, 0], [detector.side] * 2, [2, 3], [detector.side // 100] * 2)  # from, to, axes, steps
    few = net.node("Slice", [detector.input, *(net.constant(numbers, "int64") for numbers in limits)])
    kernel, shift = net.weight((_CHANNELS, 3, 10, 10), 0.1), net.weight((_CHANNELS,), 0.1)
    patches = net.node("Conv", [few, kernel, shift], kernel_shape=[10] * 2, strides=[10] * 2)
    return net.node("Relu", [patches]), _CHANNELS


def _write_layers(net: NetworkBuilder, detector: Detector) -> tuple[str, int]:
    """Write four stages of residual blocks, as in the published backbones, at a thirty-second of the side."""
    top = net.convolution(detector.input, 3, 64, 7, 2)
    top = net.node("MaxPool", [top], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for width, blocks, first in _STAGES:
        for block in range(blocks):
            stride = 1 if block else first
            inner = net.convolution(top, channels, width, 3, stride)
            inner = net.convolution(inner, width, width, 3, active=False)
            shortcut = top if channels == width else net.convolution(top, channels, width, 1, stride, active=False)
            half = net.node("Mul", [net.node("Add", [inner, shortcut]), net.constant(0.7)])
            top, channels = net.node("Relu", [half]), width
    return top, channels
