"""Convert the published SQuAD v1.1 files to the inputs of the reference's network.

The result equals that of language/bert of mlcommons/inference, token for token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    choose_dtype,
    is_rehearsal,
    read_json,
    read_list,
    read_sums,
    require_source,
)
from harness.contract import Counter
from harness.errors import HarnessError

# Convert a question and a passage to samples of 384 tokens: a long passage becomes several windows.
#
# The rules are those of BERT's original preparation of SQuAD: at most 64 tokens of a question, windows 128 tokens
# apart.

LENGTH = 384
QUESTION = 64  # tokens that are kept of a question
STRIDE = 128
_ADDED = 3  # tokens: [CLS] question [SEP] passage [SEP]
_SPACES = frozenset(" \t\r\n\u202f")


class Window(NamedTuple):
    """``question``: the question's number; ``asked``: the number of its tokens; ``start`` and ``length``: the range of
    the passage's tokens."""

    question: int
    asked: int
    start: int
    length: int

    @property
    def offset(self) -> int:
        """Position of the passage's start among the window's tokens."""
        return self.asked + 2


def split_words(text: str) -> list[str]:
    """Split at the five characters that the reference treats as spaces; others belong to words."""
    return "".join(" " if character in _SPACES else character for character in text).split(" ")


def cut_windows(question: int, asked: int, tokens: int) -> Iterator[Window]:
    """Split a passage of ``tokens`` tokens into windows."""
    room, start = LENGTH - asked - _ADDED, 0
    while start < tokens:
        length = min(tokens - start, room)
        yield Window(question, asked, start, length)
        if start + length == tokens:
            return
        start += min(length, STRIDE)


def find_widest(windows: Sequence[Window]) -> Mapping[int, int]:
    """Map each passage token to the window that shows most of its context; ties go to the first window.

    An answer may start only in that window.
    """
    best: dict[int, tuple[float, int]] = {}
    for number, window in enumerate(windows):
        end = window.start + window.length - 1
        for token in range(window.start, end + 1):
            around = min(token - window.start, end - token) + 0.01 * window.length
            if token not in best or around > best[token][0]:
                best[token] = (around, number)
    return {token: number for token, (_, number) in best.items()}


def join_pieces(pieces: Iterable[str]) -> str:
    """Join pieces of words to text, without ``##``."""
    return " ".join(" ".join(pieces).replace(" ##", "").replace("##", "").split())


QUESTIONS, VOCABULARY = "dev-v1.1.json", "vocab.txt"
CALIBRATION = "calibration.txt"  # numbers of windows
MD5 = {QUESTIONS: "3e85deb501d4e538b6bc56f786231552", VOCABULARY: "64800d5d8528ce344256daf115d4965e"}
COUNT = 10_833  # windows
DTYPES = ("int64", "int32")
INPUTS = ("input_ids", "input_mask", "segment_ids")
TEXTS = "texts.json"
_MARKS = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
_ELSEWHERE = "../../models/bert"  # where users store the vocabulary if they follow the guides
_LARGE = 10_000  # texts tokenized per call
_FIX = "download it with `reconcile fetch bert`"


class Passage(NamedTuple):
    """``pieces``: tokens; ``origins``: the word that each piece comes from."""

    words: Sequence[str]
    pieces: Sequence[str]
    origins: Sequence[int]


class Question(NamedTuple):
    name: str
    passage: int
    answers: Sequence[str]


