"""The digest of a harness command's code: a file, or a folder without what git ignores there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from reconciler.files import hash_listing
from reconciler.foreign import walk_files
from reconciler.observed.digest_cache import DigestCache, seal
from reconciler.storage_errors import refuse_storage_error

DEEPEST_CODE = 200  # folders within each other
SKIPPED = frozenset({".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"})


def hash_code(path: Path, stamps: DigestCache, placed: Collection[Path] = ()) -> str | None:
    """None when it cannot be read. A commit of what is there already changes nothing; an edit of one line does.
    ``placed``: files that do not count, by resolved path."""
    if not path.is_dir():
        return stamps.source(path)
    try:
        names = [name for name in _names(path) if not placed or (path / name).resolve() not in placed]
        stated = [(name, s.st_size, s.st_mtime_ns) for name in names for s in ((path / name).stat(),)]
        now = seal("code", stated)
        return stamps.remembered(f"{path}/ (code)", now, lambda: _digest(path, names, stamps))
    except OSError as error:
        refuse_storage_error(error, path)
        return None


def _names(folder: Path) -> Iterator[str]:
    """Relative names of the files, links to nowhere left out."""
    for path in walk_files(folder, DEEPEST_CODE, SKIPPED):
        if not path.name.endswith(".pyc") and path.is_file():
            yield path.relative_to(folder).as_posix()


def _digest(folder: Path, names: list[str], stamps: DigestCache) -> str:
    """git is asked only when something in the folder is not as it was: a warm plan need not load it."""
    from reconciler.git import list_kept_files

    kept = list_kept_files(folder)
    chosen = [name for name in names if name in kept] if kept else names
    return hash_listing({name: stamps.source(folder / name) or "" for name in chosen})
