"""The letters of a transcript as the official accuracy script reads them: their numbers, int64 each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.errors import HarnessError

LETTERS = " abcdefghijklmnopqrstuvwxyz'0123456789$%+-"
_NUMBERS = {letter: number for number, letter in enumerate(LETTERS)}


def write_text(text: str) -> NDArray[np.int64]:
    """In small letters; what is none is left out."""
    return np.array([_NUMBERS[letter] for letter in text.lower().strip() if letter in _NUMBERS], np.int64)


def keep_letters(text: str) -> str:
    """Without what is none: a transcript of the manifest, as the script takes it."""
    return "".join(letter for letter in text if letter in _NUMBERS)


def read_text(data: bytes) -> str:
    """Read the text of a response."""
    numbers = np.frombuffer(data, np.int64) if len(data) % 8 == 0 else None
    if numbers is None or (numbers < 0).any() or (numbers >= len(LETTERS)).any():
        raise HarnessError("a response does not hold numbers of letters, int64 each", "input", "run accuracy again")
    return "".join(LETTERS[number] for number in numbers.tolist())
