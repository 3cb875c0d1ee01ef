"""`reconcile status`: cells x conditions."""

from __future__ import annotations

import click

from reconciler.cli.looking import asked, cells_of, exit_code, selected_look
from reconciler.cli.options import reporting_options, selection_options, takes, words
from reconciler.cli.output import paint, say, say_json
from reconciler.render.documents import cells_part, document
from reconciler.render.plan import LIMIT
from reconciler.render.status import status_text


@click.command("status")
@takes([words(), *selection_options(), *reporting_options()])
def command(
    words: tuple[str, ...],
    exclude: tuple[str, ...],
    only: tuple[str, ...],
    deep: bool,
    as_json: bool,
    show_all: bool,
) -> int:
    """Show each cell: is it built, accurate, performed, valid, rendered, ready, and what it measured."""
    places, options = asked(words, exclude=exclude, only=only, deep=deep)
    seen = selected_look(places, options)
    cells = cells_of(seen, options)
    if as_json:
        parts = cells_part(cells, seen.plan)
        say_json(document("status", in_sync=seen.plan.in_sync, cells=parts, findings=seen.plan.findings))
    else:
        say(status_text(cells, limit=None if show_all else LIMIT, paint=paint()))
    return exit_code(seen.plan)
