"""The reference's selection of VBench's prompts, with its latent, in their usual layout on disk."""

from __future__ import annotations

import hashlib
import html
import itertools
import re
import shutil
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

from harness.benchmarks.pipeline_samples import find_file, save_shared
from harness.benchmarks.sources import choose_count, is_rehearsal, require_source
from harness.contract import Counter
from harness.errors import HarnessError

PROMPTS = ("vbench_prompts.txt", "prompts.txt", "data/vbench_prompts.txt")
LATENT = ("fixed_latent.pt", "data/fixed_latent.pt")
COUNT = 248
PROMPTS_SHA256 = "f45433f7d3f6ac055613bb36ea21f38120e3cb5873d91f7e621477761b7284e8"  # of the reference's file
LATENT_SIZE = 9_678_476  # bytes
LATENT_BLOB = "7c88cf35aa26a98e81a432a8cea22ba5f6b8ef04"  # the file's name in git, in the reference's repository
# The reference's inference_config.yaml, on one line.
AGAINST = (
    "vivid colors, overexposed, static, blurry details, subtitles, style, work of art, painting, picture, still, "
    "overall grayish, worst quality, low quality, JPEG artifacts, ugly, deformed, extra fingers, poorly drawn hands, "
    "poorly drawn face, deformed, disfigured, deformed limbs, fused fingers, static image, cluttered background, three "
    "legs, many people in the background, walking backwards"
)
TOKENIZER = "tokenizer"
TOKENS = ("input_ids", "attention_mask")
WRITTEN = "prompts.txt"  # in the prepared dataset: the prompts that the score needs
REFERENCES = "references"  # in a rehearsal: the reference videos for its answers
# The tokenizer is next to the prompts, or else in a checkpoint in the scratch space.
_FOLDERS = ("", "../../models/Wan2.2-T2V-A14B-Diffusers/", "../../models/wan22-a14b/Wan2.2-T2V-A14B-Diffusers/")
_FIX = "`reconcile fetch wan-2.2-t2v-a14b` shows its source and location; nothing was prepared"


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write input_ids.npy and attention_mask.npy int64 [prompts, 512], latents.npy float32, negative.npz, prompts.txt,
    and for a rehearsal the videos of its score."""
    folder = require_source(source, PROMPTS[0])
    generated = is_rehearsal(folder)
    found, latent = (find_file(folder, names, _FIX) for names in (PROMPTS, LATENT))
    prompts = read_prompts(found)
    if not generated:
        check_prompts(prompts, found)
        check_latent_file(latent)
    fix = f"copy the folder {TOKENIZER} of the checkpoint to {folder}; nothing was prepared"
    words = find_file(folder, [f"{place}{TOKENIZER}/{FILE}" for place in _FOLDERS], fix)
    tokenizer = read_tokenizer(words.parent, _FIX)
    start = read_latent(latent)
    prompts = prompts[: choose_count(settings, len(prompts))]
    for name, rows in zip(TOKENS, encode_prompts(tokenizer, prompts), strict=True):
        np.save(output / f"{name}.npy", rows)
    against: dict[str, Any] = dict(zip(TOKENS, encode_prompts(tokenizer, [AGAINST]), strict=True))
    save_shared(output, start, against)
    (output / WRITTEN).write_text("\n".join([*prompts, ""]), encoding="utf-8")
    if generated:
        shutil.copytree(folder / REFERENCES, output / REFERENCES)
    counter.bump(len(prompts))


def read_prompts(path: Path) -> list[str]:
    """Read prompts in sample order: the non-empty lines, as in the reference."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise HarnessError(f"{path} cannot be read: {error}", "input", _FIX) from error
    prompts = [line.strip() for line in lines if line.strip()]
    if not prompts:
        raise HarnessError(f"{path} has no prompts", "input", _FIX)
    return prompts


def check_prompts(prompts: Sequence[str], path: Path) -> None:
    """Check that the prompts are the reference's own, complete and in order, as a result requires."""
    if len(prompts) != COUNT:
        message = "is truncated" if len(prompts) < COUNT else "has too many"
        raise HarnessError(f"{path} {message}: {len(prompts)} prompts, the set has {COUNT}", "input", _FIX)
    digest = hashlib.sha256("\n".join([*prompts, ""]).encode()).hexdigest()
    if digest != PROMPTS_SHA256:
        problem = f"{path} differs from the reference's prompts or their order: sha256 {digest[:12]}…"
        raise HarnessError(problem, "input", _FIX)


