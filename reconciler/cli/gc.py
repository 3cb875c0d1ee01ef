"""`reconcile gc`: remove stored files that no record names."""

from __future__ import annotations

import click

from reconciler import git
from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC
from reconciler.files import Lock
from reconciler.quantities import show_count, show_size
from reconciler.record.gc import GcReport, collect
from reconciler.render.documents import render_document

_DRY = click.Option(["--dry-run"], is_flag=True, help="Only say what would be removed.")


@click.command("gc")
@takes([_DRY, json_option()])
def command(dry_run: bool, as_json: bool) -> int:
    """Remove stored files that no record names, in the work tree or at the tip of any local branch or tag.

    Records and logs in state/ are never touched.
    """
    paths = find_repository()
    with Lock(paths.pass_lock, purpose="collection of unnamed files").acquire():
        report = collect(paths, git.list_blobs_in_refs(paths.root, "state/records", ".json"), dry_run=dry_run)
    if as_json:
        say_json(render_document("gc", dry_run=dry_run, **_part(report)))
    else:
        say(_text(report, dry_run))
    return IN_SYNC


def _part(report: GcReport) -> dict[str, object]:
    return {
        "objects": report.objects,
        "bytes": report.bytes,
        "attempts": report.attempts,
        "paths": list(report.paths),
    }


def _text(report: GcReport, dry_run: bool) -> str:
    if not report.objects and not report.attempts:
        return "Nothing to remove: a record names every stored file."
    attempts = f" and {show_count(report.attempts, 'lost attempt')}" if report.attempts else ""
    what = f"{show_count(report.objects, 'stored file')} ({show_size(report.bytes)}){attempts}"
    return f"Would remove {what}." if dry_run else f"Removed {what}."
