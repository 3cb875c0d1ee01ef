"""Stable Diffusion XL 1.0: images for the captions of COCO 2014, by CLIP score and FID.

The two networks of the score take gigabytes, so the official script computes it; here only a rehearsal's answers are
scored. All images start from the same latents and have the same negative prompt, which samples share.
"""

from __future__ import annotations

import csv
import hashlib
import math
import shutil
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.mapped_arrays import load_npy
from harness.benchmarks.pipeline_samples import PipelineBenchmark, find_file, save_shared
from harness.benchmarks.sources import choose_count, is_rehearsal, require_source
from harness.benchmarks.stable_diffusion_xl.clip_tokens import encode_captions, read_tokenizer
from harness.contract import Counter
from harness.errors import HarnessError

CAPTIONS = ("captions/captions.tsv", "captions/captions_source.tsv", "captions_source.tsv", "captions.tsv")
LATENTS = tuple(f"{folder}latents.{kind}" for folder in ("latents/", "") for kind in ("npy", "pt"))
COUNT = 5000
SHAPE = (1, 4, 128, 128)
LATENTS_SHA256 = "ea2c5d770d8921c79b43fade2dcecab9c95baae0500f5a2bc860ceb45faeccb1"  # of the latents' bytes as float32
AGAINST = "normal quality, low quality, worst quality, low res, blurry, nsfw, nude"
TOKENIZERS = {"input_ids": "tokenizer", "input_ids_2": "tokenizer_2"}
REFERENCES = "references.npz"  # in a rehearsal: the references for its images
_CHECKPOINTS = ("stable_diffusion_fp16", "stable_diffusion_fp32", "SDXL/official_pytorch/fp16/stable_diffusion_fp16")
# A tokenizer is next to the captions, or else in a checkpoint in the scratch space.
_FOLDERS = ("", *(f"../../models/{name}/{part}" for name in _CHECKPOINTS for part in ("checkpoint_pipe/", "")))
_FIX = "`reconcile fetch stable-diffusion-xl` shows its source and location; nothing was prepared"


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write input_ids.npy and input_ids_2.npy int64 [captions, 77], latents.npy float32, negative.npz, and for a
    rehearsal the data of its score."""
    folder = require_source(source, CAPTIONS[0])
    generated = is_rehearsal(folder)
    captions = read_captions(find_file(folder, CAPTIONS, _FIX))
    if len(captions) != COUNT and not generated:
        raise HarnessError(f"{folder} has {len(captions)} captions, the set has {COUNT}", "input", _FIX)
    latents = read_latents(find_file(folder, LATENTS, _FIX))
    if not generated:
        check_latents(latents, folder)
    captions = captions[: choose_count(settings, len(captions))]
    against: dict[str, Any] = {}
    fix = f"copy the folders tokenizer and tokenizer_2 of the checkpoint to {folder}; nothing was prepared"
    for name, part in TOKENIZERS.items():
        vocabulary = find_file(folder, [f"{place}{part}/vocab.json" for place in _FOLDERS], fix)
        tokenizer = read_tokenizer(vocabulary.parent, _FIX)
        np.save(output / f"{name}.npy", encode_captions(tokenizer, captions))
        counter.bump(len(captions) // len(TOKENIZERS))
        against[name] = encode_captions(tokenizer, [AGAINST])
    save_shared(output, latents, against)
    if generated:
        shutil.copyfile(folder / REFERENCES, output / REFERENCES)


def read_captions(path: Path) -> list[str]:
    """Read captions in sample order. Raises HarnessError naming the row without one."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = [row.get("caption") for row in csv.DictReader(stream, delimiter="\t")]
    except (OSError, ValueError, csv.Error) as error:
        raise HarnessError(f"{path} cannot be read as a table: {error}", "input", _FIX) from error
    empty = next((number for number, caption in enumerate(rows, 2) if not caption), 0)
    if empty or not rows:
        raise HarnessError(f"{path}{f':{empty}' if empty else ''} has no caption", "input", _FIX)
    return [str(caption) for caption in rows]


