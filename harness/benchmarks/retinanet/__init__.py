"""RetinaNet on Open Images: the objects of 264 classes in an image, by mean average precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark, detection
from harness.benchmarks.detection import (
    FOUND,
    THRESHOLD,
    Boxes,
    Rows,
    make_response,
    make_responses,
    score_boxes,
    suppress,
)
from harness.benchmarks.detection.published_network import Detector
from harness.benchmarks.detection.published_network import build_model as join_outputs
from harness.benchmarks.network_builder import NetworkBuilder
from harness.contract import Counter
from harness.errors import HarnessError

# Convert the output of RetinaNet's heads to objects, for engines that end there, like those of most published
# submissions.
#
# The steps and constants are those of the reference's network (torchvision's RetinaNet): a box for each anchor, the
# thousand best scores of each level, no two boxes of one class that overlap by more than half, at most three hundred.

SIDE = 800  # side of the network's input
CLASSES = 264
MOST = 300  # per image
BEST = 1000  # scores per level
_OVERLAP = np.float32(0.5)
_CELLS = (100, 50, 25, 13, 7)  # cells along a side of each level
ANCHORS_OF_LEVELS = tuple(9 * cells**2 for cells in _CELLS)
_WIDTHS = (32, 64, 128, 256, 512)  # widths of each level's anchors
_RATIOS = (0.5, 1.0, 2.0)  # ratios of height to width
_LARGEST = np.float32(np.log(1000 / 16))  # logarithm of the maximum growth of a box
_LEAST = np.log(THRESHOLD / (1 - THRESHOLD)) - np.float32(1e-3)  # minimum before the sigmoid, with room for rounding


def find_objects(scores: NDArray[np.float32], offsets: NDArray[np.float32]) -> Boxes:
    """Map [anchors, 264] before the sigmoid and [anchors, 4] to [n, 6], the best first, in pixels of the input."""
    places, start = [], 0
    for count in ANCHORS_OF_LEVELS:
        level = scores[start : start + count].ravel()
        likely = np.flatnonzero(level > _LEAST)
        places.append(start * CLASSES + likely[np.argsort(-level[likely], kind="stable")[:BEST]])
        start += count
    chosen = np.concatenate(places)
    return find_ranked_objects(scores.ravel()[chosen], chosen, offsets[chosen // CLASSES])


def find_ranked_objects(
    scores: NDArray[np.float32], places: NDArray[np.integer[Any]], offsets: NDArray[np.float32]
) -> Boxes:
    """Map the best scores of all levels before the sigmoid [m], their positions among all scores [m] and their offsets
    [m, 4] to [n, 6], like ``find_objects``."""
    likely = np.flatnonzero(scores > _LEAST)
    values = (1 / (1 + np.exp(-scores[likely]))).astype(np.float32)
    likely, values = likely[values > THRESHOLD], values[values > THRESHOLD]
    anchors, labels = np.divmod(places[likely].astype(np.intp), CLASSES)
    boxes = decode(make_anchors()[anchors], offsets[likely])
    return suppress(boxes, values, labels, overlap=_OVERLAP, most=MOST)


@cache
def make_anchors() -> Boxes:
    """Return [anchors, 4], xmin, ymin, xmax, ymax: level by level, row by row, nine at each position."""
    parts = []
    for cells, width in zip(_CELLS, _WIDTHS, strict=True):
        scales = np.array([width, int(width * 2 ** (1 / 3)), int(width * 2 ** (2 / 3))], np.float32)
        tall = np.sqrt(np.array(_RATIOS, np.float32))
        wide, high = (1 / tall)[:, None] * scales, tall[:, None] * scales
        base = np.stack([-wide.ravel(), -high.ravel(), wide.ravel(), high.ravel()], axis=1) / 2
        steps = np.arange(cells, dtype=np.float32) * (SIDE // cells)
        down, across = np.meshgrid(steps, steps, indexing="ij")
        shifts = np.stack([across.ravel(), down.ravel()] * 2, axis=1)
        parts.append((shifts[:, None] + np.rint(base)[None]).reshape(-1, 4))
    return np.concatenate(parts).astype(np.float32)


def decode(anchors: Boxes, offsets: Boxes) -> Boxes:
    """Return the box to which each anchor was moved and resized, within the image."""
    size = anchors[:, 2:] - anchors[:, :2]
    middle = anchors[:, :2] + np.float32(0.5) * size
    moved = offsets[:, :2] * size + middle
    half = np.float32(0.5) * np.exp(np.minimum(offsets[:, 2:], _LARGEST)) * size
    boxes: Boxes = np.clip(np.concatenate([moved - half, moved + half], axis=1), 0, SIDE)
    return boxes


# RetinaNet's heads return 32 million scores for one image, 127 MB. The network passes on only the values that the host
# uses: the best scores of each level, their positions, and their offsets. It chooses twice, which is a hundred times
# cheaper than ranking every score, and exact, since each of the best thousand scores belongs to one of the thousand
# anchors with the highest best scores. This only requires ONNX, so a machine without the benchmark's other libraries
# can make such networks as well.

SCORES, PLACES, OFFSETS = "best_scores", "best_places", "best_offsets"
_GATHERS_PER_SAMPLE = 12  # the first opset whose GatherND supports a batch
_AXES_ARE_INPUTS = 18  # the first opset whose ReduceMax takes its axes as an input


def rank_heads(source: Path, target: Path) -> bool:
    """Rank the heads. Return True if ``source`` ends at the heads and was written as ``target`` with their ranking."""
    model = onnx.load(source)
    opset = max(item.version for item in model.opset_import if item.domain in ("", "ai.onnx"))
    heads = {_read_sizes(output): output.name for output in model.graph.output}
    scores, offsets = (heads.get((sum(ANCHORS_OF_LEVELS), width), "") for width in (CLASSES, 4))
    if not (scores and offsets) or len(heads) != 2 or opset < _GATHERS_PER_SAMPLE:
        return False
    axes_are_inputs = opset >= _AXES_ARE_INPUTS
    append_ranking(model.graph, scores, offsets, ANCHORS_OF_LEVELS, axes_are_inputs=axes_are_inputs)
    onnx.save_model(model, target)
    return True


def append_ranking(
    graph: Any, scores: str, offsets: str, anchors: Sequence[int], *, axes_are_inputs: bool = False
) -> None:
    """Replace the outputs ``scores`` [n, anchors, 264] and ``offsets`` [n, anchors, 4] by the best of each level, whose
    anchors are consecutive: scores [n, best], positions among all scores int32 [n, best] and offsets [n, best, 4]."""
    batch = _read_batch(graph)
    net = NetworkBuilder(np.random.default_rng(0), prefix="ranking/")
    found: dict[str, list[str]] = {SCORES: [], PLACES: [], OFFSETS: []}
    count = start = 0
    for size in anchors:
        ends = [net.constant([end], "int64") for end in (start, start + size, 1)]
        near, moved = (net.node("Slice", [source, *ends]) for source in (scores, offsets))
        if axes_are_inputs:
            highest = net.node("ReduceMax", [near, net.constant([2], "int64")], keepdims=0)
        else:
            highest = net.node("ReduceMax", [near], axes=[2], keepdims=0)
        best = min(BEST, size * CLASSES)
        parts = _choose_best(net, near, moved, highest, min(BEST, size), start, best)
        for names, part in zip(found.values(), parts, strict=True):
            names.append(part)
        start, count = start + size, count + best
    for name, names in found.items():
        net.node("Concat", names, name, axis=1)
    net.extend(graph)
    del graph.output[:]
    graph.output.extend(
        [
            helper.make_tensor_value_info(SCORES, TensorProto.FLOAT, [batch, count]),
            helper.make_tensor_value_info(PLACES, TensorProto.INT32, [batch, count]),
            helper.make_tensor_value_info(OFFSETS, TensorProto.FLOAT, [batch, count, 4]),
        ]
    )


def _choose_best(
    net: NetworkBuilder, scores: str, offsets: str, highest: str, likely: int, start: int, best: int
) -> tuple[str, str, str]:
    """Choose from one level, which begins with anchor number ``start``, among the ``likely`` anchors with the
    ``highest`` scores. Return the best scores, their positions, and their offsets."""

    def pick(source: str, rows: str) -> str:
        """Map [n, rows, ...] and [n, m] to [n, m, ...]."""
        wide = net.node("Reshape", [rows, net.constant([0, -1, 1], "int64")])
        return net.node("GatherND", [source, wide], batch_dims=1)

    _, rows = net.nodes("TopK", [highest, net.constant([likely], "int64")], 2)
    flat = net.node("Reshape", [pick(scores, rows), net.constant([0, -1], "int64")])
    values, chosen = net.nodes("TopK", [flat, net.constant([best], "int64")], 2)
    width = net.constant(CLASSES, "int64")
    row = net.node("Div", [chosen, width])
    label = net.node("Sub", [chosen, net.node("Mul", [row, width])])
    anchor = pick(rows, row)
    place = net.node("Add", [net.node("Mul", [anchor, width]), label])
    place = net.node("Add", [place, net.constant(start * CLASSES, "int64")])
    return values, net.node("Cast", [place], to=TensorProto.INT32), pick(offsets, anchor)


def _read_sizes(output: Any) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in output.type.tensor_type.shape.dim)[1:]


def _read_batch(graph: Any) -> str | int:
    dim = graph.output[0].type.tensor_type.shape.dim[0]
    return int(dim.dim_value) if dim.dim_value else str(dim.dim_param or "batch")


# Preprocessing equals vision/classification_and_detection/python/dataset.py (pre_process_openimages_retinanet) of
# mlcommons/inference bit for bit: resize to 800 x 800, red first, 0 to 1.

LAYOUT = detection.CocoLayout(
    annotations="annotations/openimages-mlperf.json",
    images="validation/data",
    calibration="calibration/train/data",
    count=24_781,
    again="run `reconcile fetch retinanet` again",
)


def preprocess(path: Path) -> NDArray[np.float32]:
    """Convert an image file to float32 [3, 800, 800]. Raises HarnessError."""
    scaled = detection.read_scaled(path, SIDE, again=LAYOUT.again)
    scaled /= 255.0
    return scaled.transpose(2, 0, 1)


build_dataset = partial(detection.build_dataset, LAYOUT, preprocess, SIDE, "retinanet")

OUTPUTS = {"detections": ((MOST, FOUND), "float32")}


def respond(outputs: Outputs, indices: Sequence[int]) -> list[Rows]:
    """Convert outputs to responses: objects; or, in any order, the heads' scores [n, anchors, 264] and offsets [n,
    anchors, 4]; or their best scores [n, m], positions int32 [n, m] and offsets [n, m, 4]."""
    if len(outputs) == 1:
        return make_responses(outputs[0], indices, SIDE)
    if len(outputs) == 3:
        places, scores, offsets = sorted(outputs, key=lambda output: (output.dtype.kind != "i", output.ndim))
        ranked = zip(indices, scores, places, offsets, strict=True)
        return [make_response(index, find_ranked_objects(*found), SIDE) for index, *found in ranked]
    by_width = {np.shape(output)[-1]: output for output in outputs}
    if set(by_width) != {CLASSES, 4}:
        shapes = ", ".join(str(list(np.shape(output)[1:])) for output in outputs)
        fix = f"use the reference's model, or heads of [anchors, {CLASSES}] and [anchors, 4]"
        raise HarnessError(f"the model returns {shapes} per image", "input", fix)
    heads = zip(indices, by_width[CLASSES], by_width[4], strict=True)
    return [make_response(index, find_objects(scores, offsets), SIDE) for index, scores, offsets in heads]


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Join the three outputs of the reference's network to one; if a network ends at its heads, add a ranking
    of them."""
    network = source if source is not None and source.suffix == ".onnx" else None
    if network is None or not rank_heads(network, output / "model.onnx"):
        join_outputs(source, settings, inputs, output, counter, most=MOST)


DETECTOR = Detector(
    benchmark="retinanet",
    image_name="{:016x}.jpg",
    file="resnext50_32x4d_fpn.onnx",
    input="images",
    boxes="boxes",
    side=SIDE,
    scale=SIDE,
    batched=False,
    first_label=0,
    categories=range(CLASSES),
)


class RetinaNet(TensorBenchmark):
    outputs = OUTPUTS
    response_dtype = "float32"
    names_samples = True
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    respond = staticmethod(respond)
    score = staticmethod(partial(score_boxes, numbered=False))

    def write_rehearsal(self, data: Path, models: Path, /, **wanted: Any) -> None:
        from harness.benchmarks.detection.generated_detector import write_detection_rehearsal

        write_detection_rehearsal(DETECTOR, LAYOUT, preprocess, data, models, **wanted)


BENCHMARK = RetinaNet()
