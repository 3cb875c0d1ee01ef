"""RNN-T on LibriSpeech dev-clean: what people say, letter by letter, by word error rate.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and what becomes of it: ``librispeech``; the
network's view of a waveform: ``features``; greedy decoding: ``transcribing``; the score: ``scoring``. The model has
three parts, each an engine: ``network`` writes them, ``checkpoint`` reads the published weights.
"""

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.rnnt.librispeech import build_dataset, load_samples
from harness.benchmarks.rnnt.model import build_model
from harness.benchmarks.rnnt.scoring import score
from harness.benchmarks.rnnt.transcribing import OUTPUTS, PARTS, RESPONSE_DTYPE, loop


class Rnnt(LoopBenchmark):
    outputs = OUTPUTS
    parts = PARTS
    response_dtype = RESPONSE_DTYPE
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    loop = staticmethod(loop)
    score = staticmethod(score)


BENCHMARK = Rnnt()
