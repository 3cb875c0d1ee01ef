"""Compare our transcription, transcripts and word error rate with the reference's: ``python -m
tests.benchmarks.reference_rnnt CHECKOUT``.

CHECKOUT is one of mlcommons/inference with speech_recognition/rnnt, such as v4.0. Sounds of many lengths are generated.
Needs PyTorch, soundfile, inflect and unidecode. A matrix that the reference takes from librosa is compared if librosa
is installed; otherwise ours replaces it.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from harness.benchmarks import rnnt
from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.rnnt import transcribing
from harness.benchmarks.rnnt.network import read_weights, write_parts
from harness.benchmarks.rnnt.rehearsal import _SIZES, balance_letters, draw_weights, load_parts, transcribe
from harness.benchmarks.rnnt.transcribing import BLANK, LETTERS
from harness.benchmarks.sources import REHEARSAL
from harness.benchmarks.speech import RATE, draw_sound, weigh_mels
from harness.contract import Counter
from tests.benchmarks.comparing import run_script, write_log

_FOLDER = "speech_recognition/rnnt"
_SOUNDS = 24
_SETTINGS = {
    "encoder_pre_rnn_layers": 2, "encoder_post_rnn_layers": 3, "encoder_stack_time_factor": 2, "pred_rnn_layers": 2,
    "forget_gate_bias": 1.0, "rnn_type": "lstm", "dropout": 0.32,
}  # fmt: skip
_FEATURES = {
    "normalize": "per_feature", "sample_rate": 16000, "window_size": 0.02, "window_stride": 0.01, "window": "hann",
    "features": 80, "n_fft": 512, "frame_splicing": 3, "dither": 0.00001, "feat_type": "logfbank", "pad_to": 0,
}  # fmt: skip


def stand_in_for_librosa() -> bool:
    """Return True if librosa is installed. Otherwise replace the one function that the reference calls."""
    if importlib.util.find_spec("librosa"):
        return True
    librosa = types.ModuleType("librosa")
    librosa.filters = types.SimpleNamespace(mel=lambda **_: weigh_mels(512, transcribing.MELS).T)  # type: ignore[attr-defined]
    sys.modules["librosa"] = librosa
    return False


def write_sounds(rng: np.random.Generator, folder: Path) -> tuple[list[np.ndarray], list[dict[str, Any]]]:
    """Write WAV files and the manifest's entries. Some are longer than samples may be."""
    (folder / "dev-clean-wav").mkdir(parents=True)
    waveforms, entries = [], []
    for number in range(_SOUNDS):
        sound = np.concatenate([draw_sound(rng) for _ in range(8 if number % 6 == 5 else 1)])
        name = f"dev-clean-wav/{number}.wav"
        soundfile.write(folder / name, sound, 16000, subtype="PCM_16")
        words = (
            "".join(rng.choice(list(LETTERS[1:]), int(rng.integers(1, 9)))) for _ in range(int(rng.integers(1, 20)))
        )
        seconds = len(sound) / 16000
        file = {"fname": name, "speed": 1, "duration": seconds}
        entries.append({"files": [file], "original_duration": seconds, "transcript": " ".join(words)})
        waveforms.append(soundfile.read(folder / name, dtype="float32")[0])
    (folder / rnnt.MANIFEST).write_text(json.dumps(entries))
    (folder / REHEARSAL).write_text("{}")
    return waveforms, entries


def compare_features(torch: Any, waveforms: list[np.ndarray]) -> tuple[Any, list[Any], float]:
    """Return the reference's preprocessing, its features and our largest difference."""
    preprocessing = importlib.import_module("preprocessing").AudioPreprocessing(**_FEATURES).eval()
    found, largest = [], 0.0
    for waveform in waveforms:
        length = torch.tensor([len(waveform)])
        received, frames = preprocessing((torch.from_numpy(waveform)[None], length))
        wanted = received[0].T.numpy()
        ours = transcribing.compute_features(waveform)
        assert ours.shape == wanted.shape == (int(frames), transcribing.FEATURES)
        largest = max(largest, float(np.abs(ours - wanted).max()))
        found.append((received.permute(2, 0, 1), frames))
    return preprocessing, found, largest


