"""Generate a small SQuAD of invented words, and a small network of the reference's kind that finds answers in it.

The answers are the network's own in fp32. It never selects punctuation, which an answer's score ignores.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.bert import answer_all, postprocess
from harness.benchmarks.bert.network import NetworkSize, draw_weights, write_network
from harness.benchmarks.bert.squad import CALIBRATION, QUESTIONS, VOCABULARY, build_dataset, load_samples, load_texts
from harness.benchmarks.network_builder import NetworkSession
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter

MODEL = "bert_large_v1_1.onnx"
_MARKS = {
    0: "[PAD]",
    100: "[UNK]",
    101: "[CLS]",
    102: "[SEP]",
    103: "[MASK]",
}  # at their positions in the published vocabulary
_SYLLABLES = [a + b for a in "bcdfglmnprstv" for b in ("a", "e", "i", "o", "u", "ar", "en", "is")]
_SIGNS = (".", ",", "?", "(", ")", "-", "'")
_CALIBRATED = 64  # windows
_SIZES = {"small": NetworkSize(1, 64, 128), "full": NetworkSize(24, 1024, 4096)}


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    """Write ``count`` questions, four to a passage; every eighth passage is longer than one window."""
    rng = np.random.default_rng(seed)
    vocabulary = [_MARKS.get(number, f"[unused{number}]") for number in range(104)]
    vocabulary += [*_SIGNS, *_SYLLABLES, *(f"##{syllable}" for syllable in _SYLLABLES)]
    (data / VOCABULARY).write_text("".join(f"{word}\n" for word in vocabulary), encoding="utf-8")
    avoided = [word in _SIGNS or word.startswith("[") for word in vocabulary]
    write_network(models / MODEL, draw_weights(rng, avoided, _SIZES[size]))
    document = _write_questions(rng, count)
    (data / QUESTIONS).write_text(json.dumps(document), encoding="utf-8")
    (data / REHEARSAL).write_text("{}", encoding="utf-8")
    (data / CALIBRATION).write_text("".join(f"{row}\n" for row in range(min(count, _CALIBRATED))), encoding="ascii")
    answers = _answer(data, models / MODEL, counter)
    asked = (qa for article in document["data"] for paragraph in article["paragraphs"] for qa in paragraph["qas"])
    for qa, answer in zip(asked, answers, strict=True):
        qa["answers"] = [{"text": answer, "answer_start": 0}]
    (data / QUESTIONS).write_text(json.dumps(document), encoding="utf-8")


def _write_questions(rng: np.random.Generator, count: int) -> dict[str, Any]:
    paragraphs = []
    for number, first in enumerate(range(0, count, 4)):
        length = 260 if number % 8 == 7 else int(rng.integers(40, 110))
        asked = [
            {"id": f"{first + i:024x}", "question": _make_text(rng, int(rng.integers(5, 15))) + "?", "answers": []}
            for i in range(min(4, count - first))
        ]
        paragraphs.append({"context": _make_text(rng, length), "qas": asked})
    return {"version": "1.1", "data": [{"title": "Rehearsal", "paragraphs": paragraphs}]}


def _make_text(rng: np.random.Generator, words: int) -> str:
    """Make text with capitals, accents and punctuation, which the tokenizer removes or splits off."""
    found = []
    for _ in range(words):
        word = "".join(rng.choice(_SYLLABLES, int(rng.integers(1, 4))))
        word = word.replace("e", "é") if rng.random() < 0.05 else word
        word = word.capitalize() if rng.random() < 0.2 else word
        found.append(word + (str(rng.choice([".", ",", " -", "'s"])) if rng.random() < 0.15 else ""))
    return " ".join(found)


def _answer(data: Path, model: Path, counter: Counter) -> list[str]:
    """Answer with the same preparation as in any run."""
    session = NetworkSession(model)
    with tempfile.TemporaryDirectory() as folder:
        build_dataset(data, {}, Path(folder), counter)
        samples, texts = load_samples(Path(folder)), load_texts(Path(folder))
        counter.stage("building", len(texts.windows))
        logits = {}
        for row in range(len(texts.windows)):
            feed = {name: np.asarray(array[row : row + 1]) for name, array in samples.items()}
            (logits[row],) = postprocess(session.compute(feed))
            counter.bump(1)
        return answer_all(texts, logits)
