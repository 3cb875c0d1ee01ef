"""The reference's selection of captions from COCO 2014, with its latents, in their usual layout on disk.

All images start from the same latents and have the same negative prompt, which samples share.
"""

from __future__ import annotations

import csv
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks import pipeline_samples
from harness.benchmarks.mapped_arrays import load_npy
from harness.benchmarks.pipeline_samples import find_file, load_tokens, save_shared
from harness.benchmarks.sources import choose_count, is_rehearsal, require_source
from harness.benchmarks.stable_diffusion_xl.clip_tokens import CaptionTokenizer, read_tokenizer
from harness.contract import Counter
from harness.errors import HarnessError

CAPTIONS = ("captions/captions.tsv", "captions/captions_source.tsv", "captions_source.tsv", "captions.tsv")
LATENTS = tuple(f"{folder}latents.{kind}" for folder in ("latents/", "") for kind in ("npy", "pt"))
COUNT = 5000
SHAPE = (1, 4, 128, 128)
LATENTS_SHA256 = "ea2c5d770d8921c79b43fade2dcecab9c95baae0500f5a2bc860ceb45faeccb1"  # of the latents' bytes as float32
AGAINST = "normal quality, low quality, worst quality, low res, blurry, nsfw, nude"
TOKENIZERS = {"input_ids": "tokenizer", "input_ids_2": "tokenizer_2"}
REFERENCES = "references.npz"  # of a rehearsal: references for its images
_CHECKPOINTS = ("stable_diffusion_fp16", "stable_diffusion_fp32", "SDXL/official_pytorch/fp16/stable_diffusion_fp16")
_FIX = "`reconcile fetch stable-diffusion-xl` shows its source and location; nothing was prepared"


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write input_ids.npy and input_ids_2.npy int64 [captions, 77], latents.npy float32, negative.npz, and for a
    rehearsal the data of its score.

    ``settings``: count (number of captions, from the first).
    """
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
    for name, part in TOKENIZERS.items():
        tokenizer = read_tokenizer(find_tokenizer(folder, part), _FIX)
        np.save(output / f"{name}.npy", encode_all(tokenizer, captions, counter))
        against[name] = tokenizer.encode([AGAINST])
    save_shared(output, latents, against)
    if generated:
        shutil.copyfile(folder / REFERENCES, output / REFERENCES)


def load_samples(dataset: Path) -> Mapping[str, Any]:
    return load_tokens(dataset, tuple(TOKENIZERS))


def load_shared(dataset: Path) -> Mapping[str, np.ndarray]:
    """Load "latents" [1, channels, height, width], and the tokens of the negative prompt."""
    return pipeline_samples.load_shared(dataset, tuple(TOKENIZERS))


def find_tokenizer(folder: Path, part: str) -> Path:
    """Find the tokenizer in the folder of the captions, otherwise in a checkpoint of the scratch space."""
    checkpoints = [folder / "../../models" / name for name in _CHECKPOINTS]
    places = [folder, *(path for base in checkpoints for path in (base / "checkpoint_pipe", base))]
    found = next((place / part for place in places if (place / part / "vocab.json").is_file()), None)
    if found is None:
        fix = f"copy the folders tokenizer and tokenizer_2 of the checkpoint to {folder}; nothing was prepared"
        raise HarnessError(f"{folder} has no {part}/vocab.json", "missing", fix)
    return found


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


def encode_all(tokenizer: CaptionTokenizer, captions: Sequence[str], counter: Counter) -> NDArray[np.int64]:
    found = tokenizer.encode(captions)
    counter.bump(len(captions) // len(TOKENIZERS))
    return found
