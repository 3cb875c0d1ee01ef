"""What a command writes, and whether in colour."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click

from reconciler.render.colour import Paint, show_coloured, show_plain

NO_COLOUR = "reconciler.no_colour"  # in the meta of click's context, which sub-commands share


def use_colour(stream: Any = None) -> bool:
    """Colour only on a terminal, never with --no-color, NO_COLOR (https://no-color.org) or a dumb terminal."""
    context = click.get_current_context(silent=True)
    refused = bool(context and context.meta.get(NO_COLOUR))
    if refused or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool((stream or sys.stdout).isatty())


def choose_paint() -> Paint:
    return show_coloured if use_colour() else show_plain


def say(text: str) -> None:
    click.echo(text, color=True)


def say_json(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def say_error(message: str, fix: str = "") -> None:
    word = click.style("error:", fg="red") if use_colour(sys.stderr) else "error:"
    click.echo(f"{word} {message}", err=True, color=True)
    if fix:
        click.echo(f"fix: {fix}", err=True, color=True)
