"""Whisper on LibriSpeech: damage is named, a backend transcribes as the network does, words are counted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openvino_genai")
soundfile = pytest.importorskip("soundfile")

from harness.backends import openvino_genai  # noqa: E402
from harness.benchmarks import whisper  # noqa: E402
from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.sources import REHEARSAL  # noqa: E402
from harness.benchmarks.whisper import letters, librispeech, scoring  # noqa: E402
from harness.benchmarks.whisper.features import compute_features  # noqa: E402
from harness.benchmarks.whisper.rehearsal import MODEL, write_rehearsal  # noqa: E402
from harness.contract import Counter  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from harness.run.tokens import SOUNDS, GenerationPlan, Sampling, Spoken  # noqa: E402
from tests.unit.harness.generated import generate  # noqa: E402
from tests.unit.harness.heard import Heard  # noqa: E402

COUNT, LIMIT = 4, 120
FIRST = "dev-all-repack/0-0_0.wav"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory, "whisper", write_rehearsal, COUNT)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    (tmp_path / "made").mkdir()
    return Path(shutil.copytree(made / "data", tmp_path / "made/data"))


def build(data: Path, **settings: object) -> Path:
    output = data.with_name("dataset")
    output.mkdir()
    librispeech.build_dataset(data, settings, output, Counter(data.with_name("counter")))
    return output


def edit(data: Path, change: Callable[[Any], None]) -> None:
    entries = json.loads((data / librispeech.MANIFEST).read_text())
    change(entries)
    (data / librispeech.MANIFEST).write_text(json.dumps(entries))


def test_waveforms_and_transcripts_are_those_of_the_manifest(folder: Path) -> None:
    entries = json.loads((folder / librispeech.MANIFEST).read_text())
    output = build(folder)
    sounds = librispeech.load_samples(output)[SOUNDS]
    assert librispeech.load_transcripts(output) == [entry["transcript"] for entry in entries]
    assert np.array_equal(sounds[0], soundfile.read(folder / FIRST, dtype="float32")[0])
    assert len(sounds) == COUNT


def test_the_manifest_may_name_files_where_the_reference_had_them(folder: Path) -> None:
    def move(entries: Any) -> None:
        entries[0]["files"][0]["fname"] = f"/data/{FIRST}"
        entries[0]["transcript"] = "It\u2019s A, line-up"
        entries[1]["original_duration"] = 30.5

    edit(folder, move)
    output = build(folder)
    assert librispeech.load_transcripts(output)[0] == "ts  line-up"  # as the reference drops what it has no letter for
    assert len(librispeech.load_samples(output)[SOUNDS]) == COUNT - 1


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(lambda data: (data / FIRST).unlink(), "1 is missing: dev-all-repack/0-0_0.wav", id="missing"),
        pytest.param(
            lambda data: (data / FIRST).write_bytes((data / FIRST).read_bytes()[:-4000]), "0-0_0.wav", id="cut off"
        ),
        pytest.param(
            lambda data: soundfile.write(data / FIRST, np.zeros(800), 8000), "1 channel of 8000 Hz", id="rate"
        ),
        pytest.param(
            lambda data: edit(data, lambda entries: entries[0].pop("files")),
            "is not the manifest that the reference makes",
            id="manifest",
        ),
        pytest.param(
            lambda data: (data / REHEARSAL).unlink(), "names 4 utterances, the set has 1633", id="too few utterances"
        ),
    ],
)
def test_damage_is_named_before_anything_is_prepared(
    folder: Path, damage: Callable[[Path], None], problem: str
) -> None:
    damage(folder)
    with pytest.raises(HarnessError, match=problem) as caught:
        build(folder)
    assert "reconcile fetch whisper" in caught.value.fix
    assert not list(folder.with_name("dataset").iterdir())


def test_openvino_genai_transcribes_as_the_network_does(made: Path) -> None:
    entries = json.loads((made / "data" / librispeech.MANIFEST).read_text())
    heard = Heard(LIMIT)
    plan = GenerationPlan(
        model=None,
        source=made / "models" / MODEL,
        scenario="Offline",
        sampling=Sampling(min_new_tokens=4, max_new_tokens=24),
        streaming=False,
        logged=True,
        threads=1,
        precision="fp32",
        options={"pipelines": 2},
        first=heard.first,
        completed=heard.result,
        failed=heard.result,
    )
    generator = openvino_genai.load(plan)
    files = [made / "data" / entry["files"][0]["fname"] for entry in entries]
    generator.place([soundfile.read(file, dtype="float32")[0] for file in files])
    for row in range(COUNT):
        generator.submit(row, row)
    found: Any = heard.wait(COUNT)
    generator.close()
    assert all(isinstance(answer, Spoken) for answer in found.values())
    assert [found[row].text.strip() for row in range(COUNT)] == [entry["transcript"] for entry in entries]
    assert all(found[row].tokens >= len(entries[row]["transcript"].split()) for row in range(COUNT))


def test_features_tell_bands_and_silence() -> None:
    time = np.arange(16_000) / 16_000
    found = compute_features(np.sin(2 * np.pi * 1000 * time).astype(np.float32))
    assert found.shape == (128, 3000)
    assert found[:, 50].argmax() == 42  # 1,000 Hz of 128 mels up to 8,000
    assert found[:, 200:].max() == found.min()


def test_an_answer_is_logged_in_letters_and_read_again() -> None:
    numbers = letters.write_text("  It's 5% Off, $2! ")
    assert numbers.dtype == np.int64
    assert letters.read_text(numbers.tobytes()) == "it's 5% off $2"
    with pytest.raises(HarnessError, match="does not hold numbers of letters"):
        letters.read_text(np.array([len(letters.LETTERS)], np.int64).tobytes())


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
    assert scoring.count_wrong(ours.split(), theirs.split()) == wrong


@pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("whisper") is None, reason="openai-whisper is not installed"
)
def test_own_transcripts_are_right_and_numbers_may_be_written_either_way(made: Path, tmp_path: Path) -> None:
    output = tmp_path / "dataset"
    output.mkdir()
    librispeech.build_dataset(made / "data", {}, output, Counter(tmp_path / "counter"))
    right = list(librispeech.load_transcripts(output))
    (output / "transcripts.json").write_text(json.dumps(["twenty two dollars", *right[1:]]))
    data = tuple(letters.write_text(text).tobytes() for text in ["$22", *right[1:]])
    found = whisper.score(AnswerLog(np.arange(COUNT, dtype=np.intp), data, 0, 0), output, tmp_path)
    assert found == {"wer": 0.0, "accuracy": 100.0}
    assert (tmp_path / "accuracy.txt").read_text() == "Word Error Rate: 0.0%, accuracy=100.0%\n"


def test_without_the_package_the_score_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring.importlib.util, "find_spec", lambda _: None)
    monkeypatch.delitem(scoring.sys.modules, "openai_whisper_normalizers", raising=False)
    with pytest.raises(HarnessError, match="openai-whisper") as caught:
        scoring.load_normalizer()
    assert "mlperf-reconciler[whisper]" in caught.value.fix
