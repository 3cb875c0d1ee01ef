"""Which files of a folder are the code of a command: what git keeps there, without what builds, runs and tools write.

Every plan asks, and reads no byte of them while their sizes and times are as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from harness.contract import SKIPPED, is_below, is_output
from reconciler.storage.untrusted_files import walk_files

DEEPEST_CODE = 200  # folders within each other
# Files that a person may have added while a run was on: they count wherever no rule of names says otherwise.
SOURCES = (".py", ".sh", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".go", ".rs", ".java", ".mk", ".cmake")
IGNORED, OUTPUT, WRITTEN = "git ignores it", "an output by its name", "written by a run"


def list_code_names(folder: Path) -> Iterator[str]:
    """Relative names of the files below a folder of code, links to nowhere and compiled files left out."""
    for path in walk_files(folder, DEEPEST_CODE, SKIPPED):
        if not path.name.endswith(".pyc") and path.is_file():
            yield path.relative_to(folder).as_posix()


def select_kept_names(folder: Path, names: Iterable[str], written: Collection[str] = ()) -> list[str]:
    """Select the names that are code. ``written``: what runs created there, folders with a slash behind them."""
    return [name for name, why in explain_names(folder, names, written) if not why]


def explain_names(folder: Path, names: Iterable[str], written: Collection[str] = ()) -> list[tuple[str, str]]:
    """Each name with why it is no code, "" where it is. What git tracks always is."""
    from reconciler.storage.git import list_kept_files

    kept = list_kept_files(folder)
    folders = tuple(name for name in written if name.endswith("/"))

    def explain(name: str) -> str:
        if kept and name not in kept:
            return IGNORED
        if kept.get(name):
            return ""
        if is_output(name):
            return OUTPUT
        created = name in written or is_below(name, folders)
        return WRITTEN if created and not name.endswith(SOURCES) else ""

    return [(name, explain(name)) for name in names]
