"""Whisper large v3 on LibriSpeech: speech to text, by word error rate.

Any backend that transcribes returns the text, which is logged letter by letter as in the reference.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks import TokenBenchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.sources import (
    check_files,
    choose_count,
    count_threads,
    is_below,
    is_rehearsal,
    read_json,
    require_source,
)
from harness.benchmarks.speech import (
    RATE,
    count_edits,
    count_samples,
    load_waveforms,
    make_rule,
    score_words,
    write_utterances,
)
from harness.contract import Counter, show_install
from harness.errors import HarnessError
from harness.run.tokens import SOUNDS

# LibriSpeech dev-clean and dev-other as packed by the reference: WAV files of up to 30 s and their manifest. Waveforms
# are samples; the transcribing backend computes their features.

MANIFEST, FOLDER = "dev-all-repack.json", "dev-all-repack"
UTTERANCES = 1633
LONGEST = 30.0  # seconds
_FIX = "`reconcile fetch whisper` shows its source and location; nothing was prepared"


class PackedUtterance(NamedTuple):
    """``file``: relative to the dataset's folder; ``samples``: number of samples of its waveform, from the manifest."""

    file: str
    transcript: str
    samples: int


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write samples.npy float32 in -1..1, all waveforms one after the other; bounds.npy, their starts;
    transcripts.json."""
    source = require_source(source, MANIFEST)
    folder = source.parent if source.is_file() else source
    utterances = read_manifest(folder, source if source.is_file() else folder / MANIFEST)
    if len(utterances) != UTTERANCES and not is_rehearsal(folder):
        raise HarnessError(f"{folder} lists {len(utterances)} utterances, the set has {UTTERANCES}", "input", _FIX)
    utterances = utterances[: choose_count(settings, len(utterances))]
    check_files(folder, [make_rule(utterance.file) for utterance in utterances], fix=_FIX)
    files = [folder / utterance.file for utterance in utterances]
    with ThreadPoolExecutor(count_threads(settings)) as pool:  # decoding releases the interpreter lock
        sizes = list(pool.map(lambda file: count_samples(file, _FIX), files))
        for file, size, utterance in zip(files, sizes, utterances, strict=True):
            if size != utterance.samples:
                problem = f"{file} has {size} samples, but {utterance.samples} in {MANIFEST}"
                raise HarnessError(problem, "input", _FIX)
        transcripts = [utterance.transcript for utterance in utterances]
        write_utterances(files, sizes, transcripts, output, pool, counter, _FIX)


def load_samples(dataset: Path) -> Mapping[str, Any]:
    return {SOUNDS: load_waveforms(dataset)}


def read_manifest(folder: Path, path: Path) -> list[PackedUtterance]:
    """Read the utterances of at most 30 s, in the manifest's order. Raises HarnessError for any other document."""
    found = []
    try:
        for entry in read_json(path, _FIX):
            if entry["original_duration"] > LONGEST:
                continue
            (file,) = (item["fname"] for item in entry["files"] if item["speed"] == 1)
            transcript = keep_letters(entry["transcript"])
            found.append(PackedUtterance(_locate(folder, file), transcript, round(entry["original_duration"] * RATE)))
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        raise HarnessError(f"{path} is not the reference's manifest: {error}", "input", _FIX) from error
    return found


def _locate(folder: Path, file: str) -> str:
    """Return the file's path below the dataset's folder; the reference writes the path of its own run."""
    return file if is_below(file) and (folder / file).is_file() else f"{FOLDER}/{Path(file).name}"


# The letters of a transcript as the official accuracy script reads them: their numbers, int64 each.

LETTERS = " abcdefghijklmnopqrstuvwxyz'0123456789$%+-"
_NUMBERS = {letter: number for number, letter in enumerate(LETTERS)}


def write_text(text: str) -> NDArray[np.int64]:
    """Encode in lower case, without characters that have no number."""
    return np.array([_NUMBERS[letter] for letter in text.lower().strip() if letter in _NUMBERS], np.int64)


def keep_letters(text: str) -> str:
    """Remove other characters from a manifest's transcript, as the script does."""
    return "".join(letter for letter in text if letter in _NUMBERS)


# Both texts are first normalised by the code that the script imports, openai-whisper's. Nothing else of that package is
# loaded, since it requires PyTorch.

_JOINED = 3  # maximum words that may be written as one
_ALIAS = "openai_whisper_normalizers"


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return wer and accuracy, in percent, over the answered utterances."""
    return score_words(log, dataset, output, LETTERS, load_normalizer(), count_wrong)


def load_normalizer() -> Callable[[str], str]:
    """Load the normalizer. Raises HarnessError if the package is not installed."""
    if _ALIAS not in sys.modules:
        package = importlib.util.find_spec("whisper")
        folders = [Path(folder) / "normalizers" for folder in (package and package.submodule_search_locations) or []]
        folder = next((folder for folder in folders if (folder / "english.json").is_file()), None)
        if folder is None:
            problem = "text normalisation needs the package openai-whisper, which is not installed"
            raise HarnessError(problem, "missing", show_install("whisper"))
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
        warnings.simplefilter("ignore", ResourceWarning)  # the package leaves its spelling table open
        normalize: Callable[[str], str] = sys.modules[_ALIAS].EnglishTextNormalizer()
    return normalize


def count_wrong(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Count the words that must be inserted, deleted or replaced. A word on one side may match up to three on the
    other, and the search for each pair starts where the previous pair ends."""
    pairs: list[tuple[str, str]] = []
    at, here = 0, 0  # positions in their text and in ours
    while at < len(theirs) and here < len(ours):
        taken, length = find_joined(ours, theirs, here, at)
        pairs.append(("".join(ours[here : here + length]), "".join(theirs[at : at + taken])))
        at, here = at + taken, here + length
    return count_edits([our for our, _ in pairs] + list(ours[here:]), [their for _, their in pairs] + list(theirs[at:]))


def find_joined(ours: Sequence[str], theirs: Sequence[str], here: int, at: int) -> tuple[int, int]:
    """Return how many of their words and of our words match from these positions on; one of each if none do."""
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
