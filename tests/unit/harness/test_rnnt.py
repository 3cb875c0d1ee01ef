"""RNN-T on LibriSpeech: damage is named, features tell bands, letters are taken greedily, words are counted."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.backends import Outputs
from harness.contract import Benchmark, BuildRequest, Counter
from harness.errors import HarnessError
from harness.run.running_sample import Asked, Steps
from tests.shared import need

need("onnxruntime")
soundfile = pytest.importorskip("soundfile")

from harness.benchmarks import rnnt  # noqa: E402
from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.rnnt import features, librispeech, scoring, transcribing  # noqa: E402
from harness.benchmarks.rnnt.rehearsal import FOLDER, load_parts, transcribe, write_rehearsal  # noqa: E402
from harness.benchmarks.sources import REHEARSAL  # noqa: E402
from harness.benchmarks.speech import RATE, weigh_mels  # noqa: E402
from harness.verbs import build as builds  # noqa: E402
from tests.unit.harness.generated import generate  # noqa: E402

SAMPLES = 3
CHAPTER = "2277/149896"  # the first of the reference's manifest
FIRST = f"{CHAPTER}/2277-149896-0000.flac"
TRANSCRIPTS = f"{CHAPTER}/2277-149896.trans.txt"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory, "rnnt", write_rehearsal, SAMPLES)


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "made"))


def build(folder: Path, **settings: object) -> Path:
    output = folder / "dataset"
    output.mkdir()
    librispeech.build_dataset(folder / "data", settings, output, Counter(folder / "counter"))
    return output


def test_marks_and_empty_lines_of_editors_say_nothing(folder: Path) -> None:
    transcripts = folder / "data" / TRANSCRIPTS
    transcripts.write_bytes(b"\xef\xbb\xbf" + transcripts.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert len(librispeech.load_transcripts(build(folder))) == SAMPLES


@pytest.mark.parametrize("transcript", [None, 3, ["a"]])
def test_a_manifest_without_a_text_is_refused(folder: Path, transcript: object) -> None:
    files = [{"fname": f"{CHAPTER}/2277-149896-0000.flac", "speed": 1}]
    (folder / "data" / librispeech.MANIFEST).write_text(json.dumps([{"files": files, "transcript": transcript}]))
    with pytest.raises(HarnessError, match=r"is not the manifest .* is no transcript"):
        build(folder)


def test_waveforms_and_transcripts_are_those_of_the_files(folder: Path) -> None:
    output = build(folder)
    samples = librispeech.load_samples(output)["samples"]
    assert len(samples) == len(librispeech.load_transcripts(output)) == SAMPLES
    wanted, _ = soundfile.read(folder / "data" / FIRST, dtype="float32")
    assert np.array_equal(samples[0], wanted)
    line = (folder / "data" / TRANSCRIPTS).read_text().splitlines()[0]
    assert librispeech.load_transcripts(output)[0] == line.partition(" ")[2].lower()


def test_utterances_that_are_too_long_are_no_samples(folder: Path) -> None:
    soundfile.write(folder / "data" / FIRST, np.zeros(15 * RATE + 1), RATE)
    assert len(librispeech.load_transcripts(build(folder))) == SAMPLES - 1


def test_the_references_manifest_decides_where_it_is_there(folder: Path) -> None:
    (folder / "data/wav").mkdir()
    soundfile.write(folder / "data/wav/1.wav", np.linspace(-1, 1, 500), RATE)
    files = [{"fname": "wav/0.9.wav", "speed": 0.9}, {"fname": "wav/1.wav", "speed": 1}]
    (folder / "data" / librispeech.MANIFEST).write_text(json.dumps([{"files": files, "transcript": "it's a  line"}]))
    output = build(folder)
    assert librispeech.load_transcripts(output) == ["it's a line"]
    assert librispeech.load_samples(output)["samples"][0].shape == (500,)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2000])


@pytest.mark.parametrize(
    ("name", "damage", "problem"),
    [
        pytest.param(FIRST, Path.unlink, f"1 is missing: {FIRST}", id="missing"),
        pytest.param(FIRST, lambda path: path.write_bytes(b""), f"1 is empty: {FIRST}", id="empty"),
        pytest.param(FIRST, lambda path: path.write_bytes(b"<html>"), "1 is no FLAC file", id="html"),
        pytest.param(FIRST, cut, "0000.flac is cut off", id="cut"),
        pytest.param(
            FIRST.replace(".flac", " (1).flac"),
            lambda path: path.write_bytes(b"fLaC"),
            r"1 belongs to nothing: \S+0000 \(1\).flac",
            id="extra",
        ),
        pytest.param(
            FIRST,
            lambda path: soundfile.write(path, np.zeros(80), 8000),
            "has 1 channel of 8000 Hz, not 1 of 16000",
            id="rate",
        ),
        pytest.param(TRANSCRIPTS, Path.unlink, "is missing: .*trans.txt", id="no-transcripts"),
        pytest.param(
            TRANSCRIPTS, lambda path: path.write_text("2277-149896-0000 AT 8:00\n"), "trans.txt:1 has '0'", id="sign"
        ),
    ],
)
def test_a_damaged_file_is_named(folder: Path, name: str, damage: Callable[[Path], None], problem: str) -> None:
    damage(folder / "data" / name)
    with pytest.raises(HarnessError, match=problem) as caught:
        build(folder)
    assert "reconcile fetch rnnt" in caught.value.fix


def test_without_the_mark_of_a_rehearsal_all_chapters_must_be_there(folder: Path) -> None:
    (folder / "data" / REHEARSAL).unlink()
    with pytest.raises(HarnessError, match="of 97 files 96 are missing"):
        build(folder)


def test_a_tone_is_loudest_in_the_band_that_holds_it() -> None:
    time = np.arange(RATE) / RATE
    rng = np.random.default_rng(1)
    tone = np.where(time < 0.5, np.sin(2 * np.pi * 1000 * time), 0) + rng.normal(0, 1e-3, len(time))
    found = features.compute_features(tone.astype(np.float32))
    assert found.shape == (features.count_frames(RATE), features.FEATURES) == (34, 240)
    assert np.allclose(found.mean(axis=0), 0, atol=1e-4)
    assert np.allclose(found.std(axis=0, ddof=1), 1, atol=1e-3)
    mels = weigh_mels(512, features.MELS)
    assert mels.shape == (257, 80)
    band = int(mels[1000 * 512 // RATE].argmax())
    # Within the first half of a second that band is above its mean, later below.
    assert (found[2:14, band] > 0).all()
    assert (found[20:32, band] < 0).all()


def answer(steps: Steps, engine: Callable[[str, dict[str, np.ndarray]], Outputs]) -> tuple[list[int], list[str]]:
    """What a loop returns, and the parts that it asked."""
    asked: Asked = next(steps)
    parts: list[str] = []
    while True:
        assert isinstance(asked, tuple)
        parts.append(asked[0])
        try:
            asked = steps.send(engine(asked[0], dict(asked[1])))
        except StopIteration as end:
            return end.value.tolist(), parts


class Speaking:
    """Parts whose joint says letters at some frames, each so often before blank; ``said`` counts them."""

    def __init__(self, plan: dict[int, list[int]]) -> None:
        self._plan = {frame: list(letters) for frame, letters in plan.items()}
        self._frames = 0
        self.heard = 0.0
        self.last: list[int] = []

    def __call__(self, part: str, inputs: dict[str, np.ndarray]) -> Outputs:
        if part == "encoder":
            self.heard += float(inputs["mask"].sum())
            first = float(inputs["hidden"][0, 0, 0])
            encoded = np.zeros((1, 32, transcribing.HIDDEN), np.float32)
            encoded[0, :, 0] = first + np.arange(32)  # the number of the frame
            return [encoded, inputs["hidden"] + 32, inputs["cell"]]
        if part == "prediction":
            self.last.append(int(inputs["letter"][0, 0]))
            return [np.zeros((1, transcribing.PREDICTED), np.float32), inputs["hidden"], inputs["cell"]]
        logits = np.zeros((len(inputs["encoded"]), transcribing.CLASSES), np.float32)
        logits[:, transcribing.BLANK] = 1
        for row, frame in enumerate(inputs["encoded"][:, 0].astype(int).tolist()):
            if self._plan.get(frame):
                logits[row, self._plan[frame].pop(0)] = 2
                break
        return [logits]


def test_letters_are_taken_until_blank_and_what_follows_hears_them() -> None:
    speaking = Speaking({0: [3], 5: [1, 2], 40: [4]})
    letters, parts = answer(rnnt.loop({"samples": np.random.default_rng(1).normal(0, 0.1, 40_000)}), speaking)
    frames = features.count_frames(40_000)
    assert letters == [3, 1, 2, 4]
    assert speaking.last == [transcribing.START, 3, 1, 2, 4]
    assert speaking.heard == frames == 84  # and nothing past the end
    assert parts.count("encoder") == 2
    assert parts.count("joint") < frames // 2  # several frames are asked for at once


def test_a_frame_gives_no_more_letters_than_the_reference_takes() -> None:
    speaking = Speaking({2: [5] * 100})
    letters, _ = answer(rnnt.loop({"samples": np.random.default_rng(1).normal(0, 0.1, 8_000)}), speaking)
    assert letters == [5] * transcribing.MOST_LETTERS


def test_engines_are_built_for_each_part_and_write_what_the_transcripts_say(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "engine").mkdir()
    rnnt.build_model(folder / "models" / FOLDER, {}, {}, folder / "model", Counter(folder / "counter"))
    assert builds.list_parts(folder / "model") == sorted(transcribing.PARTS)
    request = BuildRequest(
        kind="Engine",
        benchmark=Benchmark(name="rnnt"),
        output=str(folder / "engine"),
        counter=str(folder / "counter"),
        backend="onnxruntime",
        settings={"batch_size": 4},
        inputs={"model": str(folder / "model")},
    )
    made = builds.execute(request, pytest.fail)
    assert set(made.values["engine"]) == set(transcribing.PARTS)
    assert {"encoder/engine.json", "joint/model.onnx"} <= set(made.values["files"])
    dataset = build(folder)
    network = load_parts(folder / "engine")
    answers = []
    for waveform in librispeech.load_samples(dataset)["samples"]:
        letters, _ = transcribe(network, waveform)
        answers.append(np.array(letters, np.int64).tobytes())
    log = AnswerLog(np.arange(SAMPLES), tuple(answers), 0, 0)
    assert scoring.score(log, dataset, folder)["accuracy"] >= 99


def test_a_model_that_lacks_a_part_is_refused(folder: Path) -> None:
    shutil.rmtree(folder / "models" / FOLDER / "joint")
    (folder / "model").mkdir()
    with pytest.raises(HarnessError, match=r"has no joint/model\.onnx"):
        rnnt.build_model(folder / "models" / FOLDER, {}, {}, folder / "model", Counter(folder / "counter"))


@pytest.mark.parametrize(
    ("ours", "theirs", "edits"),
    [("a b c", "a b c", 0), ("", "a b", 2), ("a b c", "", 3), ("a x c", "a b c", 1), ("b c", "a b c", 1)],
)
def test_edits_of_words_are_counted(ours: str, theirs: str, edits: int) -> None:
    assert scoring.count_edits(ours.split(), theirs.split()) == edits


def encode(text: str) -> bytes:
    return np.array([transcribing.LETTERS.index(letter) for letter in text], np.int64).tobytes()


def test_the_rate_is_of_all_words_and_the_line_is_the_official_one(tmp_path: Path) -> None:
    (tmp_path / "transcripts.json").write_text(json.dumps(["it's a line", "of words"]))
    log = AnswerLog(np.arange(2), (encode("it's the line"), encode("of words")), 0, 0)
    assert scoring.score(log, tmp_path, tmp_path) == {"wer": 20.0, "accuracy": 80.0}
    assert (tmp_path / "accuracy.txt").read_text() == "Word Error Rate: 20.0%, accuracy=80.0%\n"


@pytest.mark.parametrize("data", [b"abc", np.array([28], np.int64).tobytes(), np.array([-1], np.int64).tobytes()])
def test_an_answer_that_holds_no_letters_is_refused(data: bytes) -> None:
    with pytest.raises(HarnessError, match="numbers of letters"):
        scoring.read_text(data)


STATE = {"state_dict": {"joint_net.0.weight": [1.0]}}


@pytest.mark.parametrize(
    ("document", "damage", "problem"),
    [
        pytest.param(STATE, lambda data: data[: len(data) // 2], "is cut off$", id="cut"),
        pytest.param(STATE, lambda _: b"", "is empty$", id="empty"),
        pytest.param(STATE, lambda _: b"<html>404</html>", "is not a file that PyTorch saved$", id="html"),
        pytest.param(STATE, None, "a state_dict that is not one of tensors$", id="lists"),
        pytest.param({"epoch": 1, "model": 2}, None, "it holds epoch, model, and no state_dict$", id="other"),
        pytest.param([1.0], None, "it holds a list$", id="list"),
        pytest.param({"state_dict": Path("x")}, None, "holds what is not loaded as weights: .*eights", id="objects"),
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_that_is_not_one_is_refused_for_what_is_wrong(
    tmp_path: Path, document: object, damage: Callable[[bytes], bytes] | None, problem: str, zipped: bool
) -> None:
    torch = pytest.importorskip("torch")
    checkpoint = importlib.import_module("harness.benchmarks.rnnt.checkpoint")
    path = tmp_path / "rnnt.pt"
    torch.save(document, path, _use_new_zipfile_serialization=zipped)
    if damage is not None:
        path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(HarnessError, match=problem) as caught:
        checkpoint.read_weights(path)
    assert "reconcile fetch rnnt" in caught.value.fix


def test_weights_of_a_checkpoint_are_those_that_were_saved(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    checkpoint = importlib.import_module("harness.benchmarks.rnnt.checkpoint")
    state = {"joint_net.0.weight": torch.ones(2, 3).half(), "audio_preprocessor.window": torch.ones(4)}
    torch.save({"state_dict": state, "epoch": 1}, tmp_path / "rnnt.pt")
    found = checkpoint.read_weights(tmp_path / "rnnt.pt")
    assert {name: array.tolist() for name, array in found.items()} == {"joint.net.0.weight": [[1.0] * 3] * 2}
