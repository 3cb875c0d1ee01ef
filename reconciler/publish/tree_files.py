"""Write a rendered tree to disk: only differing files are written, and only files rendered earlier are removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from reconciler.observed.rendered import SHARED, list_levels
from reconciler.resource.kinds import Cell
from reconciler.storage.files import copy, hash_file, remove, replace
from reconciler.storage.storage_errors import convert_storage_errors
from reconciler.tree.content import Content, LogRef, hash_content


def write_tree(
    tree: Path, rendered: Iterable[tuple[str, Content]], before: Iterable[str], stored: Callable[[LogRef], Path]
) -> dict[str, str]:
    """Make ``tree`` contain exactly these files among those that we rendered, and return {path: sha256}. Other files
    are not changed."""
    written: dict[str, str] = {}
    folders: set[str] = set()
    with convert_storage_errors(tree):
        tree.mkdir(parents=True, exist_ok=True)
    for path, content in rendered:
        target, sha256 = tree / path, hash_content(content)
        written[path] = sha256
        replaced = _find_replaced(tree, path, folders)
        if replaced:
            remove(replaced)
        elif target.is_file() and hash_file(target) == sha256:
            continue
        if isinstance(content, LogRef):
            copy(stored(content), target)
        else:
            replace(target, content)
    remove_rendered(tree, set(before) - set(written))
    return written


def _find_replaced(tree: Path, path: str, folders: set[str]) -> Path | None:
    """Find what has replaced a file of the tree or a folder above it: a link, which would lead out of the tree, or an
    entry of the wrong kind. ``folders``: those already examined; real ones are added."""
    *above, name = list_levels(path)
    for level in above:
        if level in folders:
            continue
        entry = tree / level
        if entry.is_symlink() or (entry.exists() and not entry.is_dir()):
            return entry
        folders.add(level)
    entry = tree / name
    return entry if entry.is_symlink() or entry.is_dir() else None


def remove_rendered(tree: Path, paths: Iterable[str]) -> None:
    folders: set[str] = set()
    for path in sorted(paths, reverse=True):
        entry = _find_replaced(tree, path, folders) or tree / path
        remove(entry)
        folder = entry.parent
        while folder != tree and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def group_by_cell(files: Mapping[str, str], cells: Mapping[Cell, Cell]) -> dict[str, dict[str, str]]:
    """Return cell → its rendered files; the rest are shared. ``cells``: cell as named by its folders -> cell."""
    owners = {(c.division, f"/{c.system}/{c.benchmark}/{c.scenario}/"): str(cell) for c, cell in cells.items()}
    found: dict[str, dict[str, str]] = {SHARED: {}}
    for path, sha256 in files.items():
        division, *_ = parts = path.split("/")
        names = (f"/{'/'.join(parts[i : i + 3])}/" for i in range(len(parts) - 3))
        owner = next((owners[division, name] for name in names if (division, name) in owners), SHARED)
        found.setdefault(owner, {})[path] = sha256
    return found
