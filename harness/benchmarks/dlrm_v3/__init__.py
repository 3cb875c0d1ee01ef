"""DLRMv3 on its synthetic stream: which of 2,048 items a user will like, after all that the user has liked so far.

Facts that planning needs are in ``benchmark.yaml``. The stream's files: ``stream_files``; the samples made of them:
``histories``; what is asked and sent back for one, and in which order: ``requests``; the score: ``scoring``. The model:
``checkpoint`` reads the tables of the published one where they are, ``layers`` names its other weights, and ``network``
writes those as a program for torch.export.
"""

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.dlrm_v3.histories import build_dataset, load_performance_samples, load_samples
from harness.benchmarks.dlrm_v3.model import build_model
from harness.benchmarks.dlrm_v3.requests import (
    OUTPUTS,
    RESPONSE_DTYPE,
    STEP_THREADS,
    list_in_order,
    open_loop,
)
from harness.benchmarks.dlrm_v3.scoring import score


class DlrmV3(LoopBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    step_threads = STEP_THREADS
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    load_performance_samples = staticmethod(load_performance_samples)
    open_loop = staticmethod(open_loop)
    list_in_order = staticmethod(list_in_order)
    score = staticmethod(score)


BENCHMARK = DlrmV3()
