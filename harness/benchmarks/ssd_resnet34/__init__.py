"""SSD-ResNet34 on COCO 2017: the objects of 80 classes in an image, by mean average precision.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and its preprocessing: ``coco2017``; the rest
is what all detection has in common. Labels count COCO's categories from 1 on, so that the official script takes an
accuracy log with --use-inv-map.
"""

from collections.abc import Sequence
from functools import partial

from harness.backends import Outputs
from harness.benchmarks.detection.answers import FOUND, RESPONSE_DTYPE, Rows, make_responses
from harness.benchmarks.detection.published_network import build_model as join_outputs
from harness.benchmarks.detection.scoring import score_boxes
from harness.benchmarks.ssd_resnet34.coco2017 import build_dataset

MOST = 200  # objects of an image
OUTPUTS = {"detections": ((MOST, FOUND), "float32")}

build_model = partial(join_outputs, most=MOST)
score = partial(score_boxes, numbered=True)


def postprocess(outputs: Outputs, indices: Sequence[int]) -> list[Rows]:
    """[n, 200, 6], boxes in parts of the image -> responses."""
    return make_responses(outputs[0], indices, side=1)


__all__ = ["OUTPUTS", "RESPONSE_DTYPE", "build_dataset", "build_model", "postprocess", "score"]
