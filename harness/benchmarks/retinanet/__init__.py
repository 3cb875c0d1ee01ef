"""RetinaNet on Open Images: the objects of 264 classes in an image, by mean average precision.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and its preprocessing: ``openimages``; what is
sent back for an image: ``answers``, ``heads``; the rest is what all detection has in common.
"""

from functools import partial

from harness.benchmarks.detection.answers import RESPONSE_DTYPE
from harness.benchmarks.detection.published_network import build_model as join_outputs
from harness.benchmarks.detection.scoring import score_boxes
from harness.benchmarks.retinanet.answers import OUTPUTS, postprocess
from harness.benchmarks.retinanet.heads import MOST
from harness.benchmarks.retinanet.openimages import build_dataset

build_model = partial(join_outputs, most=MOST)
score = partial(score_boxes, numbered=False)

__all__ = ["OUTPUTS", "RESPONSE_DTYPE", "build_dataset", "build_model", "postprocess", "score"]