def compare_transcripts(torch: Any, folder: Path, waveforms: list[np.ndarray], received: list[Any]) -> tuple[int, int]:
    """Run the reference's network, narrower and with a rehearsal's weights, saved like its checkpoint. Return the
    number of equal transcripts and of letters."""
    weights = draw_weights(np.random.default_rng(1), *_SIZES["small"])
    balance_letters(weights, waveforms[:4], folder)
    width, predicted, joint = _SIZES["small"]
    settings = {**_SETTINGS, "encoder_n_hidden": width, "pred_n_hidden": predicted, "joint_n_hidden": joint}
    network = importlib.import_module("model_separable_rnnt").RNNT(settings, len(LETTERS) + 1, feature_config=_FEATURES)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()}, strict=True)
    state = {name.replace("joint.net", "joint_net"): weight for name, weight in network.state_dict().items()}
    torch.save({"epoch": 1, "state_dict": state}, folder / "checkpoint.pt", _use_new_zipfile_serialization=False)
    (folder / "parts").mkdir()
    write_parts(read_weights(folder / "checkpoint.pt"), folder / "parts")
    parts = load_parts(folder / "parts")
    scripted = torch.jit.script(network.eval())
    decoder = importlib.import_module("decoders").ScriptGreedyDecoder(BLANK, scripted)
    alike = letters = 0
    for waveform, (given, frames) in zip(waveforms, received, strict=True):
        with torch.no_grad():
            _, _, (wanted,) = decoder.forward(given, frames)
        ours, _ = transcribe(parts, waveform)
        alike, letters = alike + (ours == wanted), letters + len(wanted)
    return alike, letters


def compare_scores(checkout: Path, folder: Path, dataset: Path, texts: list[str]) -> tuple[str, str]:
    """Return the last line of the official script and ours."""
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    log = write_log(logs, (np.array([LETTERS.index(letter) for letter in text], np.int64) for text in texts))
    command = [sys.executable, checkout / _FOLDER / "accuracy_eval.py", "--log_dir", logs]
    ran = run_script([*command, "--dataset_dir", folder, "--manifest", folder / rnnt.MANIFEST])
    rnnt.score(read_accuracy_log(log), dataset, folder)
    return ran.stdout.splitlines()[-1], (folder / "accuracy.txt").read_text().strip()


def main(checkout: Path) -> None:
    sys.path.insert(0, str(checkout / _FOLDER / "pytorch"))
    librosa, torch = stand_in_for_librosa(), importlib.import_module("torch")
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder, output = Path(temporary) / "data", Path(temporary) / "output"
        output.mkdir()
        waveforms, entries = write_sounds(rng, folder)
        preprocessing, received, largest = compare_features(torch, waveforms)
        mels = np.abs(preprocessing.featurizer.fb[0].numpy() - weigh_mels(512, transcribing.MELS).T).max()
        print(
            f"{len(waveforms)} sounds: features differ by {largest:.2g} at most; mels of librosa: {librosa}, {mels:.2g}"
        )
        few = [number for number, waveform in enumerate(waveforms) if number < 4 or len(waveform) < 4 * RATE]
        alike, letters = compare_transcripts(
            torch, Path(temporary), [waveforms[n] for n in few], [received[n] for n in few]
        )
        print(f"{len(few)} transcripts: {alike} alike, of {letters} letters")
        rnnt.build_dataset(folder, {}, output, Counter(Path(temporary) / "counter"))
        manifest = importlib.import_module("parts.manifest").Manifest(
            str(folder), [str(folder / rnnt.MANIFEST)], list(LETTERS), BLANK, normalize=True, max_duration=15.0
        )
        kept = ["".join(LETTERS[letter] for letter in item["transcript"]) for item in manifest]
        ours = list(rnnt.load_transcripts(output))
        print(f"{len(entries)} utterances, of which {len(kept)} are samples; equal: {kept == ours}")
        chance = ["".join(rng.choice(list(LETTERS), 60)) for _ in kept]
        half = [text if number % 2 else chance[number] for number, text in enumerate(kept)]
        for name, texts in {"right": kept, "half": half, "random": chance, "none": [""] * len(kept)}.items():
            official, written = compare_scores(checkout, folder, output, texts)
            print(f"{name}: {'equal' if official == written else 'DIFFERENT'} {official} {written}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
