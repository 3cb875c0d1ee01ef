"""RNN-T on LibriSpeech dev-clean: speech to text, letter by letter, by word error rate.

The dataset is the published FLAC files, or the reference's WAV files and manifest made from them. Utterances of at most
15 s are samples, in the order of the reference's manifest; a run computes their features. The model has three parts,
each with its own engine.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.rnnt.transcribing import LETTERS, OUTPUTS, PARTS, loop
from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    count_threads,
    is_below,
    is_rehearsal,
    read_json,
    read_list,
    require_source,
)
from harness.benchmarks.speech import (
    RATE,
    count_samples,
    find_pattern,
    load_waveforms,
    make_rule,
    score_words,
    write_utterances,
)
from harness.contract import Counter
from harness.errors import HarnessError

MANIFEST = "dev-clean-wav.json"
UTTERANCES = 2703  # utterances of dev-clean, of any length
LONGEST = 15.0  # seconds
_DATASET_FIX = "`reconcile fetch rnnt` downloads LibriSpeech dev-clean; nothing was prepared"


class Utterance(NamedTuple):
    """``file``: relative to the dataset's folder."""

    file: str
    transcript: str


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write samples.npy float32 in -1..1, all waveforms one after the other; bounds.npy, their starts;
    transcripts.json."""
    source = require_source(source, "LibriSpeech dev-clean")
    folder = source if (source / MANIFEST).is_file() else _find_folder(source)
    utterances = list_utterances(folder)
    if len(utterances) != UTTERANCES and not is_rehearsal(source):
        problem = f"{folder} lists {len(utterances)} utterances, dev-clean has {UTTERANCES}"
        raise HarnessError(problem, "input", _DATASET_FIX)
    names = [utterance.file for utterance in utterances]
    check_files(folder, [make_rule(name) for name in names], only=find_pattern(names), fix=_DATASET_FIX)
    files = [folder / utterance.file for utterance in utterances]
    with ThreadPoolExecutor(count_threads(settings)) as pool:  # decoding releases the interpreter lock
        sizes = list(pool.map(lambda file: count_samples(file, _DATASET_FIX), files))
        kept = [number for number, size in enumerate(sizes) if size <= LONGEST * RATE]
        kept = kept[: choose_count(settings, len(kept))]
        chosen, lengths = [files[number] for number in kept], [sizes[number] for number in kept]
        transcripts = [utterances[number].transcript for number in kept]
        write_utterances(chosen, lengths, transcripts, output, pool, counter, _DATASET_FIX)


def load_samples(dataset: Path) -> Mapping[str, Any]:
    return {"samples": load_waveforms(dataset)}


def _find_folder(source: Path) -> Path:
    """Find dev-clean itself, or the folder that contains it."""
    return next((path for path in (source / "dev-clean", source / "LibriSpeech/dev-clean") if path.is_dir()), source)


def list_utterances(folder: Path) -> list[Utterance]:
    """List the utterances of the manifest, if there is one, otherwise those of the published chapters; for a rehearsal,
    list the available ones. Raises HarnessError naming the missing files or invalid transcripts."""
    if (folder / MANIFEST).is_file():
        return list(_read_manifest(folder / MANIFEST))
    chapters = read_list("rnnt", "chapters.txt")
    if is_rehearsal(folder):
        chapters = [chapter for chapter in chapters if (folder / chapter.replace("-", "/")).is_dir()]
    files = {chapter: f"{chapter.replace('-', '/')}/{chapter}.trans.txt" for chapter in chapters}
    check_files(folder, [FileRule(file) for file in files.values()], fix=_DATASET_FIX)
    return [
        utterance for chapter, file in files.items() for utterance in _read_chapter(folder / file, Path(file).parent)
    ]


def _read_manifest(path: Path) -> Iterator[Utterance]:
    document = read_json(path, _DATASET_FIX)
    try:
        for entry in document:
            (file,) = (item["fname"] for item in entry["files"] if item["speed"] == 1)
            if not is_below(file):
                raise ValueError(f"{file!r} is outside the folder")
            if not isinstance(text := entry["transcript"], str):
                raise TypeError(f"{text!r} is not a transcript")
            yield Utterance(file, _check_transcript(text, f"{path}: {file}"))
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{path} is not the reference's manifest: {error}"
        raise HarnessError(problem, "input", _DATASET_FIX) from error


def _read_chapter(path: Path, folder: Path) -> Iterator[Utterance]:
    for number, line in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), 1):
        name, _, text = line.partition(" ")
        if not name and not text:
            continue
        yield Utterance(f"{folder}/{name}.flac", _check_transcript(text, f"{path}:{number}"))


def _check_transcript(text: str, place: str) -> str:
    """Return the transcript in lower case. LibriSpeech spells out numbers, and its only punctuation marks are
    apostrophes."""
    found = " ".join(text.lower().split())
    unknown = sorted(set(found) - set(LETTERS))
    if unknown:
        raise HarnessError(f"{place} has {unknown[0]!r}, which is not a transcript character", "input", _DATASET_FIX)
    return found


MODEL = "model.onnx"
_FIX = "set model.path to the reference's checkpoint (.pt), or to a folder generated from it"


def build_model(
    source: Path | None, _settings: Mapping[str, Any], _inputs: Mapping[str, Path], output: Path, _counter: Counter
) -> None:
    """Write encoder/model.onnx, prediction/model.onnx and joint/model.onnx. Reading a checkpoint requires PyTorch."""
    if source is None:
        raise HarnessError("model.path is not set", "input", _FIX)
    if source.is_dir():
        missing = [part for part in PARTS if not (source / part / MODEL).is_file()]
        if missing:
            raise HarnessError(f"{source} has no {missing[0]}/{MODEL}", "missing", _FIX)
        for part in PARTS:
            (output / part).mkdir()
            shutil.copyfile(source / part / MODEL, output / part / MODEL)
        return
    from harness.benchmarks.rnnt.network import read_weights, write_parts

    weights = read_weights(source)
    try:
        write_parts(weights, output)
    except KeyError as error:
        raise HarnessError(f"{source} has no {error.args[0]}", "input", _FIX) from error


class Rnnt(LoopBenchmark):
    outputs = OUTPUTS
    parts = PARTS
    response_dtype = "int64"
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    loop = staticmethod(loop)
    score = staticmethod(partial(score_words, letters=LETTERS))


BENCHMARK = Rnnt()
