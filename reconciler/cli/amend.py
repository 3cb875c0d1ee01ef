"""`reconcile amend CELL`: why a submitted result was corrected, and what was made again for it."""

from __future__ import annotations

import click

from reconciler.cli.shared.cells import find_cell
from reconciler.cli.shared.decisions import (
    add_commit_option,
    add_reason_option,
    check_reason,
    conclude,
    name_decider,
    now,
    say_damaged,
    say_next,
    today,
)
from reconciler.cli.shared.options import cell_argument, complete_refs, json_option, spec_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.diff.amendment import (
    SubmissionState,
    compare_results,
    judge_amendment,
    list_differing_inputs,
    list_repeated,
)
from reconciler.diff.change import Chosen
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.history.snapshot import read_snapshot
from reconciler.reconcile.planning import compute_plan
from reconciler.record.codec import summarize
from reconciler.record.decisions import AMENDED, read, write
from reconciler.record.index import load_record
from reconciler.render.documents import render_document
from reconciler.resource.codec import make_versioned
from reconciler.resource.decisions import FORMAT, Amendment, KeyChange
from reconciler.resource.kinds import Cell
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths

_CELL = cell_argument(required=False)
_SINCE = click.Option(
    ["--since"], metavar="COMMIT", shell_complete=complete_refs, help="The commit that was submitted."
)
_OBJECTION = click.Option(["--objection"], metavar="TEXT", help="Where the objection is filed, or what it says.")
_LIST = click.Option(["--list", "listing"], is_flag=True, help="List every amendment.")


@click.command("amend")
@takes(
    [_CELL, _SINCE, _OBJECTION, add_reason_option(), _LIST, add_commit_option(), spec_option(), json_option()],
)
def command(
    cell: str | None,
    since: str | None,
    objection: str | None,
    reason: str | None,
    listing: bool,
    commit: bool,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Record that the submitted result of CELL was corrected: for which objection, what differs, what was made again.

    The decision is a file in state/amended. Refused are results that are incomplete, do not differ, or count by
    `accept`, and runs made again although no input differs. `package --amends COMMIT` packs a corrected submission. A
    result that is withdrawn or moved to the open division needs no amendment.
    """
    paths, options = find_asked_cells(specs)
    if listing:
        return _list(paths, as_json=as_json)
    if cell is None or not since or not objection:
        raise click.UsageError("name the cell, --since COMMIT and --objection TEXT; or --list")
    why = check_reason(reason)
    seen = compute_plan(paths, options)
    base = read_snapshot(paths.root, git.resolve(paths.root, since))
    before, after = SubmissionState(base.desired, base.difference), SubmissionState(seen.desired, seen.difference)
    chosen = find_cell(cell, {*before.difference.chosen, *after.difference.chosen})
    old, new = (item.difference.chosen.get(chosen, Chosen()) for item in (before, after))
    inputs, repeated = list_differing_inputs(before.desired, after.desired, chosen), list_repeated(old, new)
    if refused := judge_amendment(chosen, before, after, inputs, repeated):
        raise ReconcilerError(f"{chosen} is not amended: {refused[0].why}", fix=refused[0].fix)
    by, _ = name_decider(paths)
    amendment = Amendment(
        cell=chosen,
        objection=check_reason(objection),
        reason=why,
        by=by,
        made=now(),
        commit=base.commit,
        result=KeyChange(*compare_results(chosen, before, after)),
        inputs=inputs,
        repeated=repeated,
        metric=(_show_metric(paths, chosen, old), _show_metric(paths, chosen, new)),
    )
    path = write(paths, amendment)
    made = conclude(paths, AMENDED, f"Amend {chosen}\n\n{why}", commit=commit)
    if as_json:
        say_json(render_document("amend", file=path, commit_made=made or None, **make_versioned(FORMAT, amendment)))
        return IN_SYNC
    _print_amendment(amendment)
    say_next(paths, made, [path])
    return IN_SYNC


def _show_metric(paths: RepositoryPaths, cell: Cell, chosen: Chosen) -> str:
    if not chosen.performance:
        return ""
    try:
        metric = summarize(load_record(paths, chosen.performance), chosen.performance).find_metric(cell.scenario)
    except ReconcilerError:
        return ""  # the record is in the submitted commit alone
    return " ".join(metric) if metric else ""


def _print_amendment(item: Amendment) -> None:
    say(f"{item.cell} is amended: {item.reason} (objection: {item.objection})")
    for name, changed in item.inputs.items():
        say(f"    {name}: {changed.before} → {changed.after}  {changed.origin}")
    say(f"Made again: {', '.join(item.repeated) or 'nothing'}")
    if all(item.metric) and item.metric[0] != item.metric[1]:
        say(f"Result: {item.metric[0]} → {item.metric[1]}; the review committee decides whether the fix may change it")


def _list(paths: RepositoryPaths, *, as_json: bool) -> int:
    decisions = read(paths, today())
    if as_json:
        rows = [{"file": path, **make_versioned(FORMAT, item)} for path, item in decisions.amendments.items()]
        say_json(render_document("amend", amendments=rows, damaged=decisions.damaged))
        return IN_SYNC
    for path, item in decisions.amendments.items():
        say(f"{item.cell}: {item.reason} (objection: {item.objection}; since {item.commit[:12]})\n    {path}")
    say_damaged(decisions.damaged)
    if not decisions.amendments:
        say("Nothing is amended.")
    return IN_SYNC
