"""Greedy decoding of a transducer: at each frame letters are taken until blank is the likeliest.

The encoder takes an utterance in chunks and hands its state on, so that utterances of all lengths share batches. The
joint is asked for several frames ahead at once: its answer for a frame is valid until a letter is taken.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks.rnnt.features import FEATURES, compute_features
from harness.run.qsl import Arrays
from harness.run.running_sample import Asked, Steps

LETTERS = " abcdefghijklmnopqrstuvwxyz'"
BLANK = len(LETTERS)
START = BLANK  # of a transcript, for the prediction network
CLASSES = len(LETTERS) + 1
CHUNK, STACKED = 64, 2  # frames that the encoder takes at once, and of which it makes one
MOST_LETTERS = 30  # of a frame
AHEAD = 8
ENCODER_LAYERS, PREDICTION_LAYERS = 5, 2
HIDDEN, PREDICTED = 1024, 320  # of the published network
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
RESPONSE_DTYPE = "int64"


def loop(sample: Arrays) -> Steps:
    """A waveform "samples" [n] -> int64 [letters]."""
    features = compute_features(sample["samples"])
    encoded = yield from _encode(features)
    letters = yield from _decode(encoded)
    return np.array(letters, np.int64)


def _encode(features: NDArray[np.float32]) -> Generator[Asked, Outputs, NDArray[np.float32]]:
    """[frames, 240] -> [half as many, hidden]."""
    hidden, cell = (np.zeros((1, ENCODER_LAYERS, HIDDEN), np.float32) for _ in range(2))
    found = []
    for start in range(0, len(features), CHUNK):
        some = features[start : start + CHUNK]
        chunk, mask = np.zeros((1, CHUNK, FEATURES), np.float32), np.zeros((1, CHUNK, 1), np.float32)
        chunk[0, : len(some)], mask[0, : len(some)] = some, 1
        encoded, hidden, cell = yield (
            "encoder",
            {"features": chunk, "mask": mask, "hidden": hidden, "cell": cell},
        )
        found.append(encoded[0, : -(-len(some) // STACKED)])
    return np.concatenate(found)


def _decode(encoded: NDArray[np.float32]) -> Generator[Asked, Outputs, list[int]]:
    hidden, cell = (np.zeros((1, PREDICTION_LAYERS, PREDICTED), np.float32) for _ in range(2))
    letters: list[int] = []
    at = taken = 0  # frame, and letters taken there
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
