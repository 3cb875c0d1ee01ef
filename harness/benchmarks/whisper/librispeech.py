"""LibriSpeech dev-clean and dev-other as the reference packs them: WAV files of up to 30 s and the manifest that names
them. Waveforms are samples; the backend that transcribes computes their features.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.checking import check_files, is_below
from harness.benchmarks.sources import choose_count, is_rehearsal, read_json, require_source
from harness.benchmarks.speech import RATE, count_samples, load_waveforms, make_rule, open_threads, write_waveforms
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.tokens import SOUNDS

MANIFEST, FOLDER = "dev-all-repack.json", "dev-all-repack"
UTTERANCES = 1633
LONGEST = 30.0  # seconds
_TRANSCRIPTS = "transcripts.json"
_FIX = "`reconcile fetch whisper` says where it comes from and where it belongs; nothing was prepared"


class PackedUtterance(NamedTuple):
    """``file``: relative to the dataset's folder; ``samples``: of its waveform, as the manifest says."""

    file: str
    transcript: str
    samples: int


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """samples.npy float32 in -1..1, all waveforms one after the other; bounds.npy, where they begin; transcripts.json.

    ``settings``: count (the first so many utterances), threads.
    """
    source = require_source(source, MANIFEST)
    folder = source.parent if source.is_file() else source
    utterances = read_manifest(folder, source if source.is_file() else folder / MANIFEST)
    if len(utterances) != UTTERANCES and not is_rehearsal(folder):
        raise HarnessError(f"{folder} names {len(utterances)} utterances, the set has {UTTERANCES}", "input", _FIX)
    utterances = utterances[: choose_count(settings, len(utterances))]
    check_files(folder, [make_rule(utterance.file) for utterance in utterances], fix=_FIX)
    files = [folder / utterance.file for utterance in utterances]
    with open_threads(settings) as pool:
        sizes = list(pool.map(lambda file: count_samples(file, _FIX), files))
        for file, size, utterance in zip(files, sizes, utterances, strict=True):
            if size != utterance.samples:
                problem = f"{file} has {size} samples, and {MANIFEST} says {utterance.samples}"
                raise HarnessError(problem, "input", _FIX)
        write_waveforms(files, sizes, output, pool, counter, _FIX)
    transcripts = [utterance.transcript for utterance in utterances]
    (output / _TRANSCRIPTS).write_text(json.dumps(transcripts), encoding="ascii")


def load_samples(dataset: Path) -> Mapping[str, Any]:
    return {SOUNDS: load_waveforms(dataset)}


def load_transcripts(dataset: Path) -> Sequence[str]:
    found: list[str] = json.loads((dataset / _TRANSCRIPTS).read_text(encoding="ascii"))
    return found


def read_manifest(folder: Path, path: Path) -> list[PackedUtterance]:
    """Read the utterances of at most 30 s, in the manifest's order. Raises HarnessError for any other document."""
    found = []
    try:
        for entry in read_json(path, _FIX):
            if entry["original_duration"] > LONGEST:
                continue
            (file,) = (item["fname"] for item in entry["files"] if item["speed"] == 1)
            transcript = keep_letters(entry["transcript"])
            found.append(PackedUtterance(_place(folder, file), transcript, round(entry["original_duration"] * RATE)))
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        raise HarnessError(f"{path} is not the manifest that the reference makes: {error}", "input", _FIX) from error
    return found


def _place(folder: Path, file: str) -> str:
    """The reference writes where its own run had the file; it is the name in the folder of that name that counts."""
    return file if is_below(file) and (folder / file).is_file() else f"{FOLDER}/{Path(file).name}"


# The letters of a transcript as the official accuracy script reads them: their numbers, int64 each.

LETTERS = " abcdefghijklmnopqrstuvwxyz'0123456789$%+-"
_NUMBERS = {letter: number for number, letter in enumerate(LETTERS)}


def write_text(text: str) -> NDArray[np.int64]:
    """In small letters; what is none is left out."""
    return np.array([_NUMBERS[letter] for letter in text.lower().strip() if letter in _NUMBERS], np.int64)


def keep_letters(text: str) -> str:
    """Without what is none: a transcript of the manifest, as the script takes it."""
    return "".join(letter for letter in text if letter in _NUMBERS)


def read_text(data: bytes) -> str:
    """Read the text of a response."""
    numbers = np.frombuffer(data, np.int64) if len(data) % 8 == 0 else None
    if numbers is None or (numbers < 0).any() or (numbers >= len(LETTERS)).any():
        raise HarnessError("a response does not hold numbers of letters, int64 each", "input", "run accuracy again")
    return "".join(LETTERS[number] for number in numbers.tolist())
