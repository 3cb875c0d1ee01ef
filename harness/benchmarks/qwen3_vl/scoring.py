"""The bytes of an answer, and the scores of answers, as in the reference's evaluation.py.

The rules only use the category's score. An answer without the requested JSON has no category, no brand, and the wrong
condition; the reference chooses the condition at random, with seeds that depend on the machine's processors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.benchmarks.accuracy import AnswerLog

REFERENCES = "references.json"
_LEVELS = " > "
_ALIKE = 0.9  # of two brands


class ProductAnswer(BaseModel):
    """The requested answer. Its library decides what is valid JSON, as in the reference."""

    model_config = ConfigDict(extra="forbid")

    category: str
    brand: str
    is_secondhand: bool


def write_text(text: str) -> NDArray[np.uint8]:
    """Encode as UTF-8, without a server's incomplete characters."""
    return np.array(bytearray(text.encode("utf-8", "replace")), np.uint8)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    references = json.loads((dataset / REFERENCES).read_text(encoding="utf-8"))
    indices = log.indices.tolist()
    categories, brands, conditions = ([references[name][index] for index in indices] for name in COLUMNS)
    answers = [read_answer(data) for data in log.data]
    said = {name: [getattr(answer, name, None) for answer in answers] for name in ProductAnswer.model_fields}
    scores = {
        "f1": score_categories(said["category"], categories),
        "brand_f1": score_brands(said["brand"], brands),
        "is_secondhand_f1": score_conditions(said["is_secondhand"], conditions),
        "unparsable": answers.count(None),
    }
    summary = f"Brand F1 {scores['brand_f1']}, is_secondhand F1 {scores['is_secondhand_f1']}"
    lines = [
        "Results",
        "",
        json.dumps({"f1": scores["f1"]}),
        "",
        summary,
        f"{scores['unparsable']} answers are not JSON",
    ]
    (output / "accuracy.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return scores


COLUMNS = ("ground_truth_category", "ground_truth_brand", "ground_truth_is_secondhand")
"""Scored columns of a row."""


def read_answer(data: bytes) -> ProductAnswer | None:
    """Read an answer; None if it is not the requested JSON."""
    try:
        return ProductAnswer.model_validate_json(data)
    except ValidationError:
        return None


def score_categories(found: Sequence[str | None], wanted: Sequence[str]) -> float:
    """Return the F1 over the levels of all categories: those right from the first on, predicted ones and true ones."""
    right = said = true = 0
    for category, truth in zip(found, wanted, strict=True):
        levels = [level.strip() for level in truth.split(_LEVELS)]
        guesses = [level.strip() for level in category.split(_LEVELS)] if category is not None else []
        right += count_common(guesses, levels)
        said += len(guesses) if category is not None else len(levels)
        true += len(levels)
    precision, recall = right / said, right / true
    return 2 * (precision * recall) / (precision + recall) if right else 0.0


def count_common(guesses: Sequence[str], levels: Sequence[str]) -> int:
    """Count from the first level on."""
    for count, (guess, level) in enumerate(zip(guesses, levels, strict=False)):
        if guess != level:
            return count
    return min(len(guesses), len(levels))


def score_brands(found: Sequence[str | None], wanted: Sequence[str]) -> float:
    """Return the share of equal brands, with one different letter in ten allowed."""
    pairs = zip(found, wanted, strict=True)
    right = sum(
        brand is not None and compute_likeness(brand.strip().lower(), truth.strip().lower()) > _ALIKE
        for brand, truth in pairs
    )
    return right / len(wanted)


def compute_likeness(first: str, second: str) -> float:
    """Return 1 minus the number of deleted and inserted letters, divided by all letters of both texts."""
    size = len(first) + len(second)
    return 1 - (size - 2 * count_shared(first, second)) / size if size else 1.0


def count_shared(first: str, second: str) -> int:
    """Return the length of the longest common subsequence. Each row of the usual table is one integer, whose bits are 0
    where a letter is added (Hyyrö, 2004)."""
    places: dict[str, int] = {}
    for place, letter in enumerate(first):
        places[letter] = places.get(letter, 0) | 1 << place
    whole = (1 << len(first)) - 1
    row = whole
    for letter in second:
        met = row & places.get(letter, 0)
        row = (row + met | row - met) & whole
    return len(first) - row.bit_count()


def score_conditions(found: Sequence[bool | None], wanted: Sequence[bool]) -> float:
    """Return the F1 of second-hand products; 0 if there are none, or none are predicted."""
    pairs = [(not truth if said is None else said, truth) for said, truth in zip(found, wanted, strict=True)]
    right = sum(said and truth for said, truth in pairs)
    of = sum(said + truth for said, truth in pairs)
    return 2 * right / of if of else 0.0
