"""YOLOv11l on the images of COCO 2017 whose licences allow it: objects of 80 classes, by mean average precision."""

from functools import partial

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.detection.answers import RESPONSE_DTYPE
from harness.benchmarks.detection.scoring import score_boxes
from harness.benchmarks.yolo.coco_safe import build_dataset, load_samples
from harness.benchmarks.yolo.heads import OUTPUTS, loop


class Yolo(LoopBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    build_dataset = staticmethod(build_dataset)
    load_samples = staticmethod(load_samples)
    loop = staticmethod(loop)
    score = staticmethod(partial(score_boxes, numbered=False))


BENCHMARK = Yolo()
