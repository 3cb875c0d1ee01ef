"""Split and search accuracy.txt by line; some scorers print a line for each of 50,000 samples."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NEWLINE = re.compile(r"\r\n|\r|\n")


def split_lines(text: str) -> list[str]:
    """Split lines as Python's text mode does, like the checkers; progress bars leave lone carriage returns."""
    return _NEWLINE.split(text) if "\r" in text else text.split("\n")


def count_ends(text: str, begin: int, end: int) -> int:
    """Count the line ends between two positions, neither of which is within a line end."""
    feeds = text.count("\n", begin, end)
    if "\r" not in text:
        return feeds
    return feeds + text.count("\r", begin, end) - text.count("\r\n", begin, end)


def find_lines(text: str, *words: str) -> Iterator[tuple[int, str]]:
    """Return each line that contains one of the words, with its 1-based number. Other lines are only counted."""
    there = [word for word in words if word in text] if len(words) > 1 else words
    at = text.find(there[0]) if there else -1
    if at >= 0 and len(there) > 1:
        lines = enumerate(split_lines(text), start=1)
        yield from ((number, line) for number, line in lines if any(word in line for word in there))
        return
    # No part of the text is searched twice for the last line or for the next line end of a kind.
    number, counted, feed = 1, 0, -1
    back = -1 if "\r" in text else len(text)
    while at >= 0:
        begin = max(counted, text.rfind("\n", counted, at) + 1)
        if back < len(text):
            begin = max(begin, text.rfind("\r", begin, at) + 1)
        number += count_ends(text, counted, begin)
        feed, back = _find_end(text, "\n", at, feed), _find_end(text, "\r", at, back)
        counted = begin
        yield number, text[begin : min(feed, back)]
        at = text.find(there[0], min(feed, back))


def _find_end(text: str, mark: str, at: int, known: int) -> int:
    """Return ``known`` if it is not before ``at``, else the mark's next position, or the end of the text."""
    if known >= at:
        return known
    found = text.find(mark, at)
    return found if found >= 0 else len(text)