def read_latents(path: Path) -> NDArray[np.float32]:
    """Read the reference's latents, as NumPy or PyTorch wrote them."""
    if path.suffix == ".pt":
        from harness.benchmarks.saved_tensors import read_tensor

        found = read_tensor(path, _FIX)
    else:
        found = load_npy(path, _FIX)
    if found.ndim != 4 or found.dtype != np.float32 or not np.isfinite(found).all():
        raise HarnessError(f"{path} contains {found.dtype} {list(found.shape)}, not latents", "input", _FIX)
    return np.ascontiguousarray(found)


def check_latents(latents: NDArray[np.float32], folder: Path) -> None:
    """Check that the latents are the reference's own, as a result requires."""
    if latents.shape != SHAPE:
        raise HarnessError(f"{folder} has latents {list(latents.shape)}, not {list(SHAPE)}", "input", _FIX)
    digest = hashlib.sha256(latents.tobytes()).hexdigest()
    if digest != LATENTS_SHA256:
        problem = f"{folder} differs from the reference's latents: their sha256 is {digest[:12]}…"
        raise HarnessError(problem, "input", _FIX)


# CLIP and Inception take gigabytes and are meaningless for generated captions. In a rehearsal the colours of a coarse
# grid replace those networks' features; the formulas are the script's. Statistics are chosen so that a rehearsal's own
# images get the reference model's score, so the round's accuracy limits apply to them.

CLIP_SCORE, FID_SCORE = 31.74981837, 23.48046692  # the reference model's scores, within the limits of every round
_CELLS = 4  # cells along each side of the grid
_NEAR = 2  # difference, out of 255, that rounding on another machine may cause

Features = NDArray[np.float64]


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return a rehearsal's FID_SCORE and CLIP_SCORE. Raises HarnessError for real captions, which the official script
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
        found.append(compute_colours(picture))
    features = np.stack(found)
    scores = {
        "FID_SCORE": f"{compute_distance(features, references['mean'], references['covariance']):.8f}",
        "CLIP_SCORE": f"{compute_likeness(features, references['features'][log.indices]):.8f}",
    }
    near = round(100 * near / len(found), 3)
    summary = f"A rehearsal: colours stand in for CLIP and Inception; {near:.3f}% of all values are as generated"
    (output / "accuracy.txt").write_text(f"{summary}\nAccuracy Results: {scores}\n", encoding="ascii")
    return {**{name: float(value) for name, value in scores.items()}, "near": near}


def compute_colours(picture: NDArray[np.uint8]) -> Features:
    """Compute the mean colours of a grid, 0 to 1, as a substitute for a network's features."""
    side = len(picture) // _CELLS
    cut = picture[: side * _CELLS, : side * _CELLS].astype(np.float64) / 255
    means: Features = cut.reshape(_CELLS, side, _CELLS, side, 3).mean(axis=(1, 3)).ravel()
    return means


def make_references(pictures: NDArray[np.uint8]) -> dict[str, np.ndarray]:
    """Make references with which images [n, side, side, 3] get the reference model's score."""
    features = np.stack([compute_colours(picture) for picture in pictures])
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
    rows = np.zeros((height, 1 + width * 3), np.uint8)  # each row follows the number of its filter, 0 for none
    rows[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, *_FORMAT)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )


PIPELINE = {"steps": 20, "guidance": 8.0}


class StableDiffusionXl(PipelineBenchmark):
    outputs = {"images": ((SIDE, SIDE, 3), "uint8")}
    pipeline = PIPELINE
    tokens = tuple(TOKENIZERS)
    build_dataset = staticmethod(build_dataset)
    score = staticmethod(score)

    def postprocess(self, outputs: Outputs) -> np.ndarray:
        """Convert images uint8 [n, height, width, 3], red first, to their bytes, as the accuracy script reads them."""
        return outputs[0].reshape(len(outputs[0]), -1)

    @staticmethod
    def show_answers(answers: Sequence[tuple[int, bytes]], folder: Path) -> None:
        """Write a PNG of each answer, named by its sample, since the round requires some of them."""
        for index, data in answers:
            (folder / f"{index}.png").write_bytes(encode_png(data))


BENCHMARK = StableDiffusionXl()
