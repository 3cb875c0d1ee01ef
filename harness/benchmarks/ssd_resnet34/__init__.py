"""SSD-ResNet34 on COCO 2017: the objects of 80 classes in an image, by mean average precision.

Labels count COCO's categories from 1 on, so that the official script takes an accuracy log with --use-inv-map.
"""

from collections.abc import Sequence
from functools import partial

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark
from harness.benchmarks.detection.answers import FOUND, RESPONSE_DTYPE, Rows, make_responses
from harness.benchmarks.detection.published_network import build_model as join_outputs
from harness.benchmarks.detection.scoring import score_boxes
from harness.benchmarks.ssd_resnet34.coco2017 import build_dataset

MOST = 200  # objects of an image


class SsdResnet34(TensorBenchmark):
    outputs = {"detections": ((MOST, FOUND), "float32")}
    response_dtype = RESPONSE_DTYPE
    names_samples = True
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(partial(join_outputs, most=MOST))
    score = staticmethod(partial(score_boxes, numbered=True))

    def respond(self, outputs: Outputs, indices: Sequence[int]) -> list[Rows]:
        """[n, 200, 6], boxes in parts of the image -> responses."""
        return make_responses(outputs[0], indices, side=1)


BENCHMARK = SsdResnet34()
