"""BERT-Large on SQuAD v1.1: the F1 of the answers selected by start and end logits."""

from __future__ import annotations

import json
import re
import string
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark, copy_model
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.bert.squad import (
    LENGTH,
    Passage,
    SquadTexts,
    Window,
    build_dataset,
    find_widest,
    join_pieces,
    load_calibration,
    load_samples,
    load_texts,
)
from harness.benchmarks.sources import choose_setting
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.packing import Packing

# Find an answer's text from logits, as the official script does.

BEST = 20  # number of starts and ends considered
LONGEST = 30  # tokens of an answer
NOTHING = "empty"  # the answer if no span remains

Logits = Mapping[int, np.ndarray]
"""Maps a window to its logits, float [at most 384, 2]."""


def answer_all(texts: SquadTexts, logits: Logits) -> list[str]:
    """Return the answer to each question, in order."""
    windows: dict[int, list[int]] = {}
    for number, window in enumerate(texts.windows):
        windows.setdefault(window.question, []).append(number)
    split = make_splitter()
    return [
        _answer(
            [(texts.windows[w], logits.get(w)) for w in windows.get(number, ())], texts.passages[item.passage], split
        )
        for number, item in enumerate(texts.questions)
    ]


def _answer(
    windows: Sequence[tuple[Window, np.ndarray | None]], passage: Passage, split: Callable[[str], list[str]]
) -> str:
    """Choose the span with the highest sum of logits. Ties go to the first window, then to the likelier start."""
    widest = find_widest([window for window, _ in windows])
    best: tuple[float, int, int] | None = None
    for number, (window, logits) in enumerate(windows):
        if logits is None:
            continue
        found = _find_span(window, logits, {token for token, at in widest.items() if at == number})
        if found and (best is None or found[0] > best[0]):
            best = found
    if best is None:
        return NOTHING
    _, start, end = best
    words = passage.words[passage.origins[start] : passage.origins[end] + 1]
    return restore(join_pieces(passage.pieces[start : end + 1]), " ".join(words), split)


def _find_span(window: Window, logits: np.ndarray, allowed: set[int]) -> tuple[float, int, int] | None:
    """Return (sum of logits, first and last passage token) of the best span that starts at an ``allowed`` token."""
    padded = np.full((LENGTH, 2), -10000.0)
    padded[: len(logits)] = logits
    starts, ends = (np.argsort(-padded[:, column], kind="stable")[:BEST] for column in (0, 1))
    first, end = window.offset, window.offset + window.length
    fits_start = np.array([first <= s < end and s - first + window.start in allowed for s in starts.tolist()])
    fits_end = (ends >= first) & (ends < end)
    span = ends[None, :] - starts[:, None]
    fits = fits_start[:, None] & fits_end[None, :] & (span >= 0) & (span < LONGEST)
    if not fits.any():
        return None
    sums = np.where(fits, padded[starts, 0][:, None] + padded[ends, 1][None, :], -np.inf)
    row, column = np.unravel_index(int(sums.argmax()), sums.shape)
    shift = window.start - first
    return float(sums[row, column]), int(starts[row]) + shift, int(ends[column]) + shift


def make_splitter() -> Callable[[str], list[str]]:
    """Return a function that splits text into lower-case words and punctuation, as BERT does before it makes pieces."""
    normalizer, cut = BertNormalizer(lowercase=True), BertPreTokenizer()
    return lambda text: [word for word, _ in cut.pre_tokenize_str(normalizer.normalize_str(text))]


def restore(answer: str, written: str, split: Callable[[str], list[str]]) -> str:
    """Find the part of ``written`` that matches ``answer`` (lower case, without accents); all of it if they cannot be
    aligned."""
    plain = " ".join(split(written))
    at = plain.find(answer)
    if at < 0:
        return written
    ours, theirs = _list_positions(plain), _list_positions(written)
    if len(ours) != len(theirs):
        return written
    place = {position: number for number, position in enumerate(ours)}
    first, last = place.get(at), place.get(at + len(answer) - 1)
    if first is None or last is None:
        return written
    return written[theirs[first] : theirs[last] + 1]


def _list_positions(text: str) -> list[int]:
    return [position for position, character in enumerate(text) if character != " "]


# Bytes of a response: for each of the 384 tokens, how likely an answer starts and how likely one ends there.

OUTPUTS = {"output_start_logits": ((LENGTH,), "float32"), "output_end_logits": ((LENGTH,), "float32")}
PACKING = Packing("input_mask", ("input_ids", "segment_ids"), LENGTH, fill=-10000.0)  # as in the reference


def postprocess(outputs: Outputs) -> np.ndarray:
    """Convert start and end logits, each [n, 384], or both as [n, 384, 2], to float32 [n, 384, 2] for the official
    script."""
    if len(outputs) == 2:
        both = np.stack([np.asarray(output).reshape(len(output), -1) for output in outputs], axis=-1)
    else:
        both = np.asarray(outputs[0])
    if both.shape[1:] != (LENGTH, 2):
        problem = f"the model returns {list(both.shape[1:])} per sample, not start and end logits of {LENGTH} tokens"
        raise HarnessError(problem, "input", "use the reference's BERT, or one with its outputs")
    return both.astype(np.float32, copy=False)


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_SIGNS = str.maketrans("", "", string.punctuation)


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return percentages over all questions of the dataset: f1 and exact_match. A missing response counts as a wrong
    answer."""
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


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    wanted = choose_setting("model", settings, "format", ("onnx", "pt2"))
    if source is None or source.suffix != ".onnx" or wanted == "onnx":
        copy_model(source, settings, inputs, output, counter)
        return
    from harness.benchmarks.bert.program import write_program

    write_program(source, output / "model.pt2")


class BertLarge(TensorBenchmark):
    outputs = OUTPUTS
    response_dtype = "float32"
    packing = PACKING
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    load_calibration = staticmethod(load_calibration)
    postprocess = staticmethod(postprocess)
    score = staticmethod(score)


BENCHMARK = BertLarge()
