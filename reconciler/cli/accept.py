"""`reconcile accept CELL`: let recorded results count although their inputs differ."""

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
from reconciler.diff.acceptance import Refused, judge_acceptances, propose_acceptance
from reconciler.diff.change import Work
from reconciler.diff.conditions import trace_lineages
from reconciler.diff.difference import compare
from reconciler.errors import ERROR, IN_SYNC, ReconcilerError
from reconciler.reconcile.planning import Options, PlanResult, compute_plan, explain_change
from reconciler.record.decisions import ACCEPTED, read, write
from reconciler.render.documents import render_document
from reconciler.resource.codec import make_versioned
from reconciler.resource.decisions import FORMAT, Acceptance, AcceptanceStatus, AcceptedKey
from reconciler.resource.kinds import Cell, Kind
from reconciler.resource.wording import show_acceptance, show_accepted, show_accepted_input
from reconciler.storage.files import RepositoryPaths, remove

_DAYS = 30
_CELL = cell_argument(required=False)
_LIST = click.Option(["--list", "listing"], is_flag=True, help="List every acceptance, and whether it still holds.")
_REVOKE = click.Option(["--revoke"], is_flag=True, help="Take back what was accepted for CELL.")


@click.command("accept")
@takes(
    [
        *(_CELL, add_reason_option(), *add_end_options(f"Default: {_DAYS}d.")),
        *(_LIST, _REVOKE, add_commit_option(), spec_option(), json_option()),
    ]
)
def command(
    cell: str | None,
    reason: str | None,
    until: str | None,
    length: str | None,
    listing: bool,
    revoke: bool,
    commit: bool,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Let the recorded results of CELL count although their inputs differ now; for a while, and for this difference.

    The decision is a file in state/accepted: who, when, why, until when, and each input that differs. Any further
    change makes the cell stale again. Differences that the round forbids are refused.
    """
    paths, options = find_asked_cells(specs)
    if listing:
        return _list(paths, options, as_json=as_json)
    if cell is None:
        raise click.UsageError("name the cell, or --list")
    if revoke:
        return _revoke(paths, cell, commit=commit, as_json=as_json)
    seen = compute_plan(paths, options)
    chosen = find_cell(cell, trace_lineages(seen.desired))
    why, end = check_reason(reason), parse_end(until, length, _DAYS)
    assert end is not None
    keys, refused = _accepting(seen, chosen)
    by, head = name_decider(paths)
    acceptance = Acceptance(chosen, why, by, now(), end, head, keys)
    path = _find_same(seen, acceptance)
    if path:
        acceptance = seen.decisions.acceptances[path]
    elif refused := refused or _left(seen, acceptance):
        return _refuse(chosen, refused, as_json=as_json)
    path = path or write(paths, acceptance)
    made = conclude(paths, ACCEPTED, f"Accept {chosen}\n\n{why}", commit=commit)
    if as_json:
        say_json(render_document("accept", file=path, commit_made=made or None, **make_versioned(FORMAT, acceptance)))
        return IN_SYNC
    say(f"Accepted until {end}, for {chosen}: {show_accepted(acceptance)}")
    for changed in acceptance.inputs:
        say(f"    {show_accepted_input(*changed)}  {changed[-1].origin}")
    say(f"Not made again: {', '.join(key.address.label for key in acceptance.accepted)}")
    say_next(paths, made, [path])
    return IN_SYNC


def _find_same(seen: PlanResult, asked: Acceptance) -> str:
    """The file of the same decision, in force: one that was written before its command was killed, say."""
    same = (asked.cell, asked.reason, asked.by, asked.until)
    found = judge_acceptances(seen.decisions, seen.desired, seen.recorded)
    force = (path for path, item, status in found if status is AcceptanceStatus.IN_FORCE)
    known = ((path, seen.decisions.acceptances[path]) for path in force)
    return next((path for path, item in known if (item.cell, item.reason, item.by, item.until) == same), "")


def _accepting(seen: PlanResult, cell: Cell) -> tuple[tuple[AcceptedKey, ...], tuple[Refused, ...]]:
    lineage = trace_lineages(seen.desired)[cell]
    source = next((r.cell for r in lineage if r.kind is Kind.RUN and r.cell != cell), None)
    if source is not None:
        why = f"it is inferred from {source}, whose runs it publishes"
        return (), (Refused(why, f"accept that: reconcile accept {source} --reason …"),)
    return propose_acceptance(
        cell, lineage, seen.difference, seen.recorded, lambda change: explain_change(seen.paths, seen.desired, change)
    )


def _left(seen: PlanResult, acceptance: Acceptance) -> tuple[Refused, ...]:
    """List what would still be due or wrong: such results cannot be published together."""
    decisions = replace(seen.decisions, acceptances={**seen.decisions.acceptances, "": acceptance})
    difference = compare(seen.desired, seen.recorded, seen.observed, decisions=decisions)
    own = {r.address for r in trace_lineages(seen.desired)[acceptance.cell] if r.cell == acceptance.cell}
    due = [c for c in difference.changes if c.address in own and c.how is Work.MAKE]
    found = [
        Refused(f"{c.address.label} would still be due: {c.reason}{f' ({c.note})' if c.note else ''}") for c in due
    ]
    wrong = [f for f in difference.findings if f.where == str(acceptance.cell)]
    return (*found, *(Refused(f"{f.kind}: {f.message}", f.fix) for f in wrong))


def _refuse(cell: Cell, refused: tuple[Refused, ...], *, as_json: bool) -> int:
    if as_json:
        say_json(render_document("accept", cell=cell, refused=refused))
        return ERROR
    lines = "".join(f"\n  {item.why}" for item in refused)
    raise ReconcilerError(f"{cell} cannot be accepted:{lines}", fix=refused[0].fix)


def _list(paths: RepositoryPaths, options: Options, *, as_json: bool) -> int:
    seen = compute_plan(paths, options)
    found = judge_acceptances(seen.decisions, seen.desired, seen.recorded)
    if as_json:
        rows = [{"file": path, "stands": str(status), **make_versioned(FORMAT, item)} for path, item, status in found]
        say_json(render_document("accept", acceptances=rows, damaged=seen.decisions.damaged))
        return IN_SYNC
    for path, item, status in found:
        say(f"{item.cell}: {show_acceptance(item, status)}\n    {path}")
    say_damaged(seen.decisions.damaged)
    if not found:
        say("Nothing is accepted: every result counts by its own inputs.")
    return IN_SYNC


def _revoke(paths: RepositoryPaths, text: str, *, commit: bool, as_json: bool) -> int:
    here = read(paths, today()).acceptances
    acceptances = {**here, **(read_removed(paths, ACCEPTED).acceptances if commit else {})}
    if not acceptances:
        raise ReconcilerError("nothing is accepted here", fix="see: reconcile accept --list")
    cell = find_cell(text, {item.cell for item in acceptances.values()}, "reconcile accept --list")
    revoked = [path for path, item in acceptances.items() if item.cell == cell]
    for path in revoked:
        remove(paths.root / path)
    made = conclude(paths, ACCEPTED, f"Revoke what was accepted for {cell}", commit=commit)
    if as_json:
        say_json(render_document("accept", cell=cell, revoked=revoked, commit_made=made or None))
        return IN_SYNC
    say(f"Revoked for {cell}: {', '.join(revoked)}")
    say_next(paths, made, revoked)
    return IN_SYNC
