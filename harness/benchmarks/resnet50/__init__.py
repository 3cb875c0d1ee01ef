"""ResNet-50 v1.5 on the validation images of ImageNet 2012: top-1 of one class per image.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and its preprocessing: ``imagenet``; what is
sent back for an image: ``answers``. Scoring is the default, top-1 against the labels.
"""

from harness.benchmarks import TensorBenchmark
from harness.benchmarks.resnet50.answers import OUTPUTS, RESPONSE_DTYPE, postprocess
from harness.benchmarks.resnet50.imagenet import build_dataset, load_calibration


class Resnet50(TensorBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    build_dataset = staticmethod(build_dataset)
    load_calibration = staticmethod(load_calibration)
    postprocess = staticmethod(postprocess)


BENCHMARK = Resnet50()
