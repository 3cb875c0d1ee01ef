"""The lines of accuracy.txt, of which some scorers print one for each of 50,000 samples."""

from __future__ import annotations

import re
from collections.abc import Iterator

NEWLINE = re.compile(r"\r\n|\r|\n")


def split_lines(text: str) -> list[str]:
    """As Python's text mode splits them, which is how the checkers read the file; progress bars leave lone returns."""
    return NEWLINE.split(text) if "\r" in text else text.split("\n")


def find_lines(text: str, *words: str) -> Iterator[tuple[int, str]]:
    """Each line that holds one of the words, with its 1-based number. Those without are counted, and not looked at."""
    there = [word for word in words if word in text] if len(words) > 1 else words
    at, returns = text.find(there[0]) if there else -1, "\r" in text
    if at >= 0 and len(there) > 1:
        lines = enumerate(split_lines(text), start=1)
        yield from ((number, line) for number, line in lines if any(word in line for word in there))
        return
    number, counted = 1, 0
    while at >= 0:
        begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        end = len(text) if end < 0 else end
        number += text.count("\n", counted, begin)
        if returns:
            begin = max(begin, text.rfind("\r", begin, at) + 1)
            number += text.count("\r", counted, begin) - text.count("\r\n", counted, begin)
            back = text.find("\r", at, end)
            end = back if back >= 0 else end
        counted = begin
        yield number, text[begin:end]
        at = text.find(there[0], end)
