"""Decisions: `accept`, `freeze` and `unfreeze`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from reconciler.cli.shared.options import cell_argument, json_option, spec_option, takes
from reconciler.cli.shared.output import say, say_json, say_report
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.errors import IN_SYNC
from reconciler.reconcile.decisions import (
    NotAcceptedError,
    RecordedDecision,
    accept,
    freeze,
    list_acceptances,
    parse_end,
    read_decisions,
    revoke,
    unfreeze,
)
from reconciler.reconcile.planning import Options
from reconciler.render.documents import render_document
from reconciler.render.explanation import render_acceptance_part
from reconciler.resource.codec import make_versioned
from reconciler.resource.decisions import FORMAT
from reconciler.resource.wording import show_acceptance, show_accepted, show_accepted_input
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths


def add_reason_option() -> click.Option:
    return click.Option(["--reason"], metavar="TEXT", help="Why; it is recorded and shown.")


def add_end_options(default: str) -> list[click.Parameter]:
    return [
        click.Option(["--until"], metavar="DATE", help="The day on which it ends, such as 2027-04-01."),
        click.Option(["--for", "length"], metavar="LENGTH", help=f"How long it lasts, such as 30d or 4w. {default}"),
    ]


def add_commit_option() -> click.Option:
    return click.Option(["--commit"], is_flag=True, help="Commit the decision, and nothing else, to git.")


def describe_damaged(damaged: Mapping[str, str]) -> list[str]:
    """Describe decisions that have no effect. ``damaged``: file → its problem."""
    return [f"{path}: {why}: it has no effect" for path, why in sorted(damaged.items())]


def say_next(paths: RepositoryPaths, made: str, changed: Iterable[str]) -> None:
    """Print the next step. ``changed``: files written or removed; a file removed before it was committed needs no
    commit."""
    known = [p for p in changed if (paths.root / p).exists() or git.read_file_at(paths.root, p) is not None]
    if made:
        say(f"Committed as {made[:7]}.")
    elif known:
        say(f"Commit it, so that others see it: git add {' '.join(known)} && git commit")


def render_decision(command: str, made: RecordedDecision[Any]) -> dict[str, Any]:
    decided = make_versioned(FORMAT, made.decision)
    return render_document(command, file=made.path, commit_made=made.commit or None, **decided)


_DAYS = 30
_CELL = cell_argument(required=False)
_LIST_ACCEPTANCES = click.Option(
    ["--list", "listing"], is_flag=True, help="List every acceptance, and whether it is still valid."
)
_REVOKE = click.Option(["--revoke", "revoking"], is_flag=True, help="Revoke the acceptance of CELL.")


@click.command("accept")
@takes(
    [
        *(_CELL, add_reason_option(), *add_end_options(f"Default: {_DAYS}d.")),
        *(_LIST_ACCEPTANCES, _REVOKE, add_commit_option(), spec_option(), json_option()),
    ]
)
def accept_command(
    cell: str | None,
    reason: str | None,
    until: str | None,
    length: str | None,
    listing: bool,
    revoking: bool,
    commit: bool,
    specs: tuple[str, ...],
    as_json: bool,
) -> int:
    """Accept the recorded results of CELL although their inputs differ now; temporarily, and only for this difference.

    The decision is a file in state/accepted: who, when, why, until when, and each input that differs. Any further
    change makes the cell stale again. Differences that the round forbids are refused.
    """
    paths, options = find_asked_cells(specs)
    if listing:
        return _list_acceptances(paths, options, as_json=as_json)
    if cell is None:
        raise click.UsageError("name the cell, or --list")
    if revoking:
        removed = revoke(paths, cell, commit=commit)
        if as_json:
            parts = {"cell": removed.name, "revoked": removed.paths, "commit_made": removed.commit or None}
            say_json(render_document("accept", **parts))
        else:
            say(f"Revoked for {removed.name}: {', '.join(removed.paths)}")
            say_next(paths, removed.commit, removed.paths)
        return IN_SYNC
    end = parse_end(until, length, _DAYS)
    assert end is not None
    try:
        made = accept(paths, options, cell, reason, end, commit=commit)
    except NotAcceptedError as error:
        if not as_json:
            raise
        say_json(render_document("accept", cell=error.cell, refused=error.refused))
        return error.exit_code
    acceptance = made.decision
    if as_json:
        say_json(render_decision("accept", made))
        return IN_SYNC
    say(f"Accepted until {acceptance.until}, for {acceptance.cell}: {show_accepted(acceptance)}")
    for changed in acceptance.inputs:
        say(f"    {show_accepted_input(*changed)}  {changed[-1].origin}")
    say(f"Kept: {', '.join(key.address.label for key in acceptance.accepted)}")
    say_next(paths, made.commit, [made.path])
    return IN_SYNC


def _list_acceptances(paths: RepositoryPaths, options: Options, *, as_json: bool) -> int:
    found, damaged = list_acceptances(paths, options)
    rows = [render_acceptance_part(*each) for each in found]
    lines = [f"{item.cell}: {show_acceptance(item, status)}\n    {path}" for path, item, status in found]
    lines += [*describe_damaged(damaged), *([] if found else ["Nothing is accepted: every result matches its inputs."])]
    say_report(render_document("accept", acceptances=rows, damaged=damaged), "\n".join(lines), as_json=as_json)
    return IN_SYNC


_LIST_FREEZES = click.Option(["--list", "listing"], is_flag=True, help="List every freeze that is recorded.")


def cell_or_all_options() -> list[click.Parameter]:
    return [
        cell_argument(required=False),
        click.Option(["--all", "everything"], is_flag=True, help="The whole submission."),
    ]


@click.command("freeze")
@takes(
    [
        *(*cell_or_all_options(), add_reason_option(), *add_end_options("Default: until `unfreeze`.")),
        *(_LIST_FREEZES, add_commit_option(), spec_option(), json_option()),
    ]
)
def freeze_command(
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
    """Skip CELL, or the whole submission, until a given day or until `unfreeze`: no pass builds, runs or renders it.

    The decision is a file in state/frozen. Passes and `watch` skip the cell, and `pr` warns when a change touches it.
    """
    paths, options = find_asked_cells(specs)
    if listing:
        return _list_freezes(paths, as_json=as_json)
    if (cell is None) != everything:
        raise click.UsageError("name one cell, or --all")
    made = freeze(paths, options, cell, reason, parse_end(until, length), commit=commit)
    if as_json:
        say_json(render_decision("freeze", made))
        return IN_SYNC
    say(f"{made.decision.cell or 'The whole submission'} is {made.decision}")
    say_next(paths, made.commit, [made.path])
    return IN_SYNC


def _list_freezes(paths: RepositoryPaths, *, as_json: bool) -> int:
    decisions = read_decisions(paths)
    rows, lines = [], []
    for path, item in decisions.freezes.items():
        holds = item in decisions.frozen
        rows.append({"file": path, "holds": holds, **make_versioned(FORMAT, item)})
        lines.append(f"{item.cell or 'the whole submission'}: {item}{'' if holds else ' (over)'}\n    {path}")
    lines = [*(lines or ["Nothing is frozen."]), *describe_damaged(decisions.damaged)]
    document = render_document("freeze", freezes=rows, damaged=decisions.damaged)
    say_report(document, "\n".join(lines), as_json=as_json)
    return IN_SYNC


@click.command("unfreeze")
@takes([*cell_or_all_options(), add_commit_option(), json_option()])
def unfreeze_command(cell: str | None, everything: bool, commit: bool, as_json: bool) -> int:
    """End the freeze of CELL, or that of the whole submission. Works even if the spec has errors."""
    if (cell is None) != everything:
        raise click.UsageError("name one cell, or --all")
    paths = find_repository()
    removed = unfreeze(paths, cell, commit=commit)
    if as_json:
        say_json(render_document("unfreeze", files=removed.paths, commit_made=removed.commit or None))
        return IN_SYNC
    say(f"Not frozen any more: {removed.name}")
    say_next(paths, removed.commit, removed.paths)
    return IN_SYNC
