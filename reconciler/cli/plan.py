"""`reconcile plan`: what a pass would do, and why."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli.looking import asked, cells_of, exit_code, line_commits, selected_look
from reconciler.cli.options import reporting_options, selection_options, takes, words
from reconciler.cli.output import paint, say, say_json
from reconciler.plan import saved
from reconciler.render.documents import cells_part
from reconciler.render.plan import LIMIT, plan_text, shown_origins

_OUTPUT = click.Option(
    ["-o", "--output"],
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Save the plan for `reconcile apply FILE`; - writes it to standard output.",
)


@click.command("plan")
@takes([words(), *selection_options(), _OUTPUT, *reporting_options()])
def command(
    words: tuple[str, ...],
    exclude: tuple[str, ...],
    only: tuple[str, ...],
    deep: bool,
    output: Path | None,
    as_json: bool,
    show_all: bool,
) -> int:
    """Show what a pass would do, why, and how long it takes. Changes nothing.

    Selectors choose cells: benchmark=resnet scenario=Offline,Server system=h200*. Exits 0 when all of it is in sync,
    2 when something is not.
    """
    places, options = asked(words, exclude=exclude, only=only, deep=deep)
    seen = selected_look(places, options)
    if output == Path("-"):
        output, as_json = None, True
    if output is not None:
        saved.save(seen.plan, output)
    if as_json:
        say_json({**saved.to_json(seen.plan), "cells": cells_part(cells_of(seen, options), seen.plan)})
        return exit_code(seen.plan)
    limit = None if show_all else LIMIT
    commits = line_commits(places, shown_origins(seen.plan, limit))
    say(plan_text(seen.plan, commits=commits, limit=limit, paint=paint()))
    if output is not None:
        say(f"Saved as {output}; carry it out with: reconcile apply {output}")
    return exit_code(seen.plan)
