"""R-GAT on IGB-Heterogeneous: the class of a paper, one of 2,983, by its neighbours.

Facts that planning needs are in ``benchmark.yaml``. What the graph is: ``graph``; its files and what becomes of them:
``igbh``, ``adjacency``; whom a batch reaches: ``sampling``, ``blocks``. The model: ``checkpoint`` reads the published
one, ``network`` writes it for torch.export. Drawing neighbours is part of a run, as in the reference.
"""

from harness.benchmarks import TensorBenchmark
from harness.benchmarks.rgat.blocks import OUTPUTS, RESPONSE_DTYPE, load_collate, load_samples, postprocess
from harness.benchmarks.rgat.igbh import build_dataset
from harness.benchmarks.rgat.model import build_model


class Rgat(TensorBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    load_collate = staticmethod(load_collate)
    postprocess = staticmethod(postprocess)


BENCHMARK = Rgat()
