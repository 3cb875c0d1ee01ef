"""BERT-Large on SQuAD v1.1: the F1 of the answers that start and end logits point at.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and what becomes of it: ``squad``; what is
sent back for a sample: ``answers``; from logits to text: ``spans``; the score: ``scoring``; the network: ``model``,
``program`` and, with any weights, ``network``.
"""

from harness.benchmarks import TensorBenchmark
from harness.benchmarks.bert.answers import OUTPUTS, PACKING, RESPONSE_DTYPE, postprocess
from harness.benchmarks.bert.model import build_model
from harness.benchmarks.bert.scoring import score
from harness.benchmarks.bert.squad import build_dataset, load_calibration, load_samples


class BertLarge(TensorBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    packing = PACKING
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    load_calibration = staticmethod(load_calibration)
    postprocess = staticmethod(postprocess)
    score = staticmethod(score)


BENCHMARK = BertLarge()
