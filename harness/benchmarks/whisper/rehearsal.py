"""Utterances of made-up sounds in the reference's layout, and a small Whisper that writes words to them.

The transcripts are the network's own in fp32, of features that are computed here.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import soundfile

from harness.benchmarks.speech import RATE, draw_sound
from harness.benchmarks.whisper.features import compute_features
from harness.benchmarks.whisper.librispeech import FOLDER, MANIFEST
from harness.benchmarks.whisper.network import DECODER, ENCODER, END, MARKS, PROMPT, WhisperShape, write_network
from harness.contract import Counter

MODEL = "whisper-large-v3"
_LEAST, _MOST = 4, 24  # tokens of an answer
_SIZES = {"small": WhisperShape(), "full": WhisperShape(width=1280, heads=20, layers=32, inner=5120)}


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    rng = np.random.default_rng(seed)
    words = make_words()
    (models / MODEL).mkdir()
    write_network(_SIZES[size], words, models / MODEL, rng)
    network = OwnTranscripts(models / MODEL, words)
    (data / FOLDER).mkdir()
    entries = []
    for number in range(count):
        name = f"{FOLDER}/{number // 8}-{number}_0.wav"
        soundfile.write(data / name, draw_sound(rng), RATE, subtype="PCM_16")
        waveform = soundfile.read(data / name, dtype="float32")[0]
        entries.append(_describe(name, len(waveform), network.transcribe(waveform)))
        counter.bump(1)
    (data / MANIFEST).write_text(json.dumps(entries), encoding="utf-8")


def make_words() -> tuple[str, ...]:
    """Syllables that are no words of English, so that nothing is normalised away."""
    return tuple(f" {first}{vowel}{last}" for first, vowel, last in itertools.product("bdgkpt", "aiou", "bdgklmnst"))


def _describe(name: str, samples: int, transcript: str) -> dict[str, Any]:
    seconds = samples / RATE
    file = {"fname": name, "speed": 1, "duration": seconds, "num_samples": samples}
    return {"transcript": transcript, "files": [file], "original_duration": seconds, "original_num_samples": samples}


class OwnTranscripts:
    """A network's own, one utterance after the other."""

    def __init__(self, folder: Path, words: tuple[str, ...]) -> None:
        hints = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
        core = ov.Core()
        self._encoder, self._decoder = (
            core.compile_model(str(folder / name), "CPU", hints).create_infer_request() for name in (ENCODER, DECODER)
        )
        self._words = words

    def transcribe(self, waveform: np.ndarray) -> str:
        """The likeliest token each time, up to the end."""
        sounds = self._encoder.infer({"input_features": compute_features(waveform)[None]})[0].copy()
        self._decoder.reset_state()
        found: list[int] = []
        rows, seen = list(PROMPT), 0
        while len(found) < _MOST and (not found or found[-1] != END):
            inputs = {
                "input_ids": np.array([rows], np.int64),
                "encoder_hidden_states": sounds,
                "beam_idx": np.zeros(1, np.int32),
                "cache_position": np.arange(seen, seen + len(rows), dtype=np.int64),
            }
            scores = self._decoder.infer(inputs)[0][0, -1].copy()
            if len(found) < _LEAST:
                scores[END] = -np.inf
            found.append(int(scores.argmax()))
            seen += len(rows)
            rows = found[-1:]
        return "".join(self._words[token - len(MARKS)] for token in found if token != END).strip()
