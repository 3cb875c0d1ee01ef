"""Find the commits that last changed lines of a spec."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from reconciler.resource.inputs import Origin
from reconciler.resource.quantities import show_age
from reconciler.storage.files import RepositoryPaths

if TYPE_CHECKING:
    from reconciler.storage.git import LineCommit


def find_commits(paths: RepositoryPaths, origins: Iterable[Origin]) -> dict[Origin, LineCommit]:
    """Find who last changed each spec line, as far as git knows. Without lines, git is neither imported nor run."""
    by_file: dict[str, list[Origin]] = {}
    for origin in origins:
        by_file.setdefault(origin.file, []).append(origin)
    found: dict[Origin, LineCommit] = {}
    for file, group in by_file.items():
        from reconciler.storage import git

        lines = git.find_line_commits(paths.root, file, [origin.line for origin in group])
        found.update({origin: lines[origin.line] for origin in group if origin.line in lines})
    return found


def find_line_commits(paths: RepositoryPaths, origins: Iterable[Origin]) -> dict[Origin, str]:
    """Return spec line → "3f2c1ab  2 days ago"."""
    now = time.time()
    return {
        origin: f"{commit.commit[:7]}  {show_age(now - commit.when.timestamp())}" if commit.when else "not committed"
        for origin, commit in find_commits(paths, origins).items()
    }


def show_line_commit(commit: LineCommit) -> str:
    """Return for example "3f2c1ab, Ada, 2 days ago: Raise the batch size"."""
    if not commit.committed:
        return "not committed yet"
    when = show_age(time.time() - commit.when.timestamp()) if commit.when else ""
    older = " or earlier: the clone is shallow" if commit.boundary else ""
    return f"{commit.commit[:7]}, {commit.author}, {when}: {commit.summary}{older}"
