"""Colour and width of a view, which is the same text with and without them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from reconciler.storage.escaping import seal_style


class Tone(Enum):
    """Meaning of a piece of text, not its look."""

    HEADING = "heading"
    GOOD = "good"
    BAD = "bad"
    DOUBT = "doubt"
    FAINT = "faint"


_CODES = {Tone.HEADING: "1", Tone.GOOD: "32", Tone.BAD: "31", Tone.DOUBT: "33", Tone.FAINT: "2"}  # SGR


class Paint(NamedTuple):
    """How a view is shown: with colours or without, and in how many columns; None: as many as it needs."""

    is_coloured: bool = False
    width: int | None = None

    def __call__(self, text: str, tone: Tone) -> str:
        """For ``escape_output``, which makes a terminal's colours of it."""
        return seal_style(text, _CODES[tone]) if self.is_coloured else text


show_plain, show_coloured = Paint(), Paint(is_coloured=True)
