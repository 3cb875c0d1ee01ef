"""Code that `check` and `verify-tree` share: options, the progress bar, the archive of accuracy logs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import click

from reconciler.cli.shared.options import ExistingPath
from reconciler.cli.shared.output import is_quiet, use_colour
from reconciler.render.findings import ORDERS
from reconciler.storage.files import hash_file

Report = Callable[[int, int, str], None]


def round_option() -> click.Option:
    return click.Option(
        ["--round", "round_name"],
        default="",
        metavar="ROUND",
        help="Use the rules of this round, such as v6.1. Default: the round whose seeds are in the logs, else"
        " the one that the tree names. In an unknown round, only rules of all rounds apply.",
    )


def sort_option() -> click.Option:
    return click.Option(["--sort", "by"], type=click.Choice(ORDERS), default="submitter", help="Order of the findings.")


def all_option() -> click.Option:
    return click.Option(["--all", "show_all"], is_flag=True, help="Show every finding, however many there are.")


def originals_option() -> click.Option:
    return click.Option(
        ["--originals"],
        type=ExistingPath(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Untruncated accuracy logs, to compare hash lines and verdicts with.",
    )


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[Report | None]:
    """Show a bar on a terminal, nothing elsewhere."""
    if quiet or is_quiet() or not sys.stderr.isatty():
        yield None
        return
    from reconciler.render.live import open_bar

    with open_bar(colour=use_colour(sys.stderr)) as report:
        yield report


def open_archive(folder: Path | None) -> Callable[[str], Path | None] | None:
    """Return a function that finds a file of a folder by its SHA-256. Files are hashed once, on the first search."""
    if folder is None:
        return None
    files = cache(lambda: {hash_file(path): path for path in sorted(folder.rglob("*")) if path.is_file()})
    return lambda digest: files().get(digest)
