"""Generate a SQuAD-like dataset whose windows have the requested lengths, for BERT without padding.

The published development set has 10,833 windows of 30 to 384 tokens, 178 on average. Lengths are drawn from a gamma
distribution with that mean and a deviation of 65, clipped at both ends.
"""

from __future__ import annotations

import json
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.bert.squad import COUNT, QUESTIONS, VOCABULARY
from harness.benchmarks.sources import REHEARSAL

MEAN, DEVIATION, SHORTEST, LONGEST = 178, 65, 30, 384
WORDS = 30_522  # of the published vocabulary
ASKED = 12  # tokens of a question
_MARKS = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]"}
FIRST = 104  # number of the first word


def draw_lengths(rng: np.random.Generator, count: int) -> np.ndarray:
    shape = (MEAN / DEVIATION) ** 2
    drawn = rng.gamma(shape, MEAN / shape, count).round()
    return np.clip(drawn, SHORTEST, LONGEST).astype(int)


def make_vocabulary(count: int = WORDS) -> list[str]:
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
    words = ("".join(parts) for parts in product(syllables, repeat=3))
    marks = [_MARKS.get(number, f"[unused{number}]") for number in range(FIRST)]
    return [*marks, ".", *islice(words, count - FIRST - 1)]


def write_texts(folder: Path, count: int = COUNT, seed: int = 1) -> None:
    """Write one question per passage. Each word is one token."""
    rng = np.random.default_rng(seed)
    vocabulary = make_vocabulary()
    words = np.array(vocabulary[FIRST + 1 :])
    paragraphs = []
    for number, length in enumerate(draw_lengths(rng, count).tolist()):
        drawn = words[rng.integers(0, len(words), length - 3)].tolist()  # with [CLS] and two [SEP]
        asked = [
            {
                "id": f"{number:024x}",
                "question": " ".join(drawn[:ASKED]),
                "answers": [{"text": drawn[ASKED], "answer_start": 0}],
            }
        ]
        paragraphs.append({"context": " ".join(drawn[ASKED:]), "qas": asked})
    write_squad(folder, vocabulary, paragraphs)


def write_squad(folder: Path, vocabulary: list[str], paragraphs: list[dict[str, Any]]) -> None:
    (folder / VOCABULARY).write_text("".join(f"{word}\n" for word in vocabulary), encoding="utf-8")
    document = {"version": "1.1", "data": [{"title": "Made up", "paragraphs": paragraphs}]}
    (folder / QUESTIONS).write_text(json.dumps(document), encoding="utf-8")
    (folder / REHEARSAL).write_text("{}", encoding="ascii")
