"""DLRM-DCNv2 on Criteo 1 TB, multi-hot: which of a user's items are clicked, by the area under the ROC curve.

Facts that planning needs are in ``benchmark.yaml``. The dataset's files and what becomes of them: ``criteo``; which
pairs make a sample: ``grouping``; what is asked and sent back for one: ``pairs``; the score: ``scoring``. The model:
``checkpoint`` reads the published one, ``network`` writes it as ONNX and ``program`` for torch.export.
"""

from harness.benchmarks.dlrm_v2.criteo import build_dataset, load_calibration, load_samples
from harness.benchmarks.dlrm_v2.model import build_model, lower_program
from harness.benchmarks.dlrm_v2.pairs import ONE_CALL, OUTPUTS, RESPONSE_DTYPE, loop
from harness.benchmarks.dlrm_v2.scoring import score

__all__ = [
    "ONE_CALL",
    "OUTPUTS",
    "RESPONSE_DTYPE",
    "build_dataset",
    "build_model",
    "load_calibration",
    "load_samples",
    "loop",
    "lower_program",
    "score",
]
