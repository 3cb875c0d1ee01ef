"""What the attempts of a pass share, for tests of its steps."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from reconciler.execute.executors.table import Executors
from reconciler.execute.perform import AttemptContext, Check, skip_check
from reconciler.storage.files import RepositoryPaths


def make_context(root: Path, check: Check = skip_check) -> AttemptContext:
    """Of a repository without any record."""
    paths = RepositoryPaths(root)
    return AttemptContext(
        paths,
        Executors.make(paths),
        "",
        {},
        False,
        lambda: datetime.now(UTC),
        (),
        lambda a: root / a.name,
        {}.__getitem__,
        check=check,
    )
