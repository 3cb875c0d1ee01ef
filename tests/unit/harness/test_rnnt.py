"""RNN-T on LibriSpeech: damage is named, features distinguish bands, letters are taken greedily, words are counted."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.backends import Outputs
from harness.contract import Benchmark, BuildRequest, Counter
from harness.run.row_batches import Asked, Steps
from tests.shared import need

need("onnxruntime")
soundfile = pytest.importorskip("soundfile")

from harness.benchmarks import rnnt  # noqa: E402
from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.rnnt import transcribing  # noqa: E402
from harness.benchmarks.rnnt.rehearsal import FOLDER, load_parts, transcribe  # noqa: E402
from harness.benchmarks.speech import RATE, count_edits, load_transcripts, weigh_mels  # noqa: E402
from harness.verbs import build as builds  # noqa: E402
from tests.unit.harness.generated import build_dataset  # noqa: E402

SAMPLES = 3
REHEARSED = ("rnnt", SAMPLES)
CHAPTER = "2277/149896"  # the first of the reference's manifest
FIRST = f"{CHAPTER}/2277-149896-0000.flac"
TRANSCRIPTS = f"{CHAPTER}/2277-149896.trans.txt"


def build(folder: Path, **settings: object) -> Path:
    return build_dataset(rnnt, folder / "data", **settings)


def test_waveforms_and_transcripts_are_those_of_the_files(folder: Path) -> None:
    output = build(folder)
    samples = rnnt.load_samples(output)["samples"]
    assert len(samples) == len(load_transcripts(output)) == SAMPLES
    wanted, _ = soundfile.read(folder / "data" / FIRST, dtype="float32")
    assert np.array_equal(samples[0], wanted)
    line = (folder / "data" / TRANSCRIPTS).read_text().splitlines()[0]
    assert load_transcripts(output)[0] == line.partition(" ")[2].lower()


def test_a_tone_is_loudest_in_the_band_that_holds_it() -> None:
    time = np.arange(RATE) / RATE
    rng = np.random.default_rng(1)
    tone = np.where(time < 0.5, np.sin(2 * np.pi * 1000 * time), 0) + rng.normal(0, 1e-3, len(time))
    found = transcribing.compute_features(tone.astype(np.float32))
    assert found.shape == (transcribing.count_frames(RATE), transcribing.FEATURES) == (34, 240)
    assert np.allclose(found.mean(axis=0), 0, atol=1e-4)
    assert np.allclose(found.std(axis=0, ddof=1), 1, atol=1e-3)
    mels = weigh_mels(512, transcribing.MELS)
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
        self.received = 0.0
        self.last: list[int] = []

    def __call__(self, part: str, inputs: dict[str, np.ndarray]) -> Outputs:
        if part == "encoder":
            self.received += float(inputs["mask"].sum())
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
    letters, parts = answer(rnnt.BENCHMARK.loop({"samples": np.random.default_rng(1).normal(0, 0.1, 40_000)}), speaking)
    frames = transcribing.count_frames(40_000)
    assert letters == [3, 1, 2, 4]
    assert speaking.last == [transcribing.START, 3, 1, 2, 4]
    assert speaking.received == frames == 84  # and nothing past the end
    assert parts.count("encoder") == 2
    assert parts.count("joint") < frames // 2  # several frames are asked for at once


def test_engines_are_built_for_each_part_and_write_what_the_transcripts_say(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "engine").mkdir()
    rnnt.BENCHMARK.build_model(folder / "models" / FOLDER, {}, {}, folder / "model", Counter(folder / "counter"))
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
    for waveform in rnnt.load_samples(dataset)["samples"]:
        letters, _ = transcribe(network, waveform)
        answers.append(np.array(letters, np.int64).tobytes())
    log = AnswerLog(np.arange(SAMPLES), tuple(answers), 0, 0)
    assert rnnt.BENCHMARK.score(log, dataset, folder)["accuracy"] >= 99


@pytest.mark.parametrize(
    ("ours", "theirs", "edits"),
    [("a b c", "a b c", 0), ("", "a b", 2), ("a b c", "", 3), ("a x c", "a b c", 1), ("b c", "a b c", 1)],
)
def test_edits_of_words_are_counted(ours: str, theirs: str, edits: int) -> None:
    assert count_edits(ours.split(), theirs.split()) == edits


def encode(text: str) -> bytes:
    return np.array([transcribing.LETTERS.index(letter) for letter in text], np.int64).tobytes()


def test_the_rate_is_of_all_words_and_the_line_is_the_official_one(tmp_path: Path) -> None:
    (tmp_path / "transcripts.json").write_text(json.dumps(["it's a line", "of words"]))
    log = AnswerLog(np.arange(2), (encode("it's the line"), encode("of words")), 0, 0)
    assert rnnt.BENCHMARK.score(log, tmp_path, tmp_path) == {"wer": 20.0, "accuracy": 80.0}
    assert (tmp_path / "accuracy.txt").read_text() == "Word Error Rate: 20.0%, accuracy=80.0%\n"


def test_weights_of_a_checkpoint_are_those_that_were_saved(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    checkpoint = importlib.import_module("harness.benchmarks.rnnt.network")
    state = {"joint_net.0.weight": torch.ones(2, 3).half(), "audio_preprocessor.window": torch.ones(4)}
    torch.save({"state_dict": state, "epoch": 1}, tmp_path / "rnnt.pt")
    found = checkpoint.read_weights(tmp_path / "rnnt.pt")
    assert {name: array.tolist() for name, array in found.items()} == {"joint.net.0.weight": [[1.0] * 3] * 2}
