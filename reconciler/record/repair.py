"""Brings damaged or missing records and logs back: from their other copy here, else from git."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from reconciler.record.store import discard, find_artifact, quarantine, restore
from reconciler.storage.files import RepositoryPaths, copy, hash_bytes, hash_file, replace

HeadFile = Callable[[str], bytes | None]
Copies = Callable[[str], Iterable[Path]]


def repair_record(paths: RepositoryPaths, path: str, head_file: HeadFile) -> str:
    """Repair a damaged record file (``path`` relative to the repository), and say what was done, in words."""
    committed = head_file(path)
    full = paths.root / path
    digest = full.stem.rpartition("-")[2]
    if committed is not None and hash_bytes(committed).startswith(digest):
        if full.is_dir():
            quarantine(paths, full, full.name)
        replace(full, committed)
        return "restored from git"
    return f"moved to {quarantine(paths, full, full.name)}; what it recorded counts as never done"


def repair_artifact(paths: RepositoryPaths, place: str, sha256: str, head_file: HeadFile, copies: Copies) -> bool:
    """True where a log or object is good again, or may be forgotten. A log that is in no copy is lost: False.

    ``copies`` gives further files that should have these bytes: the rendered tree's.
    """
    discard(paths, place, sha256)
    if restore(paths, place, sha256):
        return True
    if place != "logs":
        return True  # nothing needs it until an action reads it, and then it is made again
    committed = head_file(f"state/logs/{sha256}")
    if committed is not None and hash_bytes(committed) == sha256:
        replace(find_artifact(paths, place, sha256), committed)
        return True
    for path in copies(sha256):
        if path.is_file() and hash_file(path) == sha256:
            copy(path, find_artifact(paths, place, sha256))
            return True
    return False
