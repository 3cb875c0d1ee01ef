"""A tree in memory, read as if it were on disk: an audit renders one and holds it against the rules for anyone's tree,
and tens of thousands of small files would take it longer to write than to judge.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct

ROOT = Path("in-memory:")  # a name that no path of a tree on disk begins with: it is relative, and never made
_CURRENT: ContextVar[InMemoryTree | None] = ContextVar("current_tree", default=None)


class InMemoryTree(Struct, frozen=True):
    """``files``: path below the root → what gives its bytes; ``folders``: path → names of folders and of files in it,
    both sorted."""

    files: Mapping[str, Callable[[], bytes]]
    folders: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]


@contextlib.contextmanager
def use_in_memory_tree(files: Mapping[str, Callable[[], bytes]]) -> Iterator[Path]:
    """Give the root under which its files are read within. Nothing on disk is."""
    folders: dict[str, tuple[set[str], set[str]]] = {"": (set(), set())}
    for path in files:
        parent, _, name = path.rpartition("/")
        _enter(parent, folders)[1].add(name)
    listed = {path: (tuple(sorted(below)), tuple(sorted(names))) for path, (below, names) in folders.items()}
    token = _CURRENT.set(InMemoryTree(files, listed))
    try:
        yield ROOT
    finally:
        _CURRENT.reset(token)


def _enter(path: str, folders: dict[str, tuple[set[str], set[str]]]) -> tuple[set[str], set[str]]:
    """A folder, which those above it list."""
    if path not in folders:
        folders[path] = set(), set()
        parent, _, name = path.rpartition("/")
        _enter(parent, folders)[0].add(name)
    return folders[path]


def find_in_memory_tree() -> InMemoryTree | None:
    """The tree in memory that is read now; None where trees are read from disk."""
    return _CURRENT.get()


def name_in_tree(path: Path | str) -> str:
    """A path under the root as the tree calls it: "" for the root itself."""
    return str(path).removeprefix(str(ROOT)).removeprefix("/")
