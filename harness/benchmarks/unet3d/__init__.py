"""3D-UNet on KiTS19: where kidneys and tumours are in volumes of different sizes, by mean DICE.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and what becomes of it: ``kits19``; the
windows that slide over a volume: ``sliding``; the score: ``scoring``.
"""

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.unet3d.kits19 import build_dataset, load_calibration, load_samples
from harness.benchmarks.unet3d.scoring import score
from harness.benchmarks.unet3d.sliding import AT_ONCE, OUTPUTS, RESPONSE_DTYPE, STEP_THREADS, loop


class Unet3d(LoopBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    at_once = AT_ONCE
    step_threads = STEP_THREADS
    build_dataset = staticmethod(build_dataset)
    load_samples = staticmethod(load_samples)
    load_calibration = staticmethod(load_calibration)
    loop = staticmethod(loop)
    score = staticmethod(score)


BENCHMARK = Unet3d()
