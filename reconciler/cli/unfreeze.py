"""`reconcile unfreeze [CELL|--all]`: let passes act on it again."""

from __future__ import annotations

import click

from reconciler.cli.freeze import cell_or_all, thaw
from reconciler.cli.shared.decisions import add_commit_option, conclude, say_next
from reconciler.cli.shared.options import takes
from reconciler.cli.shared.output import say
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC
from reconciler.record.decisions import FROZEN
from reconciler.storage.files import remove


@click.command("unfreeze")
@takes([*cell_or_all(), add_commit_option()])
def command(cell: str | None, everything: bool, commit: bool) -> int:
    """End the freeze of CELL, or that of the whole submission. Works while the spec is broken, too."""
    if (cell is None) != everything:
        raise click.UsageError("name one cell, or --all")
    paths = find_repository()
    name, removed = thaw(paths, cell, commit=commit)
    for path in removed:
        remove(paths.root / path)
    made = conclude(paths, FROZEN, f"Unfreeze {name}", commit=commit)
    say(f"Not frozen any more: {name}")
    say_next(paths, made, removed)
    return IN_SYNC