class SquadTexts(NamedTuple):
    """Additional data for scoring."""

    passages: Sequence[Passage]
    questions: Sequence[Question]
    windows: Sequence[Window]


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write input_ids.npy, input_mask.npy and segment_ids.npy [count, 384], texts.json and vocab.txt.

    ``settings``: dtype ("int64" or "int32"), count (number of windows, from the first), unpublished (true: the files
    may differ from the published ones).
    """
    dtype = choose_dtype(settings, DTYPES)
    source = require_source(source, QUESTIONS)
    vocabulary = find_vocabulary(source)
    published = not is_rehearsal(source) and not settings.get("unpublished")
    for path in (source / QUESTIONS, vocabulary):
        digest = f"md5:{MD5[path.name]}" if published else read_sums(path.parent).get(path.name, "")
        check_files(path.parent, [FileRule(path.name, digest=digest)], fix=_FIX)
    articles = read_articles(source / QUESTIONS)
    tokenizer = load_tokenizer(vocabulary)
    texts, asked = _read_texts(articles, tokenizer, counter)
    count = choose_count(settings, len(texts.windows))
    texts = texts._replace(windows=texts.windows[:count])
    for name, array in zip(INPUTS, _fill(texts, asked, tokenizer, dtype), strict=True):
        np.save(output / f"{name}.npy", array)
    (output / TEXTS).write_text(json.dumps(texts), encoding="utf-8")
    (output / VOCABULARY).write_bytes(vocabulary.read_bytes())
    if is_rehearsal(source) and (source / CALIBRATION).is_file():
        (output / CALIBRATION).write_bytes((source / CALIBRATION).read_bytes())


def load_samples(dataset: Path) -> Mapping[str, np.ndarray]:
    return {name: np.load(dataset / f"{name}.npy", mmap_mode="r") for name in INPUTS}


def load_calibration(dataset: Path) -> Mapping[str, np.ndarray]:
    """Load the available windows of the official list (calibration/SQuAD-v1.1 of mlcommons/inference). The fewer
    generated questions have their own list."""
    samples, own = load_samples(dataset), dataset / CALIBRATION
    listed = own.read_text(encoding="ascii").split() if own.is_file() else read_list("bert", CALIBRATION)
    rows = [int(row) for row in listed if int(row) < len(samples[INPUTS[0]])]
    return {name: array[rows] for name, array in samples.items()} if rows else {}


def load_texts(dataset: Path) -> SquadTexts:
    passages, questions, windows = json.loads((dataset / TEXTS).read_text(encoding="utf-8"))
    return SquadTexts(
        [Passage(*item) for item in passages], [Question(*item) for item in questions], [Window(*w) for w in windows]
    )


def find_vocabulary(source: Path) -> Path:
    found = next((p for p in (source / VOCABULARY, source / _ELSEWHERE / VOCABULARY) if p.is_file()), None)
    if found is None:
        raise HarnessError(f"{source / VOCABULARY}: No such file or directory", "missing", _FIX)
    return found


def load_tokenizer(vocabulary: Path) -> Tokenizer:
    """Load BERT's lower-case tokenizer with this vocabulary. Raises HarnessError if the vocabulary is invalid."""
    lines = vocabulary.read_text(encoding="utf-8", errors="replace").splitlines()
    numbers = {word.strip(): number for number, word in enumerate(lines)}
    missing = [mark for mark in _MARKS[:3] if mark not in numbers]
    if missing:
        raise HarnessError(f"{vocabulary} has no {missing[0]}", "input", _FIX)
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))  # noqa: S106 - a token of text
    tokenizer.add_special_tokens([mark for mark in _MARKS if mark in numbers])  # a text may contain one
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def read_articles(path: Path) -> list[Any]:
    """Read the articles. Raises HarnessError naming what is missing from the file."""
    document = read_json(path, _FIX)
    version = document.get("version") if isinstance(document, dict) else None
    if version != "1.1":
        raise HarnessError(f"{path} is of version {version!r}, not SQuAD 1.1", "input", _FIX)
    articles = document.get("data")
    if not isinstance(articles, list):
        raise HarnessError(f"{path} has no data", "input", _FIX)
    for number, article in enumerate(articles):
        try:
            whole = all(map(_is_whole, article["paragraphs"]))
        except (KeyError, TypeError, AttributeError):
            whole = False
        if not whole:
            raise HarnessError(f"{path}: data[{number}] has an incomplete paragraph", "input", _FIX)
    return articles


def _is_whole(paragraph: Mapping[str, Any]) -> bool:
    asked = [(qa["id"], qa["question"], *(answer["text"] for answer in qa["answers"])) for qa in paragraph["qas"]]
    return all(isinstance(text, str) for texts in ((paragraph["context"],), *asked) for text in texts)


def _read_texts(articles: Sequence[Any], tokenizer: Tokenizer, counter: Counter) -> tuple[SquadTexts, list[list[int]]]:
    """Read texts, with the token ids of each question."""
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    texts = [qa["question"] for paragraph in paragraphs for qa in paragraph["qas"]]
    counter.stage("building", len(texts))
    words = [[word for word in split_words(paragraph["context"]) if word] for paragraph in paragraphs]
    pieces = dict(_tokenize(sorted(set(chain.from_iterable(words))), tokenizer))
    passages = [
        Passage(
            listed,
            [piece for word in listed for piece in pieces[word][0]],
            [number for number, word in enumerate(listed) for _ in pieces[word][0]],
        )
        for listed in words
    ]
    asked = [numbers[:QUESTION] for _, (_, numbers) in _tokenize(texts, tokenizer)]
    questions = [
        Question(qa["id"], number, [answer["text"] for answer in qa["answers"]])
        for number, paragraph in enumerate(paragraphs)
        for qa in paragraph["qas"]
    ]
    windows: list[Window] = []
    for number, question in enumerate(questions):
        windows += cut_windows(number, len(asked[number]), len(passages[question.passage].pieces))
        counter.bump(1)
    return SquadTexts(passages, questions, windows), asked


def _tokenize(texts: Sequence[str], tokenizer: Tokenizer) -> Iterator[tuple[str, tuple[list[str], list[int]]]]:
    """Yield each text's tokens and their numbers. All cores tokenize, some thousand texts at a time."""
    for first in range(0, len(texts), _LARGE):
        some = texts[first : first + _LARGE]
        for text, encoded in zip(some, tokenizer.encode_batch(some, add_special_tokens=False), strict=True):
            yield text, (encoded.tokens, encoded.ids)


def _fill(texts: SquadTexts, asked: Sequence[Sequence[int]], tokenizer: Tokenizer, dtype: str) -> list[np.ndarray]:
    """Fill ids, mask and segments [windows, 384]: [CLS] question [SEP] passage [SEP], padded with zeros."""
    ids, mask, segments = (np.zeros((len(texts.windows), LENGTH), dtype) for _ in INPUTS)
    start, gap = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    numbers = [np.array([tokenizer.token_to_id(piece) for piece in item.pieces], dtype) for item in texts.passages]
    for row, window in enumerate(texts.windows):
        end = window.offset + window.length
        passage = numbers[texts.questions[window.question].passage]
        ids[row, 0], ids[row, window.asked + 1], ids[row, end] = start, gap, gap
        ids[row, 1 : window.asked + 1] = asked[window.question]
        ids[row, window.offset : end] = passage[window.start : window.start + window.length]
        mask[row, : end + 1] = 1
        segments[row, window.offset : end + 1] = 1
    return [ids, mask, segments]
