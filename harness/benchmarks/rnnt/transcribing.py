"""Greedy decoding of a transducer: at each frame, letters are emitted until blank is the likeliest.

The encoder processes an utterance in chunks and passes on its state, so that utterances of all lengths share batches.
The joint computes several frames ahead at once: its answers for later frames are valid until a letter is emitted.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks.speech import weigh_mels
from harness.run.qsl import Arrays
from harness.run.row_batches import Asked, Steps

LETTERS = " abcdefghijklmnopqrstuvwxyz'"
BLANK = len(LETTERS)
START = BLANK  # starts a transcript for the prediction network
CLASSES = len(LETTERS) + 1
CHUNK, STACKED = 64, 2  # frames per encoder call, and frames combined into one
MOST_LETTERS = 30  # for one frame
AHEAD = 8
ENCODER_LAYERS, PREDICTION_LAYERS = 5, 2
HIDDEN, PREDICTED = 1024, 320  # widths of the published network
PARTS = ("encoder", "prediction", "joint")
OUTPUTS: dict[str, dict[str, tuple[tuple[int, ...], str]]] = {
    "encoder": {
        "encoded": ((CHUNK // STACKED, HIDDEN), "float32"),
        "hidden_out": ((ENCODER_LAYERS, HIDDEN), "float32"),
        "cell_out": ((ENCODER_LAYERS, HIDDEN), "float32"),
    },
    "prediction": {
        "predicted": ((PREDICTED,), "float32"),
        "hidden_out": ((PREDICTION_LAYERS, PREDICTED), "float32"),
        "cell_out": ((PREDICTION_LAYERS, PREDICTED), "float32"),
    },
    "joint": {"logits": ((CLASSES,), "float32")},
}


def loop(sample: Arrays) -> Steps:
    """Map a waveform "samples" [n] to int64 [letters]."""
    features = compute_features(sample["samples"])
    encoded = yield from _encode(features)
    letters = yield from _decode(encoded)
    return np.array(letters, np.int64)


def _encode(features: NDArray[np.float32]) -> Generator[Asked, Outputs, NDArray[np.float32]]:
    """Map [frames, 240] to [frames / 2, hidden]."""
    hidden, cell = (np.zeros((1, ENCODER_LAYERS, HIDDEN), np.float32) for _ in range(2))
    found = []
    for start in range(0, len(features), CHUNK):
        some = features[start : start + CHUNK]
        chunk, mask = np.zeros((1, CHUNK, FEATURES), np.float32), np.zeros((1, CHUNK, 1), np.float32)
        chunk[0, : len(some)], mask[0, : len(some)] = some, 1
        encoded, hidden, cell = yield ("encoder", {"features": chunk, "mask": mask, "hidden": hidden, "cell": cell})
        found.append(encoded[0, : -(-len(some) // STACKED)])
    return np.concatenate(found)


def _decode(encoded: NDArray[np.float32]) -> Generator[Asked, Outputs, list[int]]:
    hidden, cell = (np.zeros((1, PREDICTION_LAYERS, PREDICTED), np.float32) for _ in range(2))
    letters: list[int] = []
    at = taken = 0  # frame, and letters emitted there
    predicted = None
    while at < len(encoded):
        if predicted is None:
            last = np.array([[letters[-1] if letters else START]], np.int64)
            predicted, hidden, cell = yield "prediction", {"letter": last, "hidden": hidden, "cell": cell}
        ahead = encoded[at : at + AHEAD]
        (logits,) = yield "joint", {"encoded": ahead, "predicted": predicted.repeat(len(ahead), axis=0)}
        best = logits.argmax(axis=1)
        blank = int((best != BLANK).argmax()) if (best != BLANK).any() else len(ahead)  # frames before a letter
        if blank:
            at, taken = at + blank, 0
        if blank < len(ahead):
            letters.append(int(best[blank]))
            predicted, taken = None, taken + 1
            if taken == MOST_LETTERS:
                at, taken = at + 1, 0
    return letters


# Features of a waveform: log-mel energies of three neighbouring frames of 10 ms, normalised over the utterance,
# computed like FilterbankFeatures of speech_recognition/rnnt in mlcommons/inference.

MELS, SPLICED = 80, 3
FEATURES = MELS * SPLICED
_WINDOW, _HOP, _FFT = 320, 160, 512
_PREEMPHASIS = np.float32(0.97)
_DITHER = np.float32(1e-5**2)  # the reference adds the power of its dither
_SMALLEST, _LEAST_DEVIATION = np.float32(1e-20), np.float32(1e-5)


def count_frames(samples: int) -> int:
    """Count the frames of the network's input."""
    return ceil(ceil(samples / _HOP) / SPLICED)


def compute_features(waveform: NDArray[np.float32]) -> NDArray[np.float32]:
    """Map [samples] in -1..1 to [frames, 240]."""
    mels = np.log(_measure_power(waveform) @ weigh_mels(_FFT, MELS) + _SMALLEST)
    # A frame joined with the following ones; nothing follows the last.
    later = [np.concatenate([mels[n:], np.zeros((n, MELS), np.float32)]) for n in range(1, SPLICED)]
    spliced = np.concatenate([mels, *later], axis=1)[::SPLICED][: count_frames(len(waveform))]
    deviation = spliced.std(axis=0, ddof=1) + _LEAST_DEVIATION
    normalised: NDArray[np.float32] = (spliced - spliced.mean(axis=0)) / deviation
    return normalised


def _measure_power(waveform: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return [frames, 257]: frames are centred, and the ends of the waveform mirrored."""
    sharpened = np.append(waveform[:1], waveform[1:] - _PREEMPHASIS * waveform[:-1])
    padded = np.pad(sharpened, _FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::_HOP]
    spectrum = np.fft.rfft(frames * _make_window(), axis=1).astype(np.complex64, copy=False)
    return spectrum.real**2 + spectrum.imag**2 + _DITHER


@cache
def _make_window() -> NDArray[np.float32]:
    """Return a Hann window of 20 ms, in the middle of a transform's length."""
    window = np.zeros(_FFT, np.float32)
    start = (_FFT - _WINDOW) // 2
    window[start : start + _WINDOW] = np.hanning(_WINDOW)
    return window
