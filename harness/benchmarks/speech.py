"""Utterances on disk and in a prepared dataset, differences between words, and generated sounds for rehearsals."""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.sources import FileRule
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Consecutive, Ragged
from harness.run.tokens import SOUND_RATE

RATE = SOUND_RATE
_MOST_SAMPLES = 3600 * RATE
_SAMPLES, _BOUNDS, _TRANSCRIPTS = "samples.npy", "bounds.npy", "transcripts.json"
_FLAC, _WAV = b"fLaC", b"RIFF"


def make_rule(file: str) -> FileRule:
    if file.endswith(".wav"):
        return FileRule(file, kind="WAV file", start=_WAV)
    return FileRule(file, kind="FLAC file", start=_FLAC)


def find_pattern(files: Sequence[str]) -> str:
    """Find the pattern that matches all of a set's files, and no other files in their folders; "" if they are of
    several kinds."""
    paths = [PurePosixPath(file) for file in files]
    parents, endings = {path.parent for path in paths}, {path.suffix for path in paths}
    depths = {len(path.parts) for path in paths}
    if len(endings) != 1 or len(depths) != 1:
        return ""
    place = glob.escape(parents.pop().as_posix()) if len(parents) == 1 else "/".join("*" * (depths.pop() - 1))
    return f"{place}/*{endings.pop()}"


def count_samples(path: Path, fix: str) -> int:
    """Return the number of samples in the header. Raises HarnessError unless the sound is one channel of 16 kHz,
    complete, and at most an hour long."""
    import soundfile

    try:
        with soundfile.SoundFile(path) as info:
            _check_sound(path, info, fix)
            return int(info.frames)
    except soundfile.LibsndfileError as error:
        raise HarnessError(f"{path} cannot be read: {error}", "input", fix) from error


def _check_sound(path: Path, info: Any, fix: str) -> None:
    """Check a sound to its end, so that a truncated file is reported before any other has been prepared."""
    if info.samplerate != RATE or info.channels != 1:
        what = f"{info.channels} channel{'' if info.channels == 1 else 's'} of {info.samplerate} Hz"
        raise HarnessError(f"{path} has {what}, not 1 of {RATE}", "input", fix)
    if info.frames > _MOST_SAMPLES:
        raise HarnessError(f"{path} claims {info.frames:,} samples: longer than an hour", "input", fix)
    if info.frames:
        try:
            info.seek(info.frames - 1)
            found = len(info.read(1))
        except RuntimeError as error:  # soundfile's own errors are a subclass
            raise HarnessError(f"{path} is truncated or damaged: {error}", "input", fix) from error
        if not found:
            what = f"is truncated: it does not have the {info.frames:,} samples of its header"
            raise HarnessError(f"{path} {what}", "input", fix)


def read_waveform(path: Path, samples: int, fix: str) -> np.ndarray:
    """Read the waveform, in -1..1. Raises HarnessError if its number of samples differs."""
    import soundfile

    try:
        # Read one more than expected, since a header may claim any number.
        waveform: np.ndarray = soundfile.read(path, frames=samples + 1, dtype="float32")[0]
    except soundfile.LibsndfileError as error:
        raise HarnessError(f"{path} is truncated or damaged: {error}", "input", fix) from error
    if len(waveform) != samples:
        what = f"is truncated: {len(waveform)} of" if len(waveform) < samples else "is longer than its"
        raise HarnessError(f"{path} {what} {samples} samples", "input", fix)
    return waveform


def write_utterances(
    files: Sequence[Path],
    sizes: Sequence[int],
    transcripts: Sequence[str],
    output: Path,
    pool: ThreadPoolExecutor,
    counter: Counter,
    fix: str,
) -> None:
    """Write samples.npy float32 in -1..1, all waveforms one after the other; bounds.npy, their starts;
    transcripts.json."""
    bounds = np.cumsum([0, *sizes], dtype=np.int64)
    counter.stage("building", len(files))
    samples = npy.open_memmap(output / _SAMPLES, "w+", np.dtype("float32"), (int(bounds[-1]),))

    def copy(place: int) -> None:
        samples[bounds[place] : bounds[place + 1]] = read_waveform(files[place], sizes[place], fix)
        counter.bump(1)

    list(pool.map(copy, range(len(files))))
    samples.flush()
    np.save(output / _BOUNDS, bounds)
    (output / _TRANSCRIPTS).write_text(json.dumps(transcripts), encoding="ascii")


