"""RNN-T on LibriSpeech dev-clean: what people say, letter by letter, by word error rate.

Facts that planning needs are in ``benchmark.yaml``. The dataset's folder and what becomes of it: ``librispeech``; the
network's view of a waveform: ``features``; greedy decoding: ``transcribing``. The model has
three parts, each an engine: ``network`` writes them, ``checkpoint`` reads the published weights.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.rnnt.librispeech import build_dataset, load_samples, load_transcripts
from harness.benchmarks.rnnt.transcribing import LETTERS, OUTPUTS, PARTS, RESPONSE_DTYPE, loop
from harness.benchmarks.speech import count_edits, write_word_error_rate
from harness.contract import Counter
from harness.errors import HarnessError


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """wer and accuracy, percent, over the utterances that were answered."""
    transcripts = load_transcripts(dataset)
    wrong = said = 0
    for index, data in zip(log.indices, log.data, strict=True):
        words = transcripts[int(index)].split()
        wrong += count_edits(read_text(data).split(), words)
        said += len(words)
    return write_word_error_rate(wrong, said, output)


def read_text(data: bytes) -> str:
    """Read the letters of a response, int64 each."""
    letters = np.frombuffer(data, np.int64) if len(data) % 8 == 0 else None
    if letters is None or (letters < 0).any() or (letters >= len(LETTERS)).any():
        raise HarnessError("a response does not hold numbers of letters, int64 each", "input", "run accuracy again")
    return "".join(LETTERS[letter] for letter in letters.tolist())


MODEL = "model.onnx"
_FIX = "name the reference's checkpoint (.pt) as model.path, or a folder with what was made of it"


def build_model(
    source: Path | None, _settings: Mapping[str, Any], _inputs: Mapping[str, Path], output: Path, _counter: Counter
) -> None:
    """encoder/model.onnx, prediction/model.onnx and joint/model.onnx. A checkpoint needs PyTorch to be read."""
    if source is None:
        raise HarnessError("no model is declared", "input", _FIX)
    if source.is_dir():
        missing = [part for part in PARTS if not (source / part / MODEL).is_file()]
        if missing:
            raise HarnessError(f"{source} has no {missing[0]}/{MODEL}", "missing", _FIX)
        for part in PARTS:
            (output / part).mkdir()
            shutil.copyfile(source / part / MODEL, output / part / MODEL)
        return
    from harness.benchmarks.rnnt.checkpoint import read_weights
    from harness.benchmarks.rnnt.network import write_parts

    weights = read_weights(source)
    try:
        write_parts(weights, output)
    except KeyError as error:
        raise HarnessError(f"{source} holds no {error.args[0]}", "input", _FIX) from error


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
