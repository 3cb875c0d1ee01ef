"""Output of a command, its colours and its width."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import deque
from collections.abc import Iterable
from typing import Any

import click

from reconciler.render.colour import Paint, Tone, show_coloured
from reconciler.render.table import fold
from reconciler.storage.escaping import encode_json, escape_hidden, escape_output

NO_COLOUR = "reconciler.no_colour"  # in the meta of click's context, which subcommands share
WIDE = "reconciler.wide"  # in the same meta: no line is folded
VERBOSE = "reconciler.verbose"  # in the same meta: the log already goes to the terminal
QUIET = "reconciler.quiet"  # with --quiet: deferred texts, and whether each goes to stderr and is folded
_NARROWEST = 40  # columns below which lines are not folded
_MOST_DEFERRED = 10_000  # maximum number of texts, since a watch never ends


def use_colour(stream: Any = None) -> bool:
    """Use colour only on a terminal, never with --no-color, NO_COLOR (https://no-color.org) or a dumb terminal."""
    context = click.get_current_context(silent=True)
    refused = bool(context and context.meta.get(NO_COLOUR))
    if refused or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool((stream or sys.stdout).isatty())


def find_width(stream: Any = None) -> int | None:
    """Return the columns of a terminal; None for a file or a pipe, and with --wide. COLUMNS takes precedence."""
    context = click.get_current_context(silent=True)
    stream = stream or sys.stdout
    if (context and context.meta.get(WIDE)) or not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else 0
    if not width:
        with contextlib.suppress(OSError):
            width = os.get_terminal_size(stream.fileno()).columns
    return max(width, _NARROWEST) if width else None


def choose_paint() -> Paint:
    return Paint(use_colour(), find_width())


def say(text: str, *, err: bool = False, is_folded: bool = True) -> None:
    """Print text, always escaped. With --quiet, defer it until the command ends. ``is_folded``: wrap lines that are
    wider than the terminal."""
    deferred = _find_deferred()
    if deferred is None:
        say_at_once(text, err=err, is_folded=is_folded)
    else:
        deferred.append((text, err, is_folded))


def say_at_once(text: str, *, err: bool = False, is_folded: bool = True) -> None:
    """Print requested output and problems, even with --quiet."""
    width = find_width(sys.stderr if err else sys.stdout) if is_folded else None
    click.echo(fold(escape_output(text), width), err=err, color=True)


def hold_back(context: click.Context) -> None:
    """Defer all output until the command ends."""
    context.meta.setdefault(QUIET, deque(maxlen=_MOST_DEFERRED))


def say_deferred(code: int) -> None:
    """Print deferred output if the command did not succeed."""
    deferred = _find_deferred()
    while deferred:
        text, err, is_folded = deferred.popleft()
        if code:
            say_at_once(text, err=err, is_folded=is_folded)


def is_quiet() -> bool:
    return _find_deferred() is not None


def _find_deferred() -> deque[tuple[str, bool, bool]] | None:
    context = click.get_current_context(silent=True)
    deferred: deque[tuple[str, bool, bool]] | None = context.meta.get(QUIET) if context else None
    return deferred


def say_commands(lines: Iterable[str]) -> None:
    """Print workflow commands for the program that reads this output."""
    for line in lines:
        click.echo(escape_hidden(line))


def say_json(document: dict[str, Any]) -> None:
    click.echo(encode_json(document))


def say_report(document: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        say_json(document)
    else:
        say(text)


def say_error(message: str, fix: str = "") -> None:
    word = show_coloured("error:", Tone.BAD) if use_colour(sys.stderr) else "error:"
    say_at_once(f"{word} {message}", err=True)
    if fix:
        say_at_once(f"fix: {fix}", err=True)
