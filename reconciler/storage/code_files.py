"""Select the files of a folder that are a command's code: those that git keeps there, except files that builds, runs
and tools write.

Every plan needs this, so it does not read files whose size and time are unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from harness.contract import SKIPPED, is_below, is_output
from reconciler.storage.untrusted_files import walk_files

DEEPEST_CODE = 200  # nested folders
# Folders of a submission, which also contain published code. They are recognised by a run of a system that is
# described.
PUBLISHED = frozenset({"compliance", "documentation", "measurements", "results", "systems"})
_RUN = re.compile("results/([^/]+)/.+/performance/run_1/")
# Folders of one of our repositories, which may be next to code.
_OURS = frozenset({"schemas", "specs", "state"})
IGNORED, OUTPUT, STAGED = "git ignores it", "an output by its name", "of the submission, not of its code"
WRITTEN = "created by a run, and git does not track it"


def list_code_names(folder: Path) -> Iterator[str]:
    """Yield relative names of the files below a folder of code, without broken links and compiled files."""
    for path in walk_files(folder, DEEPEST_CODE, SKIPPED):
        if not path.name.endswith(".pyc") and path.is_file():
            yield path.relative_to(folder).as_posix()


def select_kept_names(folder: Path, names: Iterable[str], written: Collection[str] = ()) -> list[str]:
    """Select the names that are code. ``written``: files that runs created there; folders end with a slash."""
    return [name for name, why in explain_names(folder, names, written) if not why]


def explain_names(folder: Path, names: Iterable[str], written: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return each name with the reason why it is not code, "" if it is. Files tracked by git are code, except those of
    a published submission."""
    from reconciler.storage.git import list_kept_files

    kept = list_kept_files(folder)
    folders = tuple(name for name in written if name.endswith("/"))
    listed = dict.fromkeys(names)
    ran = {match[1] for name in listed if (match := _RUN.match(name))}
    staged = PUBLISHED if any(f"systems/{system}.json" in listed for system in ran) else frozenset[str]()
    staged |= _OURS if (folder / ".reconcile").is_dir() else frozenset()

    def explain(name: str) -> str:
        if name.partition("/")[0] in staged:
            return STAGED
        if kept and name not in kept:
            return IGNORED
        if kept.get(name):
            return ""
        if is_output(name):
            return OUTPUT
        return WRITTEN if name in written or is_below(name, folders) else ""

    return [(name, explain(name)) for name in listed]
