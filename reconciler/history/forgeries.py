"""What a pull request brings that its own logs deny: results under a correct name, and files of a tree that nobody
renders. Only what it adds or changes is read again; ``audit`` reads all of a commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from reconciler import git
from reconciler.diff.claims import Claim, Proof
from reconciler.diff.difference import list_published_cells
from reconciler.diff.impact import Remark
from reconciler.errors import ReconcilerError
from reconciler.history.commit_records import RECORDS
from reconciler.history.logs import Logs, open_logs
from reconciler.history.snapshot import Snapshot
from reconciler.resource.kinds import Cell

_RENDER = "render the tree again (`reconcile`), and commit what it wrote"
_MEASURE = "restore the records and logs as the pass left them, or measure again; `reconcile audit` shows every claim"


def find_forgeries(root: Path, base: str, at: Snapshot, *, withheld: bool = False) -> tuple[Remark, ...]:
    """``withheld``: without any measured figure."""
    changed = git.list_changed_files(root, base, at.commit)
    with open_logs(root, at.commit) as logs:
        return (*_find_denied(at, changed, logs, withheld=withheld), *_find_edited(root, at, changed, logs))


def _find_denied(
    at: Snapshot, changed: Mapping[str, tuple[str, str]], logs: Logs, *, withheld: bool
) -> Iterator[Remark]:
    cells = sorted(cell for cell in at.difference.chosen if _is_touched(cell, at, changed))
    if not cells:
        return
    from reconciler.history.audit import audit_cell
    from reconciler.history.copies import find_copies

    published = list_published_cells(at.difference.chosen)
    at.records.fetch(identity for cell in cells for identity in at.difference.chosen[cell].all)
    for cell in cells:
        for claim in audit_cell(cell, at, logs, published=str(cell) in published):
            if claim.proof is Proof.CONTRADICTED:
                yield Remark("error", "", 0, _explain(claim, withheld=withheld), _MEASURE)
    touched = set(map(str, cells))
    for claim in find_copies(at, logs):
        if claim.where in touched:
            yield Remark("error", "", 0, _explain(claim, withheld=withheld), _MEASURE)


def _is_touched(cell: Cell, at: Snapshot, changed: Mapping[str, tuple[str, str]]) -> bool:
    """Whether a record or a log that its result rests on is new."""
    known = at.committed.summaries
    records = [identity for identity in at.difference.chosen[cell].all if identity in known]
    logs = (a.sha256 for identity in records for a in known[identity].artifacts if a.place == "logs")
    return any(f"{RECORDS}/{i}.json" in changed for i in records) or any(f"state/logs/{d}" in changed for d in logs)


def _explain(claim: Claim, *, withheld: bool) -> str:
    return f"{claim.where}: {claim.what}: {'its logs say otherwise' if withheld else claim.detail}"


def _find_edited(root: Path, at: Snapshot, changed: Mapping[str, tuple[str, str]], logs: Logs) -> Iterator[Remark]:
    """Of the tree in the commit, where the pull request touches it."""
    tree = at.desired.submission.tree.rstrip("/")
    touched = {path for path in changed if tree and path.startswith(f"{tree}/")}
    if not touched:
        return
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
