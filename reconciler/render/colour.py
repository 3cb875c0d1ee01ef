"""Colour as a function, so that a view is the same text with and without it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import click


class Tone(Enum):
    """What a piece of text means, not how it looks."""

    HEADING = "heading"
    GOOD = "good"
    BAD = "bad"
    DOUBT = "doubt"
    FAINT = "faint"


Paint = Callable[[str, Tone], str]


def show_plain(text: str, _: Tone) -> str:
    return text


def show_coloured(text: str, tone: Tone) -> str:
    match tone:
        case Tone.HEADING:
            return click.style(text, bold=True)
        case Tone.GOOD:
            return click.style(text, fg="green")
        case Tone.BAD:
            return click.style(text, fg="red")
        case Tone.DOUBT:
            return click.style(text, fg="yellow")
        case Tone.FAINT:
            return click.style(text, dim=True)
