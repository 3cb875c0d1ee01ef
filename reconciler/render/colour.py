"""Colour as a function, so that a view is the same text with and without it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from reconciler.storage.escaping import seal_style


class Tone(Enum):
    """Meaning of a piece of text, not its look."""

    HEADING = "heading"
    GOOD = "good"
    BAD = "bad"
    DOUBT = "doubt"
    FAINT = "faint"


_CODES = {Tone.HEADING: "1", Tone.GOOD: "32", Tone.BAD: "31", Tone.DOUBT: "33", Tone.FAINT: "2"}  # SGR

Paint = Callable[[str, Tone], str]


def show_plain(text: str, _: Tone) -> str:
    return text


def show_coloured(text: str, tone: Tone) -> str:
    """For ``escape_output``, which makes a terminal's colours of it."""
    return seal_style(text, _CODES[tone])
