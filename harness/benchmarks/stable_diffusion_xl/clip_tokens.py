"""Captions for the pipeline's two text encoders: 77 CLIP tokens each.

The vocabulary and the merges are the checkpoint's; words are split as in CLIP. The reference gets the same tokens from
transformers.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from harness.benchmarks.sources import read_json
from harness.errors import HarnessError

LENGTH = 77  # tokens; the first and the last one mark the ends
BEGIN, END = "<|startoftext|>", "<|endoftext|>"
_WORD_END = "</w>"
_WORDS = Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")


def encode_captions(tokenizer: Tokenizer, captions: Sequence[str]) -> NDArray[np.int64]:
    """Return [captions, 77]; longer captions are truncated, shorter ones padded."""
    return np.array([found.ids for found in tokenizer.encode_batch(list(captions))], np.int64)


def read_tokenizer(folder: Path, fix: str) -> Tokenizer:
    """Read the tokenizer in a checkpoint's folder. Raises HarnessError naming the file that is missing or broken."""
    vocabulary = read_json(folder / "vocab.json", fix)
    try:
        lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise HarnessError(f"{folder / 'merges.txt'}: {error.strerror}", "missing", fix) from error
    except UnicodeDecodeError as error:
        raise HarnessError(f"{folder / 'merges.txt'} is damaged: {error}", "input", fix) from error
    try:
        pairs = (line.split() for line in lines if line.strip() and not line.startswith("#version"))
        merges = [(first, second) for first, second in pairs]
        marks = [(mark, vocabulary[mark]) for mark in (BEGIN, END)]
        padding = _read_padding(folder, fix)
        pad_id = vocabulary[padding]
        model = BPE(vocabulary, merges, unk_token=END, end_of_word_suffix=_WORD_END)
    except HarnessError:
        raise
    except Exception as error:  # the library raises nothing more specific
        raise HarnessError(f"{folder} is not a CLIP tokenizer: {error}", "input", fix) from error
    words = Tokenizer(model)
    words.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_WORDS, behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    words.add_special_tokens([BEGIN, END])
    words.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A {END}", special_tokens=marks)
    words.enable_truncation(LENGTH)
    words.enable_padding(length=LENGTH, pad_id=pad_id, pad_token=padding)
    return words


def _read_padding(folder: Path, fix: str) -> str:
    """Return the padding token. This is the end token for the first encoder, and the exclamation mark for the
    second."""
    found = read_json(folder / "special_tokens_map.json", fix).get("pad_token", END)
    return str(found["content"] if isinstance(found, dict) else found)


COLUMNS = ("id", "image_id", "caption", "height", "width", "file_name", "coco_url")
_LEARNED = 200  # merges
_SUBJECTS = ("man", "woman", "dog", "cat", "train", "bicycle", "giraffe", "plate of food", "child", "bus")
_LOOKS = ("small", "red", "wooden", "young", "large", "brown-and-white", "tall", "wet", "20-year-old", "sleeping")
_DOINGS = ("standing", "sitting", "that's parked", "looking up", "resting", "waiting", "on display", "moving")
_PLACES = ("in a field", "on the beach", "near a table", "under an umbrella", "beside two others", "at night")


def write_captions(path: Path, count: int, seed: int) -> list[str]:
    """Write the captions in the reference's format; one is longer than the text encoders' input."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True)
    captions = [_compose(rng) for _ in range(count)]
    captions[-1] = " ".join(_compose(rng) for _ in range(LENGTH // 6))
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, delimiter="\t", lineterminator="\n")
        table.writerow(COLUMNS)
        for number, caption in enumerate(captions):
            name = f"COCO_val2014_{number:012d}.jpg"
            table.writerow([number, number, caption, 480, 640, name, ""])
    return captions


def _compose(rng: np.random.Generator) -> str:
    subject, look, doing, place = (str(rng.choice(words)) for words in (_SUBJECTS, _LOOKS, _DOINGS, _PLACES))
    return f"A {look} {subject} {doing} {place}."


def write_tokenizer(folder: Path, captions: Sequence[str], part: str) -> int:
    """Write a tokenizer; return its number of tokens. The second tokenizer pads with the exclamation mark, CLIP's first
    token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = ["!", *(letter for letter in alphabet if letter != "!")]
    merges = learn_merges(captions)
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), *("".join(pair) for pair in merges), BEGIN, END]
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    (folder / "vocab.json").write_text(json.dumps(numbers, ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    padding = END if part == "tokenizer" else "!"
    marks = {"bos_token": BEGIN, "eos_token": END, "unk_token": END, "pad_token": padding}
    (folder / "special_tokens_map.json").write_text(json.dumps(marks), encoding="utf-8")
    facts = {**marks, "tokenizer_class": "CLIPTokenizer", "model_max_length": LENGTH, "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts), encoding="utf-8")
    return len(numbers)


def learn_merges(captions: Sequence[str]) -> list[tuple[str, str]]:
    learner = Tokenizer(BPE(end_of_word_suffix="</w>"))
    learner.normalizer = normalizers.Lowercase()
    learner.pre_tokenizer = pre_tokenizers.Whitespace()
    learner.train_from_iterator(
        captions, BpeTrainer(vocab_size=_LEARNED, end_of_word_suffix="</w>", show_progress=False)
    )
    return [(first, second) for first, second in json.loads(learner.to_str())["model"]["merges"]]
