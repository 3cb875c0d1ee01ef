"""Selects the files of a received submission that may be read, and those that a submission tree can contain."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

from reconciler.storage.untrusted_files import walk_files
from reconciler.tree.layout import is_portable


def is_readable(path: Path, unreadable: Collection[Path]) -> bool:
    """Return True if neither a path nor any of its parents is ``unreadable``."""
    return not any(path.is_relative_to(entry) for entry in unreadable)


def walk_sent(folder: Path) -> Iterator[Path]:
    """Yield its files, up to the depth of any valid tree."""
    with contextlib.suppress(OSError):
        yield from walk_files(folder)


def find_publishable(folder: Path, shown: str, unreadable: Collection[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder that a tree may contain, with their places below ``shown``. ``unreadable``: paths
    that are not read."""
    for path in sorted(walk_sent(folder)) if is_readable(folder, unreadable) and folder.is_dir() else ():
        names = path.relative_to(folder).parts
        if is_readable(path, unreadable) and path.is_file() and all(map(is_portable, names)):
            yield "/".join((shown, *names)), path
