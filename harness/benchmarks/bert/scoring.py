"""The F1 and exact match of SQuAD v1.1, in the line that the official script prints."""

from __future__ import annotations

import json
import re
import string
from collections import Counter as Tally
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.bert.spans import answer_all
from harness.benchmarks.bert.squad import load_texts
from harness.errors import HarnessError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_SIGNS = str.maketrans("", "", string.punctuation)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Percentages of all questions of the dataset: f1 and exact_match. One without a response counts as wrong."""
    texts = load_texts(dataset)
    logits = {int(index): _read(data) for index, data in zip(log.indices, log.data, strict=True)}
    found = answer_all(texts, logits)
    exact = f1 = 0.0
    for answer, question in zip(found, texts.questions, strict=True):
        exact += max(simplify(answer) == simplify(wanted) for wanted in question.answers)
        f1 += max(compute_f1(answer, wanted) for wanted in question.answers)
    metrics = {"exact_match": 100.0 * exact / len(found), "f1": 100.0 * f1 / len(found)}
    (output / "accuracy.txt").write_text(json.dumps(metrics) + "\n", encoding="ascii")
    return metrics


def _read(data: bytes) -> np.ndarray:
    if len(data) % 8:
        raise HarnessError("a response does not hold pairs of float32", "input", "run accuracy again")
    return np.frombuffer(data, np.float32).reshape(-1, 2)


def simplify(text: str) -> str:
    """Lower case, without signs and articles, one space between words."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_SIGNS)).split())


def compute_f1(answer: str, wanted: str) -> float:
    """Compute the F1 of the words that two answers share."""
    ours, theirs = simplify(answer).split(), simplify(wanted).split()
    same = sum((Tally(ours) & Tally(theirs)).values())
    if not same:
        return 0.0
    precision, recall = same / len(ours), same / len(theirs)
    return 2 * precision * recall / (precision + recall)
