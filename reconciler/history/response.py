"""The evidence for one result, from a commit alone: records, logs, the commits behind them, and what an audit says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from reconciler.diff.claims import Claim, Proof
from reconciler.diff.difference import list_published_cells
from reconciler.errors import ReconcilerError
from reconciler.history.audit import audit_cell
from reconciler.history.commit_records import RECORDS
from reconciler.history.logs import Logs, open_logs
from reconciler.history.rendered import verify_tree_files
from reconciler.history.snapshot import Snapshot
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Record
from reconciler.spec.files import compute_blob_id
from reconciler.storage import git


class EvidencedRun(Struct, frozen=True):
    """A record of the result. ``brought``: the commit that has it first, ``specs``: path → the first commit in which
    that spec had the bytes that the run was made from; "" where no commit has them. ``missing``: logs that are not in
    the commit."""

    name: str
    id: str
    record: Record
    brought: str
    specs: Mapping[str, str]
    missing: tuple[str, ...]


class Evidence(Struct, frozen=True):
    """``claims``: of the audit, about this cell. ``settings``: name → value and the line that set it. ``files``: path
    below the folder of the response → content."""

    cell: Cell
    commit: str
    runs: tuple[EvidencedRun, ...]
    claims: tuple[Claim, ...]
    settings: Mapping[str, tuple[str, str]]
    files: Mapping[str, bytes]


def gather_evidence(root: Path, at: Snapshot, cell: Cell) -> Evidence:
    """ReconcilerError for a cell that has no result in the commit."""
    chosen = at.difference.chosen[cell]
    names = [("performance", chosen.performance), ("accuracy", chosen.accuracy), ("score", chosen.score)]
    names += [*chosen.tests, *((f"{name}-verdict", identity) for name, identity in chosen.verdicts)]
    known = [(name, identity) for name, identity in names if identity in at.records]
    if not known:
        fix = "`reconcile history CELL` lists what was measured; --at COMMIT names another commit"
        raise ReconcilerError(f"{cell} has no result in commit {at.commit[:12]}", fix=fix)
    published = str(cell) in list_published_cells(at.difference.chosen)
    files: dict[str, bytes] = {}
    with open_logs(root, at.commit) as logs:
        runs = tuple(_gather_run(root, at, logs, name, identity, files) for name, identity in known)
        claims = tuple(audit_cell(cell, at, logs, published=published))
        # A claim about the files of this cell is named for it; those about other cells are no evidence here.
        tree = tuple(claim for claim in verify_tree_files(root, at, logs) if claim.where == str(cell))
    return Evidence(cell, at.commit, runs, (*claims, *tree), _collect_settings(at, cell), files)


def _gather_run(
    root: Path, at: Snapshot, logs: Logs, name: str, identity: str, files: dict[str, bytes]
) -> EvidencedRun:
    record = at.records[identity]
    path = f"{RECORDS}/{identity}.json"
    data = git.read_blobs(root, [blob for blob, _ in git.list_files_at(root, at.commit, [path]).values()])
    content = next(iter(data.values()), b"")
    files[f"{name}/record.json"] = content
    kept = [artifact for artifact in record.artifacts if artifact.place == "logs"]
    good = logs.read(kept)
    files |= {f"{name}/{artifact.name}": good[artifact.sha256] for artifact in kept if artifact.sha256 in good}
    missing = tuple(a.name for a in record.artifacts if a.sha256 not in good)
    brought = _find_first(root, path, compute_blob_id(content))
    specs = {file: _find_first(root, file, blob) for file, blob in record.spec.items()}
    return EvidencedRun(name, identity, record, brought, specs, missing)


def _find_first(root: Path, path: str, blob: str) -> str:
    """The oldest commit that gave a file these bytes."""
    return next(reversed(git.find_blob_commits(root, path, blob)), "")


def _collect_settings(at: Snapshot, cell: Cell) -> dict[str, tuple[str, str]]:
    """Collect the inputs of the cell's own resources: the value of each, and the line that set it."""
    found: dict[str, tuple[str, str]] = {}
    for resource in _list_own(at, cell):
        for item in at.desired.detail(resource).inputs:
            if item.upstream is None:
                found.setdefault(item.name, (str(item.value), str(item.origin)))
    return dict(sorted(found.items()))


def _list_own(at: Snapshot, cell: Cell) -> Iterator[Address]:
    """The cell's runs, scores and tests with what they are made from."""
    queue = [Address(Kind.RESULT, str(cell))]
    done: set[Address] = set()
    while queue:
        address = queue.pop()
        if address in done or address not in at.desired.by_address:
            continue
        done.add(address)
        yield address
        queue += at.desired.by_address[address].upstream


def count_unproven(claims: tuple[Claim, ...]) -> int:
    return sum(claim.proof in (Proof.MISSING, Proof.CONTRADICTED) for claim in claims)
