"""Files of a submission that somebody sent: which of them may be read, and which a submission tree can hold."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path

from reconciler.storage.untrusted_files import walk_files
from reconciler.tree.layout import is_portable


def is_readable(path: Path, unreadable: Collection[Path]) -> bool:
    """True where neither a path nor anything above it is ``unreadable``."""
    return not any(path.is_relative_to(entry) for entry in unreadable)


def walk_sent(folder: Path) -> Iterator[Path]:
    """Its files, as far as they do not lie deeper than any tree goes."""
    with contextlib.suppress(OSError):
        yield from walk_files(folder)


def find_publishable(folder: Path, shown: str, unreadable: Collection[Path]) -> Iterator[tuple[str, Path]]:
    """Find the files of a folder that a tree may have, by their place: below ``shown``. ``unreadable``: what is not
    read."""
    for path in sorted(walk_sent(folder)) if is_readable(folder, unreadable) and folder.is_dir() else ():
        names = path.relative_to(folder).parts
        if is_readable(path, unreadable) and path.is_file() and all(map(is_portable, names)):
            yield "/".join((shown, *names)), path
