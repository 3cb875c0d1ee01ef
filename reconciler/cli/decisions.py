"""Decisions: `accept`, `freeze` and `unfreeze`, who decides, until when, and the commit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta

import click
from msgspec.structs import replace

from reconciler.cli.shared.options import cell_argument, json_option, spec_option, takes
from reconciler.cli.shared.output import say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.repository import find_repository
from reconciler.diff.acceptance import Refused, judge_acceptances, propose_acceptance
from reconciler.diff.change import Work
from reconciler.diff.conditions import trace_lineages
from reconciler.diff.difference import compare
from reconciler.errors import ERROR, IN_SYNC, ReconcilerError, RepositoryError
from reconciler.plan.cell_names import find_cell
from reconciler.reconcile.planning import Options, PlanResult, compute_plan, explain_change
from reconciler.record.decisions import ACCEPTED, FROZEN, is_decision, parse_decisions, read, write
from reconciler.render.documents import render_document
from reconciler.resource.codec import make_versioned
from reconciler.resource.decisions import FORMAT, Acceptance, AcceptanceStatus, AcceptedKey, Decisions, Freeze
from reconciler.resource.kinds import Cell, Kind
from reconciler.resource.wording import show_acceptance, show_accepted, show_accepted_input
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths, remove
from reconciler.storage.git import read_author

LONGEST = 366  # days: no decision outlives a year without somebody saying so again
_LENGTH = re.compile(r"(\d{1,3})([dw])")


def add_reason_option() -> click.Option:
    return click.Option(["--reason"], metavar="TEXT", help="Why; it is recorded and shown.")


def add_end_options(default: str) -> list[click.Parameter]:
    return [
        click.Option(
            ["--until"], metavar="DATE", help="The first day on which it no longer holds, such as 2027-04-01."
        ),
        click.Option(["--for", "length"], metavar="LENGTH", help=f"How long it holds, such as 30d or 4w. {default}"),
    ]


def add_commit_option() -> click.Option:
    return click.Option(["--commit"], is_flag=True, help="Commit the decision, and nothing else, to git.")


def today() -> date:
    return datetime.now(UTC).date()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_reason(reason: str | None) -> str:
    text = "".join(sign for sign in " ".join((reason or "").split()) if sign.isprintable())
    if not text:
        raise ReconcilerError("a decision needs a reason", fix='say why: --reason "…"')
    return text


def parse_end(until: str | None, length: str | None, days: int | None) -> date | None:
    """``days``: how long it holds when it is not given; None for no end. Raises ReconcilerError."""
    if until and length:
        raise ReconcilerError("--until and --for say the same", fix="give one of them")
    if not until and not length:
        return today() + timedelta(days=days) if days else None
    end = _date(until) if until else today() + _length(str(length))
    if not today() < end <= today() + timedelta(days=LONGEST):
        raise ReconcilerError(f"{end} is not within the next {LONGEST} days", fix="name a future date within a year")
    return end


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ReconcilerError(f"--until: {text!r} is not a date", fix="write it as 2027-04-01") from error


def _length(text: str) -> timedelta:
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise ReconcilerError(f"--for: {text!r} is not a duration", fix="write it as 30d (days) or 4w (weeks)")
    return timedelta(days=int(found[1]) * (7 if found[2] == "w" else 1))


def name_decider(paths: RepositoryPaths) -> tuple[str, str]:
    """Who decides, and the commit they see ("" without one)."""
    who = read_author(paths.root)
    if not who:
        raise RepositoryError(
            "git does not know who you are, and a decision needs an author",
            fix='git config user.name "…"; git config user.email "…"',
        )
    return who, git.find_head(paths.root) or ""


def read_removed(paths: RepositoryPaths, folder: str) -> Decisions:
    """Read the files of a folder in HEAD that are removed here: a command that was to commit that may have been killed
    in between, or after its commit."""
    git.end_killed_commit(paths.root, [folder])
    head = git.find_head(paths.root)
    known = git.list_files_at(paths.root, head, [folder]) if head else {}
    gone = {path: blob for path, (blob, _) in known.items() if is_decision(path) and not (paths.root / path).exists()}
    blobs = git.read_blobs(paths.root, gone.values())
    return parse_decisions({path: blobs[blob] for path, blob in gone.items() if blob in blobs}, today())


def conclude(paths: RepositoryPaths, folder: str, message: str, *, commit: bool) -> str:
    """Commit what changed below a folder; gives the commit, "" where it is left to the user."""
    return git.commit(paths.root, [folder], message) if commit else ""


def say_damaged(damaged: Mapping[str, str]) -> None:
    """``damaged``: file → what is wrong with it."""
    for path, why in sorted(damaged.items()):
        say(f"{path}: {why}: it has no effect")


def say_next(paths: RepositoryPaths, made: str, changed: Iterable[str]) -> None:
    """``changed``: what was written or removed; what was removed before it was committed needs no commit."""
    known = [p for p in changed if (paths.root / p).exists() or git.read_head_file(paths.root, p) is not None]
    if made:
        say(f"Committed as {made[:7]}.")
    elif known:
        say(f"Commit it, so that others see it: git add {' '.join(known)} && git commit")


_DAYS = 30
_CELL = cell_argument(required=False)
_LIST_ACCEPTANCES = click.Option(
    ["--list", "listing"], is_flag=True, help="List every acceptance, and whether it still holds."
)
_REVOKE = click.Option(["--revoke"], is_flag=True, help="Take back what was accepted for CELL.")


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
        return _list_acceptances(paths, options, as_json=as_json)
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
    say(f"Kept: {', '.join(key.address.label for key in acceptance.accepted)}")
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


def _list_acceptances(paths: RepositoryPaths, options: Options, *, as_json: bool) -> int:
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


_LIST_FREEZES = click.Option(["--list", "listing"], is_flag=True, help="List every freeze that is recorded.")


def cell_or_all() -> list[click.Parameter]:
    return [
        cell_argument(required=False),
        click.Option(["--all", "everything"], is_flag=True, help="The whole submission."),
    ]


@click.command("freeze")
@takes(
    [
        *(*cell_or_all(), add_reason_option(), *add_end_options("Default: until `unfreeze`.")),
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
    """Leave CELL, or the whole submission, as it is until a given day or until `unfreeze`: nothing of it is run, built
    or rendered.

    The decision is a file in state/frozen. Passes and `watch` skip the cell, and `pr` warns when a change touches it.
    """
    paths, options = find_asked_cells(specs)
    if listing:
        return _list_freezes(paths, as_json=as_json)
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


def _list_freezes(paths: RepositoryPaths, *, as_json: bool) -> int:
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


@click.command("unfreeze")
@takes([*cell_or_all(), add_commit_option()])
def unfreeze_command(cell: str | None, everything: bool, commit: bool) -> int:
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
