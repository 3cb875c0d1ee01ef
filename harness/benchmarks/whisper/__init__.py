"""Whisper large v3 on LibriSpeech: what people say, by word error rate.

Any backend that transcribes gives the text, which is logged letter by letter as the reference does.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.benchmarks import TokenBenchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.speech import count_edits, write_word_error_rate
from harness.benchmarks.whisper.librispeech import build_dataset, load_samples, load_transcripts, read_text, write_text
from harness.contract import installing
from harness.errors import HarnessError

# The word error rate, in the line that the official script prints.
#
# Both texts are normalised first, by the very code that the script imports: openai-whisper's, of which nothing else is
# loaded, since the package itself takes PyTorch.

_JOINED = 3  # words that may be written as one
_ALIAS = "openai_whisper_normalizers"


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """wer and accuracy, percent, over the utterances that were answered."""
    normalize = load_normalizer()
    transcripts = load_transcripts(dataset)
    wrong = said = 0
    for index, data in zip(log.indices, log.data, strict=True):
        words = normalize(transcripts[int(index)]).split()
        wrong += count_wrong(normalize(read_text(data)).split(), words)
        said += len(words)
    return write_word_error_rate(wrong, said, output)


def load_normalizer() -> Callable[[str], str]:
    """Raises HarnessError where the package is not installed."""
    if _ALIAS not in sys.modules:
        package = importlib.util.find_spec("whisper")
        folders = [Path(folder) / "normalizers" for folder in (package and package.submodule_search_locations) or []]
        folder = next((folder for folder in folders if (folder / "english.json").is_file()), None)
        if folder is None:
            problem = "texts are normalised by openai-whisper's code, and the package is not installed"
            raise HarnessError(problem, "missing", installing("whisper"))
        spec = importlib.util.spec_from_file_location(
            _ALIAS, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules[_ALIAS] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[_ALIAS])
        except ImportError:
            del sys.modules[_ALIAS]
            raise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves its table of spellings open
        normalize: Callable[[str], str] = sys.modules[_ALIAS].EnglishTextNormalizer()
    return normalize


def count_wrong(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Words to insert, delete or replace, where a word on one side is right that up to three on the other make up, each
    found from where the pairs before it end."""
    pairs: list[tuple[str, str]] = []
    at, here = 0, 0  # in theirs, in ours
    while at < len(theirs) and here < len(ours):
        taken, length = find_joined(ours, theirs, here, at)
        pairs.append(("".join(ours[here : here + length]), "".join(theirs[at : at + taken])))
        at, here = at + taken, here + length
    return count_edits([our for our, _ in pairs] + list(ours[here:]), [their for _, their in pairs] + list(theirs[at:]))


def find_joined(ours: Sequence[str], theirs: Sequence[str], here: int, at: int) -> tuple[int, int]:
    """How many words of theirs, and of ours, are the same from there on; one of each where none are."""
    for count in range(1, _JOINED + 1):
        if at + count <= len(theirs) and "".join(theirs[at : at + count]) == ours[here]:
            return count, 1
        if here + count <= len(ours) and "".join(ours[here : here + count]) == theirs[at]:
            return 1, count
    return 1, 1


class Whisper(TokenBenchmark):
    response_dtype = "int64"
    generation = {"min_new_tokens": 1, "max_new_tokens": 200}
    build_dataset = staticmethod(build_dataset)
    load_samples = staticmethod(load_samples)
    write_text = staticmethod(write_text)
    score = staticmethod(score)


BENCHMARK = Whisper()
