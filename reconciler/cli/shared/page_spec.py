"""A spec file for the page: its lines as they are written, each with the commit that set it."""

from __future__ import annotations

from typing import Any

from reconciler.cli.why import show_line_commit
from reconciler.errors import ReconcilerError
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.untrusted_files import read_regular

_LARGEST = 16 << 20  # bytes


def report_spec(paths: RepositoryPaths, file: str) -> dict[str, Any]:
    """``file``: as origins name it. Raises ReconcilerError."""
    try:
        text = read_regular(paths.root / file, _LARGEST).decode("utf-8", "replace")
    except OSError as error:
        raise ReconcilerError(f"{file}: {error.strerror}", fix="look again: the file has changed since") from error
    lines = text.splitlines()
    commits = git.find_line_commits(paths.root, file, range(1, len(lines) + 1))
    return {
        "file": file,
        "title": file,
        "lines": [
            {
                "number": number,
                "text": line,
                "commit": commits[number].commit if number in commits else "",
                "said": show_line_commit(commits[number]) if number in commits else "",
            }
            for number, line in enumerate(lines, 1)
        ],
    }
