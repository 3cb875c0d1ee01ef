"""Valid runs that a commit's history recorded and the commit no longer has: a policy chooses among what is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reconciler.diff.claims import Claim, Proof
from reconciler.errors import RecordError
from reconciler.history.commit_records import RECORDS
from reconciler.history.snapshot import Snapshot
from reconciler.record.codec import decode, summarize
from reconciler.resource.kinds import Cell
from reconciler.resource.records import Ended
from reconciler.storage import git
from reconciler.storage.git_history import Appearances


def find_missing_runs(root: Path, at: Snapshot, appeared: Appearances) -> Iterator[Claim]:
    """As far as the history here goes back. A run with other inputs than the published one could not take its place."""
    cells = {at.records[i].key: cell for cell, chosen in at.difference.chosen.items() if (i := chosen.performance)}
    begins = {f"{RECORDS}/Run/{key[:12]}-" for key in cells}
    gone = {
        (path, blob): commit
        for (path, blob), commit in appeared.items()
        if path.rpartition("-")[0] + "-" in begins and path.endswith(".json")
        if path.removeprefix(f"{RECORDS}/").removesuffix(".json") not in at.records and path not in at.damaged
    }
    contents = git.read_blobs(root, [blob for _, blob in gone])
    for (path, blob), commit in sorted(gone.items()):
        if blob in contents and (found := _valid(contents[blob], path)) and found[0] in cells:
            yield _claim(cells[found[0]], path, found[1], commit.id)


def tell_shallow(root: Path) -> Iterator[Claim]:
    """Whoever cuts the history off also cuts off what was removed from it."""
    if git.is_shallow(root):
        detail = (
            "this clone is shallow: runs and decisions that were removed earlier are not seen (git fetch --unshallow)"
        )
        yield Claim("submission", "history", Proof.ATTESTED, detail)


def _valid(data: bytes, path: str) -> tuple[str, str] | None:
    """Key and figures of a valid performance run; None for anything else."""
    try:
        record = decode(data, path)
        summary = summarize(record, path)
    except RecordError:
        return None
    if record.ended is not Ended.DONE or summary.metric is None or summary.validity == "INVALID":
        return None
    return record.key, f"{' '.join(summary.metric)} of {record.started}"


def _claim(cell: Cell, path: str, figures: str, commit: str) -> Claim:
    detail = f"{path}, {figures}, came with {commit[:12]} and is gone: the policy may have published it"
    return Claim(str(cell), "performance: a run that was removed", Proof.MISSING, detail)
