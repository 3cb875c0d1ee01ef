"""Whisper on LibriSpeech: damage is named, a backend transcribes as the network does, words are counted."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino_genai")
soundfile = pytest.importorskip("soundfile")

from harness.backends import openvino_genai  # noqa: E402
from harness.benchmarks import whisper  # noqa: E402
from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.speech import load_transcripts, read_letters  # noqa: E402
from harness.benchmarks.whisper.rehearsal import MODEL  # noqa: E402
from harness.contract import Counter  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from harness.run.tokens import SOUNDS, Sampling, Spoken  # noqa: E402
from tests.unit.harness.generated import build_dataset  # noqa: E402
from tests.unit.harness.recorder import Recorder  # noqa: E402

COUNT, LIMIT = 4, 120
REHEARSED = ("whisper", COUNT)
FIRST = "dev-all-repack/0-0_0.wav"


build = partial(build_dataset, whisper)


def test_waveforms_and_transcripts_are_those_of_the_manifest(data: Path) -> None:
    entries = json.loads((data / whisper.MANIFEST).read_text())
    output = build(data)
    sounds = whisper.load_samples(output)[SOUNDS]
    assert load_transcripts(output) == [entry["transcript"] for entry in entries]
    assert np.array_equal(sounds[0], soundfile.read(data / FIRST, dtype="float32")[0])
    assert len(sounds) == COUNT


def test_openvino_genai_transcribes_as_the_network_does(made: Path) -> None:
    entries = json.loads((made / "data" / whisper.MANIFEST).read_text())
    recorder = Recorder(LIMIT)
    plan = recorder.make_plan(
        source=made / "models" / MODEL,
        sampling=Sampling(min_new_tokens=4, max_new_tokens=24),
        threads=1,
        options={"pipelines": 2},
    )
    generator = openvino_genai.load(plan)
    files = [made / "data" / entry["files"][0]["fname"] for entry in entries]
    generator.place([soundfile.read(file, dtype="float32")[0] for file in files])
    for row in range(COUNT):
        generator.submit(row, row)
    found: Any = recorder.wait(COUNT)
    generator.close()
    assert all(isinstance(answer, Spoken) for answer in found.values())
    assert [found[row].text.strip() for row in range(COUNT)] == [entry["transcript"] for entry in entries]
    assert all(found[row].tokens >= len(entries[row]["transcript"].split()) for row in range(COUNT))


def test_an_answer_is_logged_in_letters_and_read_again() -> None:
    numbers = whisper.write_text("  It's 5% Off, $2! ")
    assert numbers.dtype == np.int64
    assert read_letters(numbers.tobytes(), whisper.LETTERS) == "it's 5% off $2"
    with pytest.raises(HarnessError, match="does not contain numbers of letters"):
        read_letters(np.array([len(whisper.LETTERS)], np.int64).tobytes(), whisper.LETTERS)


@pytest.mark.parametrize(
    ("ours", "theirs", "wrong"),
    [
        ("a b c", "a b c", 0),
        ("some body went", "somebody went", 0),
        ("nevertheless so", "never the less so", 0),
        ("a x c", "a b c", 1),
        ("a", "a b c", 2),
        ("a b c d", "a", 3),
        ("", "a b", 2),
    ],
)
def test_words_that_are_joined_or_parted_are_right(ours: str, theirs: str, wrong: int) -> None:
    assert whisper.count_wrong(ours.split(), theirs.split()) == wrong


@pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("whisper") is None, reason="openai-whisper is not installed"
)
def test_own_transcripts_are_right_and_numbers_may_be_written_either_way(made: Path, tmp_path: Path) -> None:
    output = tmp_path / "dataset"
    output.mkdir()
    whisper.build_dataset(made / "data", {}, output, Counter(tmp_path / "counter"))
    right = list(load_transcripts(output))
    (output / "transcripts.json").write_text(json.dumps(["twenty two dollars", *right[1:]]))
    data = tuple(whisper.write_text(text).tobytes() for text in ["$22", *right[1:]])
    found = whisper.BENCHMARK.score(AnswerLog(np.arange(COUNT, dtype=np.intp), data, 0, 0), output, tmp_path)
    assert found == {"wer": 0.0, "accuracy": 100.0}
    assert (tmp_path / "accuracy.txt").read_text() == "Word Error Rate: 0.0%, accuracy=100.0%\n"
