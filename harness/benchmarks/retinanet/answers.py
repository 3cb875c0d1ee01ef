"""Response for an image, from engines that end at objects and from those that end at the network's heads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.backends import Outputs
from harness.benchmarks.detection.answers import FOUND, Rows, make_response, make_responses
from harness.benchmarks.retinanet.heads import CLASSES, MOST, find_objects, find_ranked_objects
from harness.benchmarks.retinanet.openimages import SIDE
from harness.errors import HarnessError

OUTPUTS = {"detections": ((MOST, FOUND), "float32")}


def respond(outputs: Outputs, indices: Sequence[int]) -> list[Rows]:
    """Objects; or, in any order, the scores [n, anchors, 264] and offsets [n, anchors, 4] of the heads, or the best
    scores [n, m] of them, their places int32 [n, m] and offsets [n, m, 4] (see ``ranking``) -> responses."""
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
        raise HarnessError(f"the model gives {shapes} for an image", "input", fix)
    heads = zip(indices, by_width[CLASSES], by_width[4], strict=True)
    return [make_response(index, find_objects(scores, offsets), SIDE) for index, scores, offsets in heads]
