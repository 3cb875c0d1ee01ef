"""Convert a question and a passage to samples of 384 tokens: a long passage becomes several windows.

The rules are those of BERT's original preparation of SQuAD: at most 64 tokens of a question, windows 128 tokens apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

LENGTH = 384
QUESTION = 64  # tokens of a question to keep
STRIDE = 128
_MARKS = 3  # [CLS] question [SEP] passage [SEP]
_SPACES = frozenset(" \t\r\n\u202f")


class Window(NamedTuple):
    """``question``: its number; ``asked``: its tokens; ``start`` and ``length``: the range of the passage's tokens."""

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
    room, start = LENGTH - asked - _MARKS, 0
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
