"""`reconcile gc`: remove stored files that no record names."""

from __future__ import annotations

import click

from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC
from reconciler.execute.queue_status import find_submitted
from reconciler.record.gc import GcReport, collect
from reconciler.render.documents import render_document
from reconciler.resource.quantities import join_listing, show_count, show_size
from reconciler.storage import git
from reconciler.storage.files import Lock
from reconciler.storage.trial_paths import TrialPaths

_DRY = click.Option(["--dry-run"], is_flag=True, help="Only say what would be removed.")
_TRIALS = click.Option(["--trials"], is_flag=True, help="Also remove what `try`, `tune` and --quick recorded.")


@click.command("gc")
@takes([_DRY, _TRIALS, json_option()])
def command(dry_run: bool, trials: bool, as_json: bool) -> int:
    """Remove stored files that no record names, in the work tree or at the tip of any local branch or tag.

    Keeps records and logs in state/, attempts in a cluster's queue and, without --trials, everything that trials name.
    """
    paths = find_repository()
    with Lock(paths.pass_lock, purpose="collection of unnamed files").acquire():
        elsewhere = git.list_blobs_in_refs(paths.root, "state/records", ".json")
        spared = (*find_submitted(paths), *find_submitted(TrialPaths(paths.root, paths.apart)))
        report = collect(paths, elsewhere, spared=spared, dry_run=dry_run, trials=trials)
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
        "trials": report.trials,
        "paths": list(report.paths),
    }


def _text(report: GcReport, dry_run: bool) -> str:
    if not (report.objects or report.attempts or report.trials):
        return "Nothing to remove: a record names every stored file."
    trial_paths = [(report.attempts, "lost attempt"), (report.trials, "trial")]
    files = f"{show_count(report.objects, 'stored file')} ({show_size(report.bytes)})"
    what = join_listing([files, *(show_count(count, noun) for count, noun in trial_paths if count)])
    return f"Would remove {what}." if dry_run else f"Removed {what}."
