"""Which files of a folder are the code of a command: what git keeps there, without what is compiled or cached.

Every plan asks, and reads no byte of them while their sizes and times are as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from reconciler.foreign import walk_files

DEEPEST_CODE = 200  # folders within each other
SKIPPED = frozenset({".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"})


def list_code_names(folder: Path) -> Iterator[str]:
    """Relative names of the files below a folder of code, links to nowhere and compiled files left out."""
    for path in walk_files(folder, DEEPEST_CODE, SKIPPED):
        if not path.name.endswith(".pyc") and path.is_file():
            yield path.relative_to(folder).as_posix()


def select_kept_names(folder: Path, names: Iterable[str]) -> list[str]:
    """Those that git has or would take; all of them where there is no git."""
    from reconciler.git import list_kept_files

    kept = list_kept_files(folder)
    return [name for name in names if name in kept] if kept else list(names)
