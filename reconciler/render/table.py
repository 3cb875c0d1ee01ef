"""Text that fits a terminal: rows in columns, and long lines folded at blanks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

_STYLE = re.compile(r"\x1b\[[0-9a-f:;]*m")
_GAP = 2  # blanks between columns
_NARROWEST = 16  # minimum columns of folded text
_LONG = 24  # columns from which a word is split if a column is folded
_BELOW = 4  # blanks before columns that moved to a separate line


def measure(text: str) -> int:
    """Return the columns that the text takes on a terminal, not counting colours."""
    shown = _STYLE.sub("", text) if "\x1b" in text else text
    if shown.isascii():
        return len(shown)
    return sum(_measure_character(character) for character in shown)


def _measure_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fold(text: str, width: int | None) -> str:
    """Fold text into lines of at most ``width`` columns; None means unlimited."""
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in fold_line(line, width))


def fold_line(line: str, width: int, hang: int | None = None) -> list[str]:
    """Fold a line at blanks. ``hang``: blanks before each further part; by default these begin below the last column of
    the left half. A path wider than a line is folded after a slash; any other word is never split."""
    if measure(line) <= width:
        return [line]
    words = re.findall(r" *[^ ]+", line)
    pieces = [part for word in words for part in (_split_path(word) if measure(word) > width else [word])]
    return _join_pieces(pieces, width, _find_hang(line, width) if hang is None else hang)


def _join_pieces(pieces: Iterable[str], width: int, hang: int = 0) -> list[str]:
    blanks = " " * hang
    parts, part = [], ""
    for piece in pieces:
        if part.strip() and measure(part) + measure(piece) > width:
            parts.append(part)
            part = blanks + piece.lstrip()
        else:
            part += piece
    return [*parts, part]


def _cut_words(text: str) -> list[str]:
    """Split a text where a column may fold it: at blanks, and long paths after a slash."""
    words = re.findall(r" *[^ ]+", text)
    return [part for word in words for part in (_split_path(word) if len(word) > _LONG else [word])]


def _split_path(word: str) -> list[str]:
    return re.findall(r"[^/]*/|[^/]+", word)


def _find_hang(line: str, width: int) -> int:
    shown = _STYLE.sub("", line)
    indent = len(shown) - len(shown.lstrip())
    columns = [found.end() for found in re.finditer(r"(?<=\S) {2,}(?=\S)", shown) if found.end() <= width // 2]
    return columns[-1] if columns else indent + _GAP


def render_table(
    rows: Iterable[Sequence[str]],
    indent: int = 0,
    *,
    width: int | None = None,
    right: Collection[int] = (),
    is_last_loose: bool = False,
) -> list[str]:
    """Return rows as lines with columns as wide as needed; the last is not padded. ``right``: numeric columns. If the
    rows are wider than ``width``, columns fold, and the last ones move below the others; a loose last column moves only
    in the rows that are too wide, and no column folds for it."""
    table = list(rows)
    if is_last_loose and table and width is not None:
        firm = [row[:-1] for row in table]
        padded = [max(map(measure, column)) for column in zip(*firm, strict=True)]
        if _add_up(padded, indent) <= width:
            laid_out = lay_out(firm, indent, right=right)
            return [
                line
                for lines, row in zip(laid_out, table, strict=True)
                for line in _append_last(lines, row[-1], padded, indent, width)
            ]
    return [line for lines in lay_out(table, indent, width=width, right=right) for line in lines]


def _append_last(lines: list[str], last: str, widths: Sequence[int], indent: int, width: int) -> list[str]:
    """Append the last column to a row's line, or put it below if there is no room."""
    column = _add_up(widths, indent) + _GAP
    if not last or column + measure(last) > width:
        return [*lines, *(fold_line(" " * (indent + _BELOW) + last, width) if last else [])]
    return [lines[0] + " " * (column - measure(lines[0])) + last]


def lay_out(
    rows: Iterable[Sequence[str]],
    indent: int = 0,
    *,
    width: int | None = None,
    right: Collection[int] = (),
    first: int = 0,
) -> list[list[str]]:
    """Lay out like ``render_table``, but return the lines of each row separately. ``first``: columns that stay together
    on a line if not all fit; 0 for as many as fit."""
    table = list(rows)
    if not table:
        return []
    widths = [max(map(measure, column)) for column in zip(*table, strict=True)]
    kept = len(widths)
    if width is not None and _add_up(widths, indent) > width:
        least = [
            min(needed, _find_least(column)) for needed, column in zip(widths, zip(*table, strict=True), strict=True)
        ]
        kept = first or next((n for n in range(kept, 1, -1) if _add_up(least[:n], indent) <= width), 1)
        widths = _shrink_columns(widths[:kept], least, width - indent)
    below = indent + sum(widths[:-1]) + _GAP * (kept - 1)
    below = below if kept > 1 and width is not None and below <= width // 2 else indent + _BELOW
    laid_out = []
    for row in table:
        lines = _fold_row(row[:kept], widths, indent, right, is_folded=width is not None)
        if width is not None and (rest := "  ".join(filter(None, row[kept:]))):
            lines += fold_line(" " * below + rest, width, below)
        laid_out.append(lines)
    return laid_out


def _add_up(widths: Sequence[int], indent: int) -> int:
    return indent + sum(widths) + _GAP * (len(widths) - 1)


def _find_least(column: Iterable[str]) -> int:
    return max(_NARROWEST, *(measure(part.strip()) for text in column for part in _cut_words(text) or [""]))


def _shrink_columns(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Shrink the widest columns."""
    shrunk = list(widths)
    while _add_up(shrunk, 0) > room:
        can = [column for column, width in enumerate(shrunk) if width > least[column]]
        if not can:
            break
        shrunk[max(can, key=shrunk.__getitem__)] -= 1
    return shrunk


def _fold_row(
    row: Sequence[str], widths: Sequence[int], indent: int, right: Collection[int], *, is_folded: bool
) -> list[str]:
    cells = [
        _join_pieces(_cut_words(text), width) if is_folded and measure(text) > width else [text]
        for text, width in zip(row, widths, strict=True)
    ]
    lines = []
    for number in range(max(map(len, cells))):
        texts = []
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
            text = cell[number] if number < len(cell) else ""
            blanks = " " * (width - measure(text))
            texts.append(blanks + text if column in right else text + blanks)
        lines.append((" " * indent + (" " * _GAP).join(texts)).rstrip())
    return lines
