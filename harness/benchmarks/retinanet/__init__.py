"""RetinaNet on Open Images: the objects of 264 classes in an image, by mean average precision.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and its preprocessing: ``openimages``; what is
sent back for an image: ``answers``, ``heads``; the rest is what all detection has in common.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from harness.benchmarks import TensorBenchmark
from harness.benchmarks.detection.answers import RESPONSE_DTYPE
from harness.benchmarks.detection.published_network import build_model as join_outputs
from harness.benchmarks.detection.ranking import rank_heads
from harness.benchmarks.detection.scoring import score_boxes
from harness.benchmarks.retinanet.answers import OUTPUTS, respond
from harness.benchmarks.retinanet.heads import ANCHORS_OF_LEVELS, BEST, CLASSES, MOST
from harness.benchmarks.retinanet.openimages import build_dataset
from harness.contract import Counter


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Join the three outputs of the reference's network to one; a network that ends at its heads ranks them as well."""
    network = source if source is not None and source.suffix == ".onnx" else None
    if network is None or not rank_heads(network, output / "model.onnx", ANCHORS_OF_LEVELS, CLASSES, BEST):
        join_outputs(source, settings, inputs, output, counter, most=MOST)


class RetinaNet(TensorBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    names_samples = True
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    respond = staticmethod(respond)
    score = staticmethod(partial(score_boxes, numbered=False))


BENCHMARK = RetinaNet()
