"""`reconcile diff A..B`: inputs and results at two commits."""

from __future__ import annotations

import click

from reconciler.cli.shared.options import complete_refs, json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC, NOT_IN_SYNC, ReconcilerError
from reconciler.history.compare import compare_commits
from reconciler.history.snapshot import Shared, read_snapshot
from reconciler.render.documents import render_document
from reconciler.render.timeline import render_changes_text
from reconciler.storage import git


@click.command("diff")
@takes(
    [
        click.Argument(["commits"], metavar="A[..B]", shell_complete=complete_refs),
        click.Argument(["other"], metavar="[B]", required=False, shell_complete=complete_refs),
        json_option(),
    ]
)
def command(commits: str, other: str | None, as_json: bool) -> int:
    """Show what differs between two commits, written A..B or A B: the inputs of every cell, and its result. B is HEAD
    when left out.

    Exits with 0 when nothing differs, else with 2.
    """
    root = find_repository().root
    if "..." in commits:
        raise ReconcilerError(f"{commits!r} does not name two commits", fix=f"write {commits.replace('...', '..')}")
    first, dots, second = commits.partition("..")
    if other is not None and dots:
        raise ReconcilerError(f"{commits} names two commits already, and {other!r} a third", fix="write A..B, or A B")
    second = other or second
    names = git.resolve(root, first or "HEAD"), git.resolve(root, second or "HEAD")
    shared = Shared()
    found = compare_commits(read_snapshot(root, names[0], shared=shared), read_snapshot(root, names[1], shared=shared))
    if as_json:
        say_json(render_document("diff", before=names[0], after=names[1], cells=found))
    else:
        say(render_changes_text(names, found))
    return IN_SYNC if all(item.same for item in found) else NOT_IN_SYNC
