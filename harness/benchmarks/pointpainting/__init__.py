"""PointPainting on Waymo: cars, cyclists and people in clouds of points that five cameras painted, by mAP.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder: ``infos`` reads its list of frames, ``waymo``
checks and prepares it. What a sample goes through: ``painting`` brings what the first network sees in the pictures to
the points, ``pillars`` puts points into columns, ``boxes`` finds objects in what the second network gives, and
``detecting`` has the order of all that. The published networks become engines in ``model``; the score: ``scoring``,
with ``overlaps`` of boxes that are turned.
"""

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.pointpainting.detecting import OUTPUTS, PARTS, RESPONSE_DTYPE, loop
from harness.benchmarks.pointpainting.model import build_model
from harness.benchmarks.pointpainting.scoring import score
from harness.benchmarks.pointpainting.waymo import build_dataset, load_samples


class PointPainting(LoopBenchmark):
    outputs = OUTPUTS
    parts = PARTS
    response_dtype = RESPONSE_DTYPE
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    loop = staticmethod(loop)
    score = staticmethod(score)


BENCHMARK = PointPainting()
