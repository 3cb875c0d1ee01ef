"""`prune` and `gc`: remove what no spec declares and no record refers to."""

from __future__ import annotations

from collections import Counter

import click
from msgspec import structs

from reconciler.cli.decisions import add_commit_option
from reconciler.cli.shared.options import json_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json, say_report
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.diff.pruning import Prunable
from reconciler.errors import ERROR, IN_SYNC, ReconcilerError
from reconciler.execute.queue_status import find_submitted
from reconciler.reconcile.pruning import find_prunable, find_refusals, remove_prunable
from reconciler.record.gc import GcReport, collect
from reconciler.render.documents import render_document
from reconciler.render.table import render_table
from reconciler.resource.quantities import join_listing, show_count, show_size
from reconciler.storage import git
from reconciler.storage.files import RECORDS, RepositoryLock, TrialPaths
from reconciler.storage.leftovers import sweep_repository

_SHARE = 0.25
_OPTIONS: list[click.Parameter] = [
    click.Option(["--yes"], is_flag=True, help="Remove it; without this, nothing is removed."),
    click.Option(["--measured"], is_flag=True, help="Also remove records of runs, scores and tests; logs never."),
    click.Option(
        ["--max-share"],
        type=click.FloatRange(0, 1),
        default=_SHARE,
        show_default=True,
        metavar="SHARE",
        help="Refuse to remove more than this share of the records, stored files or rendered cells.",
    ),
]


@click.command("prune")
@takes([*_OPTIONS, add_commit_option(), json_option()])
def prune_command(yes: bool, measured: bool, max_share: float, commit: bool, as_json: bool) -> int:
    """Show what no spec declares any more: records, built files, rendered cells. With --yes, remove it.

    Never removes logs, inputs of something that stays, or anything accepted or frozen. Refused on a spec that is
    broken, empty or not committed, for records that are not in git, and beyond --max-share.
    """
    paths, options = find_asked_cells(())
    with RepositoryLock(paths, purpose="removal of what is not declared").acquire():
        sweep_repository(paths)
        seen, found = find_prunable(paths, options, measured=measured)
        refused = find_refusals(seen, found, max_share)
        if not as_json:
            say(_render_prunable(found))
        if not refused and yes:
            remove_prunable(seen, found)
        before = git.find_head(paths.root) or ""
        commits = commit and yes and not refused
        message = f"Prune {show_count(len(found.records), 'record')} that no spec declares"
        made = git.commit(paths.root, [RECORDS], message) if commits else ""
    if as_json:
        say_json(render_document("prune", dry_run=not yes, commit=made or None, refused=refused, **_render_part(found)))
        return ERROR if refused else IN_SYNC
    if refused:
        raise ReconcilerError(f"nothing is pruned: {refused[0][0]}", fix=refused[0][1])
    if not found.empty:
        say(_summarise_removal(found, before, done=yes, measured=measured))
    return IN_SYNC


def _render_prunable(found: Prunable) -> str:
    if found.empty:
        return "Nothing to prune: a spec declares all that is recorded, built and rendered."
    records = Counter(str(s.address) for s in found.records)
    rows = [("record", address, show_count(number, "record")) for address, number in sorted(records.items())]
    rows += [("file", f"{s.address} {a.name}", show_size(a.size)) for s, a in found.files]
    rows += [("tree", cell, "rendered cell") for cell in found.cells]
    return "\n".join(render_table(rows, 2, width=choose_paint().width))


def _summarise_removal(found: Prunable, head: str, *, done: bool, measured: bool) -> str:
    parts = [f"{gone:,} of {show_count(of, what)}" for what, gone, of in found.list_shares() if gone]
    text = f"{'Removed' if done else 'Would remove'} {join_listing(parts)}; no log."
    if not done:
        more = "" if measured else " Records of measurements stay without --measured."
        return f"{text}{more} Nothing is removed without --yes."
    back = f"git checkout {head[:12]} -- {RECORDS}" if found.records else ""
    return f"{text} Built files are rebuilt when a run needs them." + (f"\nTo restore: {back}" if back else "")


def _render_part(found: Prunable) -> dict[str, object]:
    return {
        "records": [{"record": s.id, "address": s.address} for s in found.records],
        "files": [{"address": s.address, "name": a.name, "bytes": a.size} for s, a in found.files],
        "cells": found.cells,
        "of": {what: of for what, _, of in found.list_shares()},
    }


_DRY = click.Option(["--dry-run"], is_flag=True, help="Only say what would be removed.")
_TRIALS = click.Option(["--trials"], is_flag=True, help="Also remove what `try`, `tune` and --quick recorded.")


@click.command("gc")
@takes([_DRY, _TRIALS, json_option()])
def gc_command(dry_run: bool, trials: bool, as_json: bool) -> int:
    """Remove stored files that no record names, in the work tree or at the tip of any local branch or tag.

    Keeps records and logs in state/ and attempts in a cluster's queue. Without --trials, also keeps everything that
    trials refer to.
    """
    paths = find_repository()
    with RepositoryLock(paths, purpose="collection of unnamed files").acquire():
        elsewhere = git.list_blobs_in_refs(paths.root, RECORDS, ".json")
        spared = (*find_submitted(paths), *find_submitted(TrialPaths(paths.root, paths.apart)))
        report = collect(paths, elsewhere, spared=spared, dry_run=dry_run, trials=trials)
    document = render_document("gc", dry_run=dry_run, **structs.asdict(report))
    say_report(document, _render_gc_text(report, dry_run), as_json=as_json)
    return IN_SYNC


def _render_gc_text(report: GcReport, dry_run: bool) -> str:
    if not (report.objects or report.attempts or report.trials):
        return "Nothing to remove: a record names every stored file."
    trial_paths = [(report.attempts, "lost attempt"), (report.trials, "trial")]
    files = f"{show_count(report.objects, 'stored file')} ({show_size(report.bytes)})"
    what = join_listing([files, *(show_count(count, noun) for count, noun in trial_paths if count)])
    return f"Would remove {what}." if dry_run else f"Removed {what}."
