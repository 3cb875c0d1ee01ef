"""Compare the rendered tree with the note of what was rendered: missing, edited, replaced and unknown files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, field

from reconciler.observed.digest_cache import DigestCache, Stated, seal
from reconciler.resource.codec import CodecError, decode_json, encode_json
from reconciler.storage.files import RepositoryPaths, hash_bytes, read_checked, write_checked

VERSION = 2
SHARED = "submission"  # key for the files that all cells share
_LINK = -1  # size stated for a link, which no file has


class Rendered(Struct, frozen=True):
    """The note of a rendered tree. ``tree``: as ``spelled``. ``cells``: cell (or "submission") → fingerprint of its
    sources when rendered. ``files``: cell → {path: sha256}. ``digest`` identifies all of it. While a tree is being
    written, only unchanged cells have a fingerprint."""

    tree: str = ""
    cells: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    digest: str = ""

    @property
    def unfinished(self) -> bool:
        return bool(self.tree) and SHARED not in self.cells

    def is_of(self, paths: RepositoryPaths, tree: Path) -> bool:
        """Return True if this note is about ``tree``. Older notes contain the absolute path of a tree in the
        repository. In these, a tree with the same path below the repository counts, since the repository may have been
        moved."""
        here = spell_entry(paths, tree)
        if self.tree == here or not self.tree.startswith("/") or here.startswith("/"):
            return self.tree == here
        below = Path(here).parts
        return Path(self.tree).parts[-len(below) :] == below


def spell_entry(paths: RepositoryPaths, tree: Path) -> str:
    """Return the path of a tree inside the repository relative to it, because repositories are moved and copied; other
    paths unchanged."""
    full, root = tree.resolve(), paths.root.resolve()
    return full.relative_to(root).as_posix() if full.is_relative_to(root) else str(full)


class _Note(Struct, frozen=True):
    version: int
    tree: str
    cells: Mapping[str, str]
    files: Mapping[str, Mapping[str, str]]


def read_rendered(paths: RepositoryPaths) -> Rendered:
    data = read_checked(paths.index / "tree.json") or b""
    try:
        note: _Note = decode_json(data, _Note)
    except CodecError:
        return Rendered()
    return Rendered(note.tree, note.cells, note.files, hash_bytes(data)) if note.version == VERSION else Rendered()


def write_rendered(paths: RepositoryPaths, rendered: Rendered) -> None:
    note = _Note(VERSION, rendered.tree, rendered.cells, rendered.files)
    write_checked(paths.index / "tree.json", encode_json(note))


def _walk(folder: str, found: list[Stated]) -> None:
    with os.scandir(folder) as opened:
        entries = list(opened)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            _walk(entry.path, found)
        else:
            status = entry.stat(follow_symlinks=False)
            size = _LINK if entry.is_symlink() else status.st_size
            found.append((entry.path, size, status.st_mtime_ns))


def list_levels(path: str) -> Iterator[str]:
    """Yield the folders above a file of the tree, outermost first, and the file itself."""
    parts = path.split("/")
    yield from ("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def observe_tree(tree: Path, rendered: Rendered, stamps: DigestCache) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return cell → (path, "missing" | "edited" | …) pairs; the key "" lists files that were not rendered. A
    link or file instead of a folder is listed once in each cell."""
    if not tree.is_dir():
        return {}
    stated: list[Stated] = []
    _walk(str(tree), stated)
    sealed = seal(rendered.digest, stated)
    if stamps.was_intact("tree", sealed):
        return {}
    present = {file[0].removeprefix(f"{tree}/"): file for file in stated}
    found: dict[str, dict[str, str]] = {}
    known = set()
    for cell, files in rendered.files.items():
        for path, sha256 in files.items():
            place = next((level for level in list_levels(path) if level in present), path)
            known.add(place)
            entry = present.get(place)
            if entry is None:
                found.setdefault(cell, {})[place] = "missing"
            elif entry[1] == _LINK or place != path:
                found.setdefault(cell, {})[place] = "a link" if entry[1] == _LINK else "a file"
            elif stamps.get_digest(*entry) != sha256:
                found.setdefault(cell, {})[place] = "edited"
    unknown = sorted(set(present) - known)
    if unknown:
        found[""] = dict.fromkeys(unknown, "unknown")
    stamps.note_check("tree", sealed, well=not found)
    return {cell: tuple(items.items()) for cell, items in found.items()}
