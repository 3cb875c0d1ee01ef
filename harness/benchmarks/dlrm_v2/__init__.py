"""DLRM-DCNv2 on Criteo 1 TB, multi-hot: which of a user's items are clicked, by the area under the ROC curve.

Facts that planning needs are in ``benchmark.yaml``. The dataset's files and what becomes of them: ``criteo``; which
pairs make a sample: ``grouping``; what is asked and sent back for one: ``pairs``; the score: ``scoring``. The model:
``checkpoint`` reads the published one, ``network`` writes it as ONNX and ``program`` for torch.export.
"""

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.dlrm_v2.criteo import build_dataset, load_calibration, load_samples
from harness.benchmarks.dlrm_v2.model import build_model, lower_program
from harness.benchmarks.dlrm_v2.pairs import ONE_CALL, OUTPUTS, RESPONSE_DTYPE, loop
from harness.benchmarks.dlrm_v2.scoring import score


class DlrmDcnV2(LoopBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    one_call = ONE_CALL
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    lower_program = staticmethod(lower_program)
    load_samples = staticmethod(load_samples)
    load_calibration = staticmethod(load_calibration)
    loop = staticmethod(loop)
    score = staticmethod(score)


BENCHMARK = DlrmDcnV2()