def check_latent_file(path: Path) -> None:
    """Check that the latent is the reference's own, as a result requires. The only published digest is the file's name
    in git."""
    data = path.read_bytes()
    if len(data) < LATENT_SIZE:
        raise HarnessError(f"{path} is truncated: {len(data)} bytes of {LATENT_SIZE}", "input", _FIX)
    digest = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    if digest != LATENT_BLOB:
        problem = f"{path} differs from the reference's latent: its git id is {digest[:12]}…"
        raise HarnessError(problem, "input", _FIX)


def read_latent(path: Path) -> NDArray[np.float32]:
    """Read the latent in the pipeline's type, regardless of the saved one."""
    from harness.benchmarks.saved_tensors import read_tensor

    found = read_tensor(path, _FIX)
    if found.ndim != 5 or not np.isfinite(found).all():
        raise HarnessError(f"{path} contains {found.dtype} {list(found.shape)}, not a video latent", "input", _FIX)
    return np.ascontiguousarray(found, np.float32)


# Prompts for the pipeline's text encoder: 512 UMT5 tokens each, and which of them belong to the prompt.
#
# The tokenizer is the checkpoint's own file. The library cleans prompts first; the reference gets the same from
# transformers and the library.

LENGTH = 512  # tokens, the default of the library's pipeline
FILE = "tokenizer.json"
PADDING = "<pad>"


def encode_prompts(tokenizer: Tokenizer, prompts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return tokens [prompts, 512], and 1 for those that belong to the prompt; longer prompts are truncated."""
    found = tokenizer.encode_batch([clean_prompt(prompt) for prompt in prompts])
    ids, mask = ([getattr(tokens, part) for tokens in found] for part in ("ids", "attention_mask"))
    return np.array(ids, np.int64), np.array(mask, np.int64)


def clean_prompt(prompt: str) -> str:
    """Clean a prompt like the library's pipeline, which also repairs broken Unicode; the reference's prompts contain
    none."""
    return re.sub(r"\s+", " ", html.unescape(html.unescape(prompt))).strip()


def read_tokenizer(folder: Path, fix: str) -> Tokenizer:
    """Read the tokenizer. Raises HarnessError if the file is truncated, or without a padding token."""
    path = folder / FILE
    try:
        words = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HarnessError(f"{path} cannot be read: {error}", "missing", fix) from error
    except Exception as error:  # the library raises nothing more specific
        raise HarnessError(f"{path} is truncated or not a tokenizer's: {error}", "input", fix) from error
    padding = words.token_to_id(PADDING)
    if padding is None:
        raise HarnessError(f"{path} has no token {PADDING}, so it is not UMT5's", "input", fix)
    words.enable_truncation(LENGTH)
    words.enable_padding(length=LENGTH, pad_id=padding, pad_token=PADDING)
    return words


END, UNKNOWN = "</s>", "<unk>"
_SUBJECTS = ("a person", "a dog", "an elephant", "a car", "a boat", "a panda", "a train", "an astronaut", "a cow")
_DOINGS = ("drinking water", "turning a corner", "crossing a bridge", "running fast", "standing still", "looking up")
_PLACES = ("in the rain", "at night", "near the harbour", "on a beach", "in front of a castle")
_STYLES = ("", ", pixel art", ", watercolor painting", ", black and white", ", in cyberpunk style", ", animated style")
_WORD, _LETTER = -5.0, -12.0  # log-likelihood of a piece, which prefers words to letters


def write_prompts(path: Path, count: int, seed: int) -> list[str]:
    """Write prompts in the reference's format: one per line, without repeats until all available ones are used."""
    phrases = [" ".join(parts) for parts in itertools.product(_SUBJECTS, _DOINGS, _PLACES)]
    known = ["".join(parts) for parts in itertools.product(phrases, _STYLES)]
    order = np.random.default_rng(seed).permutation(len(known))
    prompts = [known[order[number % len(known)]] for number in range(count)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*prompts, ""]), encoding="utf-8")
    return prompts


def write_tokenizer(folder: Path, texts: Sequence[str]) -> int:
    """Write a tokenizer; return the number of its tokens. These are the words of the texts, and letters for all other
    words."""
    words = sorted({word for text in texts for word in text.replace(",", " ,").split()})
    pieces = [*((f"▁{word}", _WORD) for word in words), *((letter, _LETTER) for letter in f"▁{string.printable[:95]}")]
    marks = [(mark, 0.0) for mark in (PADDING, END, UNKNOWN)]
    tokens = list(dict([*marks, *pieces]).items())
    tokenizer = Tokenizer(Unigram(tokens, 2, False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, 1)])
    tokenizer.add_special_tokens([PADDING, END, UNKNOWN])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / FILE))
    return len(tokens)
