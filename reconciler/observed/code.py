"""The digest of a harness command's code: a file, or a folder without what git ignores there."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from reconciler.observed.digest_cache import DigestCache, is_of_system, seal
from reconciler.storage.code_files import list_code_names, select_kept_names
from reconciler.storage.files import hash_listing
from reconciler.storage.storage_errors import refuse_storage_error


def hash_code(
    path: Path, stamps: DigestCache, placed: Collection[Path] = (), written: Collection[str] = ()
) -> str | None:
    """None when it cannot be read. A commit of what is there already changes nothing; an edit of one line does.
    ``placed``: files that do not count, by resolved path; ``written``: what runs created there."""
    if not path.is_dir():
        return stamps.hash_source(path)
    if is_of_system(path):
        return None
    try:
        names = [name for name in list_code_names(path) if not placed or (path / name).resolve() not in placed]
        stated = [(name, s.st_size, s.st_mtime_ns) for name in names for s in ((path / name).stat(),)]
        now = seal("code", [*stated, *((name, 0, 0) for name in sorted(written))])
        return stamps.get_remembered(
            f"{path}/ (code without outputs)", now, lambda: _digest(path, names, stamps, written)
        )
    except OSError as error:
        refuse_storage_error(error, path)
        return None


def _digest(folder: Path, names: list[str], stamps: DigestCache, written: Collection[str]) -> str:
    """git is asked only when something in the folder is not as it was: a warm plan need not load it."""
    kept = select_kept_names(folder, names, written)
    return hash_listing({name: stamps.hash_source(folder / name) or "" for name in kept})
