"""BERT-Large on SQuAD v1.1: the F1 of the answers selected by start and end logits."""

from __future__ import annotations

import json
import re
import string
from collections import Counter as Tally
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import TensorBenchmark, copy_model
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.bert.spans import OUTPUTS, PACKING, RESPONSE_DTYPE, answer_all, postprocess
from harness.benchmarks.bert.squad import build_dataset, load_calibration, load_samples, load_texts
from harness.contract import Counter
from harness.errors import HarnessError

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_SIGNS = str.maketrans("", "", string.punctuation)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return percentages over all questions of the dataset: f1 and exact_match. A missing response counts as wrong."""
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
        raise HarnessError("a response does not contain pairs of float32", "input", "run accuracy again")
    return np.frombuffer(data, np.float32).reshape(-1, 2)


def simplify(text: str) -> str:
    """Normalise to lower case, without punctuation and articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_SIGNS)).split())


def compute_f1(answer: str, wanted: str) -> float:
    """Compute the F1 of the words that two answers share."""
    ours, theirs = simplify(answer).split(), simplify(wanted).split()
    same = sum((Tally(ours) & Tally(theirs)).values())
    if not same:
        return 0.0
    precision, recall = same / len(ours), same / len(theirs)
    return 2 * precision * recall / (precision + recall)


FORMATS = ("onnx", "pt2")


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Build the model. ``settings``: its format, "onnx", or "pt2" for the PyTorch backends."""
    wanted = str(settings.get("format", FORMATS[0]))
    if wanted not in FORMATS:
        problem = f"model.settings.format is {wanted!r}"
        raise HarnessError(problem, "input", f"use one of {', '.join(FORMATS)}")
    if source is None or source.suffix != ".onnx" or wanted == "onnx":
        copy_model(source, settings, inputs, output, counter)
        return
    from harness.benchmarks.bert.program import write_program

    write_program(source, output / "model.pt2")


class BertLarge(TensorBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    packing = PACKING
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    load_calibration = staticmethod(load_calibration)
    postprocess = staticmethod(postprocess)
    score = staticmethod(score)


BENCHMARK = BertLarge()
