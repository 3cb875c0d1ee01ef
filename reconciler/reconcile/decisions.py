"""Accept differing results, freeze cells, and revert such decisions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.diff.acceptance import Refused, judge_acceptances, propose_acceptance
from reconciler.diff.change import Work
from reconciler.diff.conditions import trace_lineages
from reconciler.diff.difference import compare
from reconciler.errors import ReconcilerError, RepositoryError
from reconciler.plan.select import find_cell
from reconciler.reconcile.planning import Options, PlanResult, compute_plan, explain_change
from reconciler.record.decisions import ACCEPTED, FROZEN, is_decision, parse_decisions, read, write
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, AcceptedKey, Amendment, Decisions, Freeze
from reconciler.resource.kinds import Cell, Kind
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths, remove

LONGEST = 366  # days, since a decision must be renewed within a year
_END_ALL = "`reconcile unfreeze --all` ends it"
_LENGTH = re.compile(r"(\d{1,3})([dw])")
_Decided = TypeVar("_Decided", Acceptance, Freeze, Amendment)


class RecordedDecision(Struct, Generic[_Decided], frozen=True):
    """A decision with its file. ``path``: relative to the repository. ``commit``: "" if committing is left to the
    user."""

    path: str
    decision: _Decided
    commit: str


class RemovedDecisions(Struct, frozen=True):
    """Decisions that were taken back. ``name``: the cell, or the whole submission. ``paths``: the removed files."""

    name: str
    paths: tuple[str, ...]
    commit: str


def get_today() -> date:
    return datetime.now(UTC).date()


def get_time() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_decisions(paths: RepositoryPaths) -> Decisions:
    return read(paths, get_today())


def check_reason(reason: str | None) -> str:
    text = "".join(sign for sign in " ".join((reason or "").split()) if sign.isprintable())
    if not text:
        raise ReconcilerError("a decision needs a reason", fix='say why: --reason "…"')
    return text


def parse_end(until: str | None, length: str | None, days: int = 0) -> date | None:
    """Return the first day on which a decision no longer applies. ``days``: default duration, 0 for no end. Raises
    ReconcilerError."""
    if until and length:
        raise ReconcilerError("--until and --for exclude each other", fix="use one of them")
    if not until and not length:
        return get_today() + timedelta(days=days) if days else None
    end = _parse_date(until) if until else get_today() + _parse_length(str(length))
    if not get_today() < end <= get_today() + timedelta(days=LONGEST):
        raise ReconcilerError(f"{end} is not within the next {LONGEST} days", fix="name a future date within a year")
    return end


def _parse_date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ReconcilerError(f"--until: {text!r} is not a date", fix="write it as 2027-04-01") from error


def _parse_length(text: str) -> timedelta:
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise ReconcilerError(f"--for: {text!r} is not a duration", fix="write it as 30d (days) or 4w (weeks)")
    return timedelta(days=int(found[1]) * (7 if found[2] == "w" else 1))


def read_decider(paths: RepositoryPaths) -> tuple[str, str]:
    """Return who decides, and the commit that they decide on ("" without one)."""
    who = git.read_author(paths.root)
    if not who:
        raise RepositoryError(
            "git does not know who you are, and a decision needs an author",
            fix='git config user.name "…"; git config user.email "…"',
        )
    return who, git.find_head(paths.root) or ""


def record_decision(
    paths: RepositoryPaths,
    decision: _Decided,
    known: Mapping[str, _Decided],
    folder: str,
    subject: str,
    *,
    commit: bool,
) -> RecordedDecision[_Decided]:
    """Write a decision, and commit the changes below its folder. ``known``: the same decision, if it is already
    recorded, for example by a command that was killed before its commit."""
    path, decision = next(iter(known.items()), ("", decision))
    path = path or write(paths, decision)
    made = git.commit(paths.root, [folder], f"{subject}\n\n{decision.reason}") if commit else ""
    return RecordedDecision(path, decision, made)


def _remove(
    paths: RepositoryPaths, name: str, files: list[str], folder: str, subject: str, *, commit: bool
) -> RemovedDecisions:
    for path in files:
        remove(paths.root / path)
    return RemovedDecisions(name, tuple(files), git.commit(paths.root, [folder], subject) if commit else "")


def _read_removed(paths: RepositoryPaths, folder: str) -> Decisions:
    """Read a folder's files that are in HEAD but removed here, since a command may have been killed before it committed
    their removal."""
    git.end_killed_commit(paths.root, [folder])
    head = git.find_head(paths.root)
    known = git.list_files_at(paths.root, head, [folder]) if head else {}
    gone = {path: blob for path, (blob, _) in known.items() if is_decision(path) and not (paths.root / path).exists()}
    blobs = git.read_blobs(paths.root, gone.values())
    return parse_decisions({path: blobs[blob] for path, blob in gone.items() if blob in blobs}, get_today())


class NotAcceptedError(ReconcilerError):
    def __init__(self, cell: Cell, refused: tuple[Refused, ...]) -> None:
        lines = "".join(f"\n  {item.why}" for item in refused)
        super().__init__(f"{cell} cannot be accepted:{lines}", fix=refused[0].fix)
        self.cell, self.refused = cell, refused


def list_acceptances(
    paths: RepositoryPaths, options: Options
) -> tuple[tuple[tuple[str, Acceptance, AcceptanceStatus], ...], Mapping[str, str]]:
    """List every acceptance with its file and whether it applies, and the damaged files with their problems."""
    seen = compute_plan(paths, options)
    return judge_acceptances(seen.decisions, seen.desired, seen.recorded), seen.decisions.damaged


def accept(
    paths: RepositoryPaths, options: Options, text: str, reason: str | None, end: date, *, commit: bool
) -> RecordedDecision[Acceptance]:
    """Let the recorded results of a cell count for exactly the present difference. Raises NotAcceptedError."""
    seen = compute_plan(paths, options)
    cell = find_cell(text, trace_lineages(seen.desired))
    why = check_reason(reason)
    keys, refused = _propose(seen, cell)
    by, head = read_decider(paths)
    acceptance = Acceptance(cell, why, by, get_time(), end, head, keys)
    same = _find_same(seen, acceptance)
    if not same and (refused := refused or _list_left(seen, acceptance)):
        raise NotAcceptedError(cell, refused)
    return record_decision(paths, acceptance, same, ACCEPTED, f"Accept {cell}", commit=commit)


def _find_same(seen: PlanResult, asked: Acceptance) -> dict[str, Acceptance]:
    same = (asked.cell, asked.reason, asked.by, asked.until)
    found = judge_acceptances(seen.decisions, seen.desired, seen.recorded)
    known = {path: seen.decisions.acceptances[path] for path, _, at in found if at is AcceptanceStatus.IN_FORCE}
    return {path: item for path, item in known.items() if (item.cell, item.reason, item.by, item.until) == same}


def _propose(seen: PlanResult, cell: Cell) -> tuple[tuple[AcceptedKey, ...], tuple[Refused, ...]]:
    lineage = trace_lineages(seen.desired)[cell]
    source = next((r.cell for r in lineage if r.kind is Kind.RUN and r.cell != cell), None)
    if source is not None:
        why = f"it publishes the runs of {source}, from which it is inferred"
        return (), (Refused(why, f"accept that result: reconcile accept {source} --reason …"),)
    return propose_acceptance(
        cell, lineage, seen.difference, seen.recorded, lambda change: explain_change(seen.paths, seen.desired, change)
    )


def _list_left(seen: PlanResult, acceptance: Acceptance) -> tuple[Refused, ...]:
    """List what would still be due or wrong, since such results cannot be published together."""
    decisions = replace(seen.decisions, acceptances={**seen.decisions.acceptances, "": acceptance})
    difference = compare(seen.desired, seen.recorded, seen.observed, decisions=decisions)
    own = {r.address for r in trace_lineages(seen.desired)[acceptance.cell] if r.cell == acceptance.cell}
    due = [c for c in difference.changes if c.address in own and c.how is Work.MAKE]
    found = [
        Refused(f"{c.address.label} would still be due: {c.reason}{f' ({c.note})' if c.note else ''}") for c in due
    ]
    wrong = [f for f in difference.findings if f.where == str(acceptance.cell)]
    return (*found, *(Refused(f"{f.kind}: {f.message}", f.fix) for f in wrong))


def revoke(paths: RepositoryPaths, text: str, *, commit: bool) -> RemovedDecisions:
    """Revoke the acceptances of a cell. Raises ReconcilerError if there are none."""
    acceptances = dict(read_decisions(paths).acceptances)
    if commit:
        acceptances |= _read_removed(paths, ACCEPTED).acceptances
    if not acceptances:
        raise ReconcilerError("nothing is accepted for this cell", fix="see: reconcile accept --list")
    cell = find_cell(text, {item.cell for item in acceptances.values()}, "reconcile accept --list")
    files = [path for path, item in acceptances.items() if item.cell == cell]
    return _remove(paths, str(cell), files, ACCEPTED, f"Revoke what was accepted for {cell}", commit=commit)


def freeze(
    paths: RepositoryPaths, options: Options, text: str | None, reason: str | None, end: date | None, *, commit: bool
) -> RecordedDecision[Freeze]:
    """Freeze a cell, or the whole submission. ``end``: None for until it is unfrozen."""
    why = check_reason(reason)
    cell = find_cell(text, trace_lineages(compute_plan(paths, options).desired)) if text else None
    by, head = read_decider(paths)
    asked = Freeze(cell, why, by, get_time(), end, head)
    known = read_decisions(paths).freezes.items()
    same = {path: item for path, item in known if replace(item, made=asked.made, commit=asked.commit) == asked}
    return record_decision(paths, asked, same, FROZEN, f"Freeze {cell or 'the submission'}", commit=commit)


def unfreeze(paths: RepositoryPaths, text: str | None, *, commit: bool) -> RemovedDecisions:
    """Unfreeze; with ``commit``, also if the files are removed here but still in git. Raises ReconcilerError if nothing
    is frozen."""
    decisions = read_decisions(paths)
    freezes = dict(decisions.freezes)
    if commit:
        freezes |= _read_removed(paths, FROZEN).freezes
    is_all_frozen = any(item.cell is None for item in decisions.frozen)
    if text is None:
        cell, name = None, "the whole submission"
        files = [path for path, item in freezes.items() if item.cell is None]
    else:
        cells = {item.cell for item in freezes.values() if item.cell is not None}
        try:
            cell = find_cell(text, cells, "reconcile freeze --list") if cells else None
        except ReconcilerError as error:
            if not is_all_frozen:
                raise
            fix = f"{error.fix} (the whole submission is frozen, too: {_END_ALL})"
            raise ReconcilerError(str(error), fix=fix) from None
        name = str(cell or text)
        files = [path for path, item in freezes.items() if cell is not None and item.cell == cell]
    if not files and is_all_frozen:
        raise ReconcilerError(f"{name} is not frozen by itself, but the whole submission is", fix=_END_ALL)
    if not files:
        raise ReconcilerError(f"{name} is not frozen", fix="see: reconcile freeze --list")
    return _remove(paths, name, files, FROZEN, f"Unfreeze {name}", commit=commit)
