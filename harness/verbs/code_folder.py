"""Files that a run leaves in the folder of its command's code; they are not part of that code."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

SKIPPED = frozenset({".git", ".reconcile", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"})
# Folders that builds, runs and tools fill. Files in them still count as code if git tracks them.
OUTPUTS = frozenset({"build", "logs", ".cache"})
_LOG = re.compile(r"mlperf_log_.*\.(txt|json)$|.*\.log$")
# At the top level, files left by compliance tests and scorers run manually (compliance.py of NVIDIA's code lists them).
_OF_TESTS = frozenset(
    {"audit.config", "verify_accuracy.txt", "verify_performance.txt", "accuracy.txt", "predictions.json"}
)
_MOST_ENTRIES, _MOST_CREATED = 200_000, 500


def is_output(name: str) -> bool:
    """Return True if a file's name, relative to the code folder, shows that a build, a run or a tool wrote it."""
    *folders, file = name.split("/")
    return not OUTPUTS.isdisjoint(folders) or _LOG.fullmatch(file) is not None or name in _OF_TESTS


def list_entries(folder: Path) -> frozenset[str]:
    """List files, and folders with a trailing slash, unless they have names of outputs. Links are not followed."""
    found: list[str] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED | OUTPUTS]
        above = Path(parent).relative_to(folder)
        found += [(above / name).as_posix() for name in files if not is_output(name)]
        found += [f"{(above / name).as_posix()}/" for name in folders]
        if len(found) > _MOST_ENTRIES:
            break
    return frozenset(found)


def list_created(before: frozenset[str], after: frozenset[str]) -> list[str]:
    """List the new files and folders, without the contents of new folders. Compiled Python files do not count."""
    new = sorted(name for name in after - before if not name.endswith(".pyc"))
    folders = tuple(name for name in new if name.endswith("/"))
    return [name for name in new if not is_below(name, folders)][:_MOST_CREATED]


def is_below(name: str, folders: Iterable[str]) -> bool:
    return any(name != folder and name.startswith(folder) for folder in folders)
