"""Additions of a pull request that its own logs deny: results under a correct name, and files of a tree that are not
rendered. Only its additions and changes are read again; ``audit`` reads all of a commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from reconciler.diff.claims import Claim, Proof
from reconciler.diff.difference import list_published_cells
from reconciler.diff.impact import Remark
from reconciler.errors import ReconcilerError
from reconciler.history.commit_records import RECORDS, name_record
from reconciler.history.logs import FOLDER, Logs, open_logs
from reconciler.history.snapshot import Snapshot
from reconciler.resource.kinds import Cell
from reconciler.storage import git
from reconciler.storage.git import find_appearances

_RENDER = "render the tree again (`reconcile`), and commit what it wrote"
_REDATED = "commit again with the right date, or say in the pull request which clock was wrong"
_MEASURE = "restore the records and logs as the pass left them, or measure again; `reconcile audit` shows every claim"


def find_forgeries(root: Path, base: str, at: Snapshot, *, withheld: bool = False) -> tuple[Remark, ...]:
    """``withheld``: without any measured figure."""
    changed = git.list_changed_files(root, base, at.commit)
    cells, edited = _list_touched(at, changed), _list_edited(at, changed)
    others = {path for path in changed if path.startswith(f"{RECORDS}/")}
    if not cells and not edited and not others:
        return ()
    with open_logs(root, at.commit) as logs:
        denied = _find_denied(at, cells, logs, {name_record(path) for path in others}, withheld=withheld)
        rewritten = _find_rewritten(root, at, others, withheld=withheld)
        return (*denied, *rewritten, *_find_redated(root, base, at), *_find_edited(root, at, edited, logs))


def _find_redated(root: Path, base: str, at: Snapshot) -> Iterator[Remark]:
    from reconciler.history.dates import find_wrong_commits

    commits = f"{base}..{at.commit}"
    for claim in find_wrong_commits(root, commits, find_appearances(root, commits, (RECORDS,))):
        severity = "error" if claim.proof is Proof.CONTRADICTED else "warning"
        yield Remark(severity, "", 0, f"{claim.what}: {claim.detail}", _REDATED)


def _find_rewritten(root: Path, at: Snapshot, changed: Collection[str], *, withheld: bool) -> Iterator[Remark]:
    """Records that the pull request takes away, and writes anew."""
    if not (gone := {path for path in changed if name_record(path) not in at.committed.summaries}):
        return
    from reconciler.history.runs import find_rewritten_records

    appeared = find_appearances(root, at.commit, (RECORDS,))
    for claim in find_rewritten_records(root, at, appeared, gone):
        yield Remark("error", "", 0, _explain(claim, withheld=withheld), _MEASURE)


def _list_touched(at: Snapshot, changed: Collection[str]) -> list[Cell]:
    """The cells whose results rest on a record or a log that is new."""
    new = {path for path in changed if path.startswith((f"{RECORDS}/", f"{FOLDER}/"))}
    return sorted(cell for cell in at.difference.chosen if _is_touched(cell, at, new)) if new else []


def _is_touched(cell: Cell, at: Snapshot, new: Collection[str]) -> bool:
    known = at.committed.summaries
    records = _list_needed(at, at.difference.chosen[cell].all)
    logs = (a.sha256 for identity in records for a in known[identity].artifacts if a.place == "logs")
    return any(f"{RECORDS}/{i}.json" in new for i in records) or any(f"{FOLDER}/{digest}" in new for digest in logs)


def _list_edited(at: Snapshot, changed: Collection[str]) -> set[str]:
    """Files of the tree in the commit that the pull request touches."""
    tree = at.desired.submission.tree.rstrip("/")
    return {path for path in changed if tree and path.startswith(f"{tree}/")}


def _find_denied(
    at: Snapshot, cells: list[Cell], logs: Logs, new: Collection[str], *, withheld: bool
) -> Iterator[Remark]:
    """``new``: records that the pull request brings, whether a cell rests on them or not."""
    from reconciler.history.audit import audit_cell
    from reconciler.history.records import RecordChecks
    from reconciler.history.runs import find_copies

    published, checks = list_published_cells(at.difference.chosen), RecordChecks(at, logs)
    lineage = _list_needed(at, [*(i for cell in cells for i in at.difference.chosen[cell].all), *new])
    at.records.fetch(lineage)
    for cell in cells:
        for claim in audit_cell(cell, at, logs, published=str(cell) in published, checks=checks):
            if claim.proof is Proof.CONTRADICTED:
                yield Remark("error", "", 0, _explain(claim, withheld=withheld), _MEASURE)
    for claim in (*checks.verify_others(lineage), *checks.verify_roles()):
        yield Remark("error", claim.where, 0, _explain(claim, withheld=withheld), _MEASURE)
    touched = set(map(str, cells))
    for claim in find_copies(at, logs) if cells else ():
        if claim.where in touched:
            yield Remark("error", "", 0, _explain(claim, withheld=withheld), _MEASURE)


def _list_needed(at: Snapshot, identities: Iterable[str]) -> set[str]:
    """These records, and all that they were made from."""
    ahead = list(identities)
    found: set[str] = set()
    while ahead:
        identity = ahead.pop()
        if identity not in found and identity in at.committed.summaries:
            found.add(identity)
            ahead += [upstream for _, upstream in at.committed.summaries[identity].upstream]
    return found


def _explain(claim: Claim, *, withheld: bool) -> str:
    return f"{claim.where}: {claim.what}: {'its logs say otherwise' if withheld else claim.detail}"


def _find_edited(root: Path, at: Snapshot, touched: set[str], logs: Logs) -> Iterator[Remark]:
    if not touched:
        return
    tree = at.desired.submission.tree.rstrip("/")
    from reconciler.history.rendered import find_committed_tree, find_unlike_files, render_commit

    committed = find_committed_tree(root, at.commit, tree)
    if not committed or not list_published_cells(at.difference.chosen):
        return
    try:
        files = render_commit(root, at, logs)
    except (ReconcilerError, KeyError, OSError) as error:
        yield Remark("warning", tree, 0, f"its files cannot be compared: the tree cannot be rendered: {error}")
        return
    for name, _, why in find_unlike_files(root, files, committed, logs):
        if f"{tree}/{name}" in touched:
            yield Remark("error", f"{tree}/{name}", 0, f"a rendered file was edited: {why}", _RENDER)
