"""What a command writes, and whether in colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import click

from reconciler.escaping import encode_json, escape_hidden, escape_output
from reconciler.render.colour import Paint, Tone, show_coloured, show_plain

NO_COLOUR = "reconciler.no_colour"  # in the meta of click's context, which sub-commands share
VERBOSE = "reconciler.verbose"  # likewise: the log goes to the terminal already


def use_colour(stream: Any = None) -> bool:
    """Colour only on a terminal, never with --no-color, NO_COLOR (https://no-color.org) or a dumb terminal."""
    context = click.get_current_context(silent=True)
    refused = bool(context and context.meta.get(NO_COLOUR))
    if refused or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool((stream or sys.stdout).isatty())


def choose_paint() -> Paint:
    return show_coloured if use_colour() else show_plain


def say(text: str, *, err: bool = False) -> None:
    """The way out of all text: whoever wrote it, it is only shown."""
    click.echo(escape_output(text), err=err, color=True)


def say_commands(lines: Iterable[str]) -> None:
    """Commands of ours to the program that reads this output."""
    for line in lines:
        click.echo(escape_hidden(line))


def say_json(document: dict[str, Any]) -> None:
    click.echo(encode_json(document))


def say_error(message: str, fix: str = "") -> None:
    word = show_coloured("error:", Tone.BAD) if use_colour(sys.stderr) else "error:"
    say(f"{word} {message}", err=True)
    if fix:
        say(f"fix: {fix}", err=True)
