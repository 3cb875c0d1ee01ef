"""RetinaNet on Open Images: the objects of 264 classes in an image, by mean average precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark
from harness.benchmarks.detection import coco
from harness.benchmarks.detection.answers import FOUND, RESPONSE_DTYPE, Rows, make_response, make_responses, score_boxes
from harness.benchmarks.detection.published_network import Detector
from harness.benchmarks.detection.published_network import build_model as join_outputs
from harness.benchmarks.retinanet.heads import (
    ANCHORS_OF_LEVELS,
    BEST,
    CLASSES,
    MOST,
    SIDE,
    find_objects,
    find_ranked_objects,
    rank_heads,
)
from harness.contract import Counter
from harness.errors import HarnessError

# Open Images in the layout of the reference's download script, and its images as the network expects them.
#
# Preprocessing equals vision/classification_and_detection/python/dataset.py (pre_process_openimages_retinanet) of
# mlcommons/inference bit for bit: resize to 800 x 800, red first, 0 to 1.

LAYOUT = coco.CocoLayout(
    annotations="annotations/openimages-mlperf.json",
    images="validation/data",
    calibration="calibration/train/data",
    count=24_781,
    again="run `reconcile fetch retinanet` again",
)


def preprocess(path: Path) -> NDArray[np.float32]:
    """Convert an image file to float32 [3, 800, 800]. Raises HarnessError."""
    scaled = coco.read_scaled(path, SIDE, again=LAYOUT.again)
    scaled /= 255.0
    return scaled.transpose(2, 0, 1)


build_dataset = partial(coco.build_dataset, LAYOUT, preprocess, SIDE, "retinanet")

OUTPUTS = {"detections": ((MOST, FOUND), "float32")}


def respond(outputs: Outputs, indices: Sequence[int]) -> list[Rows]:
    """Convert outputs to responses: objects; or, in any order, the heads' scores [n, anchors, 264] and offsets [n,
    anchors, 4]; or their best scores [n, m], positions int32 [n, m] and offsets [n, m, 4] (see ``ranking``)."""
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
    if network is None or not rank_heads(network, output / "model.onnx", ANCHORS_OF_LEVELS, CLASSES, BEST):
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
    response_dtype = RESPONSE_DTYPE
    names_samples = True
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    respond = staticmethod(respond)
    score = staticmethod(partial(score_boxes, numbered=False))

    def write_rehearsal(self, data: Path, models: Path, /, **wanted: Any) -> None:
        from harness.benchmarks.detection.generated_detector import write_detection_rehearsal

        write_detection_rehearsal(DETECTOR, LAYOUT, preprocess, data, models, **wanted)


BENCHMARK = RetinaNet()
