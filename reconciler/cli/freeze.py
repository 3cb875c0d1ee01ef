"""`reconcile freeze [CELL|--all]`: leave cells as they are."""

from __future__ import annotations

import click
from msgspec.structs import replace

from reconciler.cli.shared.cells import find_cell
from reconciler.cli.shared.decisions import (
    add_commit_option,
    add_end_options,
    add_reason_option,
    check_reason,
    conclude,
    name_decider,
    now,
    parse_end,
    read_removed,
    say_damaged,
    say_next,
    today,
)
from reconciler.cli.shared.options import cell_argument, json_option, spec_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.diff.conditions import trace_lineages
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.reconcile.planning import compute_plan
from reconciler.record.decisions import FROZEN, read, write
from reconciler.render.documents import render_document
from reconciler.resource.codec import make_versioned
from reconciler.resource.decisions import FORMAT, Freeze
from reconciler.storage.files import RepositoryPaths

_LIST = click.Option(["--list", "listing"], is_flag=True, help="List every freeze that is recorded.")


def cell_or_all() -> list[click.Parameter]:
    return [
        cell_argument(required=False),
        click.Option(["--all", "everything"], is_flag=True, help="The whole submission."),
    ]


@click.command("freeze")
@takes(
    [
        *(*cell_or_all(), add_reason_option(), *add_end_options("Default: until `unfreeze`.")),
        *(_LIST, add_commit_option(), spec_option(), json_option()),
    ]
)
def command(
    cell: str | None,
    everything: bool,
    reason: str | None,
    until: str | None,
    length: str | None,
    listing: bool,
    commit: bool,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Leave CELL, or the whole submission, as it is until a given day or until `unfreeze`: nothing of it is run, built
    or rendered.

    The decision is a file in state/frozen. Passes and `watch` skip the cell, and `pr` warns when a change touches it.
    """
    paths, options = find_asked_cells(specs)
    if listing:
        return _list(paths, as_json=as_json)
    if (cell is None) != everything:
        raise click.UsageError("name one cell, or --all")
    why, end = check_reason(reason), parse_end(until, length, None)
    chosen = find_cell(cell, trace_lineages(compute_plan(paths, options).desired)) if cell else None
    by, head = name_decider(paths)
    freeze = Freeze(chosen, why, by, now(), end, head)
    same = ((path, item) for path, item in read(paths, today()).freezes.items() if _is_same(item, freeze))
    path, freeze = next(same, ("", freeze))  # one that was written before its command was killed, say
    path = path or write(paths, freeze)
    made = conclude(paths, FROZEN, f"Freeze {chosen or 'the submission'}\n\n{why}", commit=commit)
    if as_json:
        say_json(render_document("freeze", file=path, commit_made=made or None, **make_versioned(FORMAT, freeze)))
        return IN_SYNC
    say(f"{chosen or 'The whole submission'} is {freeze}")
    say_next(paths, made, [path])
    return IN_SYNC


def _is_same(one: Freeze, other: Freeze) -> bool:
    return replace(one, made="", commit="") == replace(other, made="", commit="")


def _list(paths: RepositoryPaths, *, as_json: bool) -> int:
    decisions = read(paths, today())
    if as_json:
        rows = [
            {"file": path, "holds": item in decisions.frozen, **make_versioned(FORMAT, item)}
            for path, item in decisions.freezes.items()
        ]
        say_json(render_document("freeze", freezes=rows, damaged=decisions.damaged))
        return IN_SYNC
    for path, item in decisions.freezes.items():
        over = "" if item in decisions.frozen else " (over)"
        say(f"{item.cell or 'the whole submission'}: {item}{over}\n    {path}")
    if not decisions.freezes:
        say("Nothing is frozen.")
    say_damaged(decisions.damaged)
    return IN_SYNC


def thaw(paths: RepositoryPaths, text: str | None, *, commit: bool) -> tuple[str, list[str]]:
    """Unfreeze; gives the cells, and the files that froze them; with ``commit``, also those that are gone here and not
    yet in git. Raises ReconcilerError where nothing is frozen."""
    freezes = {**read(paths, today()).freezes, **(read_removed(paths, FROZEN).freezes if commit else {})}
    if text is None:
        found = [path for path, item in freezes.items() if item.cell is None]
        name = "the whole submission"
    else:
        cells = {item.cell for item in freezes.values() if item.cell is not None}
        cell = find_cell(text, cells, "reconcile freeze --list") if cells else None
        found = [path for path, item in freezes.items() if item.cell is not None and item.cell == cell]
        name = str(cell or text)
    if not found:
        raise ReconcilerError(f"{name} is not frozen", fix="see: reconcile freeze --list")
    return name, found