def load_waveforms(dataset: Path) -> Ragged:
    """Load the waveforms, as views of a memory map."""
    whole = np.load(dataset / _SAMPLES, mmap_mode="r")
    return Ragged(Consecutive(whole, np.load(dataset / _BOUNDS)))


def load_transcripts(dataset: Path) -> Sequence[str]:
    found: list[str] = json.loads((dataset / _TRANSCRIPTS).read_text(encoding="ascii"))
    return found


def read_letters(data: bytes, letters: str) -> str:
    """Read the text of a response: the numbers of its letters, int64 each."""
    numbers = np.frombuffer(data, np.int64) if len(data) % 8 == 0 else None
    if numbers is None or (numbers < 0).any() or (numbers >= len(letters)).any():
        raise HarnessError("a response does not contain numbers of letters, int64 each", "input", "run accuracy again")
    return "".join(letters[number] for number in numbers.tolist())


def count_edits(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Count the words that must be inserted, deleted or replaced (Levenshtein)."""
    line = list(range(len(theirs) + 1))
    for row, word in enumerate(ours, 1):
        diagonal, line[0] = line[0], row
        for column, other in enumerate(theirs, 1):
            replaced = diagonal + (word != other)
            diagonal = line[column]
            line[column] = min(replaced, diagonal + 1, line[column - 1] + 1)
    return line[-1]


def score_words(
    log: AnswerLog,
    dataset: Path,
    output: Path,
    letters: str,
    normalize: Callable[[str], str] = str,
    count: Callable[[Sequence[str], Sequence[str]], int] = count_edits,
) -> dict[str, float]:
    """Write wer and accuracy, in percent of all words of the answered utterances, in the official scripts' format;
    accuracy is below 0 if more words are wrong than were spoken. ``count``: counts the wrong words of an answer."""
    transcripts = load_transcripts(dataset)
    wrong = said = 0
    for index, data in zip(log.indices, log.data, strict=True):
        words = normalize(transcripts[int(index)]).split()
        wrong += count(normalize(read_letters(data, letters)).split(), words)
        said += len(words)
    if not said:
        raise HarnessError("the answered utterances contain no words", "input", "score more samples")
    rate = wrong / said
    metrics = {"wer": rate * 100, "accuracy": (1 - rate) * 100}
    text = f"Word Error Rate: {metrics['wer']}%, accuracy={metrics['accuracy']}%\n"
    (output / "accuracy.txt").write_text(text, encoding="ascii")
    return metrics


def draw_sound(rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw one to four seconds of tones that fade in and out over noise."""
    seconds = float(rng.uniform(1, 4))
    time = np.arange(int(seconds * RATE)) / RATE
    sound = rng.normal(0, 0.01, len(time))
    for _ in range(int(8 * seconds)):
        start, length, tone = rng.uniform(0, seconds), rng.uniform(0.05, 0.3), rng.uniform(100, 4000)
        loudness = np.exp(-0.5 * ((time - start) / length) ** 2)
        sound += 0.1 * loudness * np.sin(2 * np.pi * tone * time)
    return sound.clip(-1, 1).astype(np.float32)


@cache
def weigh_mels(length: int, count: int) -> NDArray[np.float32]:
    """Return [length / 2 + 1, count] for transforms of that length: triangles on Slaney's mel scale up to half the
    rate, with equal areas."""
    frequencies = np.linspace(0, RATE / 2, length // 2 + 1)
    edges = _convert_from_mels(np.linspace(0, _convert_to_mels(RATE / 2), count + 2))
    rising = (frequencies[:, None] - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - frequencies[:, None]) / np.diff(edges)[1:]
    area = 2 / (edges[2:] - edges[:-2])
    return (np.maximum(0, np.minimum(rising, falling)) * area).astype(np.float32)


_LINEAR, _BREAK = 200 / 3, 1000.0  # Hz per mel in the linear part, and the frequency in Hz where that ends
_STEP = np.log(6.4) / 27


def _convert_to_mels(frequency: float) -> float:
    return float(_BREAK / _LINEAR + np.log(frequency / _BREAK) / _STEP)


def _convert_from_mels(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _BREAK * np.exp(_STEP * (mels - _BREAK / _LINEAR))
    return np.where(mels < _BREAK / _LINEAR, mels * _LINEAR, above)
