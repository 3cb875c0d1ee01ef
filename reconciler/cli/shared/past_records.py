"""Reads, for `history` and `blame`, every record that HEAD's history ever had."""

from __future__ import annotations

from reconciler.errors import RepositoryError
from reconciler.history.record_history import RecordHistory, read_record_history
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths


def read_past(paths: RepositoryPaths) -> RecordHistory:
    """Read the past of HEAD; before the first commit there is nothing yet."""
    try:
        tip = git.resolve(paths.root, "HEAD")
    except RepositoryError:
        return RecordHistory(paths.root, "", {}, {}, frozenset(), {})
    return read_record_history(paths.root, tip)
