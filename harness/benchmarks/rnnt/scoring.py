"""The word error rate, in the line that the official script prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.rnnt.librispeech import load_transcripts
from harness.benchmarks.rnnt.transcribing import LETTERS
from harness.benchmarks.speech import count_edits, write_word_error_rate
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
