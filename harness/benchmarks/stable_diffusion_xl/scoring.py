"""Scores of images: by the official script, and for a rehearsal by simple substitutes.

CLIP and Inception take gigabytes and are meaningless for generated captions. In a rehearsal the colours of a coarse
grid replace those networks' features; the formulas are the script's. Statistics are chosen so that a rehearsal's own
images get the reference model's score, so the round's accuracy limits apply to them.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.stable_diffusion_xl.coco2014 import REFERENCES
from harness.errors import HarnessError

CLIP_SCORE, FID_SCORE = 31.74981837, 23.48046692  # of the reference model, within the limits of every round
_CELLS = 4  # of the grid, on each side
_NEAR = 2  # of 255: rounding on another machine

Features = NDArray[np.float64]


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return a rehearsal's FID_SCORE and CLIP_SCORE. Raises HarnessError for real captions: the official script
    scores."""
    if not (dataset / REFERENCES).is_file():
        raise HarnessError(
            "only the official script scores images, with CLIP and Inception",
            "input",
            "declare it as harness.score.command (see `reconcile benchmarks show stable-diffusion-xl`); the "
            "accuracy run is kept",
        )
    references = np.load(dataset / REFERENCES)
    wanted = references["images"]
    near = 0.0
    found = []
    for index, data in zip(log.indices.tolist(), log.data, strict=True):
        picture = read_picture(data)
        if picture.shape != wanted[index].shape:
            problem = f"the answer to sample {index} is an image of {list(picture.shape)}"
            raise HarnessError(f"{problem}, not {list(wanted[index].shape)}", "input", "run accuracy again")
        near += float((np.abs(picture.astype(np.int16) - wanted[index]) <= _NEAR).mean())
        found.append(see_colours(picture))
    features = np.stack(found)
    scores = {
        "FID_SCORE": f"{compute_distance(features, references['mean'], references['covariance']):.8f}",
        "CLIP_SCORE": f"{compute_likeness(features, references['features'][log.indices]):.8f}",
    }
    near = round(100 * near / len(found), 3)
    summary = f"A rehearsal: colours stand in for CLIP and Inception; {near:.3f}% of all values are as generated"
    (output / "accuracy.txt").write_text(f"{summary}\nAccuracy Results: {scores}\n", encoding="ascii")
    return {**{name: float(value) for name, value in scores.items()}, "near": near}


def see_colours(picture: NDArray[np.uint8]) -> Features:
    """Compute the mean colours of a grid, 0 to 1: the substitute for a network's features."""
    side = len(picture) // _CELLS
    cut = picture[: side * _CELLS, : side * _CELLS].astype(np.float64) / 255
    means: Features = cut.reshape(_CELLS, side, _CELLS, side, 3).mean(axis=(1, 3)).ravel()
    return means


def make_references(pictures: NDArray[np.uint8]) -> dict[str, np.ndarray]:
    """Make references that give images [n, side, side, 3] the reference model's score."""
    features = np.stack([see_colours(picture) for picture in pictures])
    mean, covariance = features.mean(axis=0), compute_covariance(features)
    away = np.full(len(mean), np.sqrt(FID_SCORE / len(mean)))
    return {"images": pictures, "mean": mean + away, "covariance": covariance, "features": features}


def compute_likeness(features: Features, own: Features) -> float:
    """Return the mean cosine, at least 0 each, on the reference model's scale."""
    lengths = np.linalg.norm(features, axis=1) * np.linalg.norm(own, axis=1)
    cosines = (features * own).sum(axis=1) / np.maximum(lengths, 1e-9)
    return float(CLIP_SCORE * np.maximum(cosines, 0).mean())


def compute_distance(features: Features, mean: Features, covariance: Features) -> float:
    """Compute the distance of two normal distributions (Fréchet)."""
    own = compute_covariance(features)
    roots = np.sqrt(np.maximum(np.linalg.eigvals(own @ covariance).real, 0)).sum()
    apart = ((features.mean(axis=0) - mean) ** 2).sum()
    return float(apart + np.trace(own) + np.trace(covariance) - 2 * roots)


def compute_covariance(features: Features) -> Features:
    return np.atleast_2d(np.cov(features, rowvar=False))


# Answers as pictures: square, three bytes per pixel, red first.

SIDE = 1024  # pixels that the accuracy script reads
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_FORMAT = (8, 2, 0, 0, 0)  # bits per colour; red, green and blue; no special modes
_UNFILTERED = 0


def read_picture(data: bytes) -> NDArray[np.uint8]:
    """Convert an answer's bytes to [side, side, 3]. Raises HarnessError if they are not a square picture."""
    side = math.isqrt(len(data) // 3)
    if not side or side * side * 3 != len(data):
        problem = f"an answer has {len(data)} bytes, which is not a square RGB image"
        raise HarnessError(problem, "input", "run accuracy again")
    return np.frombuffer(data, np.uint8).reshape(side, side, 3)


def encode_png(data: bytes) -> bytes:
    """Encode an answer as a PNG file."""
    picture = read_picture(data)
    height, width, _ = picture.shape
    rows = np.zeros((height, 1 + width * 3), np.uint8)  # each row after its filter's number
    rows[:, 0] = _UNFILTERED
    rows[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, *_FORMAT)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_make_chunk(kind, body) for kind, body in parts)


def _make_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
