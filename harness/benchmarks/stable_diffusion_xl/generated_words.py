"""Generated captions, and a vocabulary of CLIP's kind that is learned from them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from harness.benchmarks.stable_diffusion_xl.clip_tokens import BEGIN, END, LENGTH

COLUMNS = ("id", "image_id", "caption", "height", "width", "file_name", "coco_url")
_LEARNED = 200  # merges
_SUBJECTS = ("man", "woman", "dog", "cat", "train", "bicycle", "giraffe", "plate of food", "child", "bus")
_LOOKS = ("small", "red", "wooden", "young", "large", "brown-and-white", "tall", "wet", "20-year-old", "sleeping")
_DOINGS = ("standing", "sitting", "that's parked", "looking up", "resting", "waiting", "on display", "moving")
_PLACES = ("in a field", "on the beach", "near a table", "under an umbrella", "beside two others", "at night")


def write_captions(path: Path, count: int, seed: int) -> list[str]:
    """As the reference has them; one is longer than the text encoders read."""
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
    """How many tokens there are. The second tokenizer fills up with the exclamation mark, CLIP's first token."""
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
