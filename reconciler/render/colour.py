"""Colour and width of a view; its text is the same with and without them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from reconciler.storage.escaping import seal_style


class Tone(Enum):
    """The meaning of a piece of text, not its look."""

    HEADING = "heading"
    GOOD = "good"
    BAD = "bad"
    DOUBT = "doubt"
    FAINT = "faint"


_CODES = {Tone.HEADING: "1", Tone.GOOD: "32", Tone.BAD: "31", Tone.DOUBT: "33", Tone.FAINT: "2"}  # SGR codes


class Paint(NamedTuple):
    """How a view is shown: with or without colours, and in how many columns (None: unlimited)."""

    is_coloured: bool = False
    width: int | None = None

    def __call__(self, text: str, tone: Tone) -> str:
        """Mark text for ``escape_output``, which inserts a terminal's colours."""
        return seal_style(text, _CODES[tone]) if self.is_coloured else text


show_plain, show_coloured = Paint(), Paint(is_coloured=True)
