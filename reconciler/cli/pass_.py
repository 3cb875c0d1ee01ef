"""`reconcile [SPEC…]`: one pass."""

from __future__ import annotations

import click

from reconciler.cli.looking import asked
from reconciler.cli.options import pass_options, takes, words
from reconciler.cli.passing import run


@click.command("pass")
@takes([words(), *pass_options()])
def command(
    words: tuple[str, ...],
    exclude: tuple[str, ...],
    only: tuple[str, ...],
    deep: bool,
    rerun: tuple[str, ...],
    commit: bool,
    busy: bool,
    wait: float,
    as_json: bool,
    show_all: bool,
) -> int:
    """Run one pass: build, run, score and render what is not as declared."""
    places, options = asked(
        words, exclude=exclude, only=only, rerun=rerun, deep=deep, commit=commit, busy=busy, wait=wait
    )
    return run(places, options, as_json=as_json, show_all=show_all)
