"""Reads, for `history` and `blame`, every record that HEAD's history ever had, and the cells that the spec declares
now."""

from __future__ import annotations

from reconciler.errors import ReconcilerError, RepositoryError
from reconciler.history.record_history import RecordHistory, read_record_history
from reconciler.reconcile.planning import Options, PlanCache
from reconciler.resource.kinds import Cell, Kind
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths


def read_past(paths: RepositoryPaths) -> RecordHistory:
    """Read the past of HEAD; before the first commit there is nothing yet."""
    try:
        tip = git.resolve(paths.root, "HEAD")
    except RepositoryError:
        return RecordHistory(paths.root, "", {}, {}, frozenset(), {})
    return read_record_history(paths.root, tip)


def list_declared_cells(paths: RepositoryPaths) -> list[Cell]:
    """List the cells of the spec on disk; none where it is broken, which other commands report."""
    try:
        desired = PlanCache.of(paths).load_desired(Options())
    except ReconcilerError:
        return []
    return [r.cell for r in desired.resources if r.kind is Kind.RESULT and r.cell is not None]
