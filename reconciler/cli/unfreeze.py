"""`reconcile unfreeze [CELL|--all]`: let passes act on it again."""

from __future__ import annotations

import click

from reconciler.cli.freeze import cell_or_all, thaw
from reconciler.cli.shared.decisions import add_commit_option, conclude, say_next
from reconciler.cli.shared.options import takes
from reconciler.cli.shared.output import say
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC
from reconciler.files import remove
from reconciler.record.decisions import FROZEN


@click.command("unfreeze")
@takes([*cell_or_all(), add_commit_option()])
def command(cell: str | None, everything: bool, commit: bool) -> int:
    """End the freeze of CELL, or that of the whole submission. Works while the spec is broken, too."""
    if (cell is None) != everything:
        raise click.UsageError("name one cell, or --all")
    places = find_repository()
    name, paths = thaw(places, cell)
    for path in paths:
        remove(places.root / path)
    made = conclude(places, FROZEN, f"Unfreeze {name}", commit=commit)
    say(f"Not frozen any more: {name}")
    say_next(places, made, paths)
    return IN_SYNC
